"""Frames: a number, a payload and a CRC over both. Pure functions on bytes, no I/O. The layout is in docs/muxd.md.

A chat's file is one frame, numbered by its version; a journal is a row of them, numbered without a gap.
"""

import struct
from zlib import crc32

from muxd.errors import CorruptError

_LENGTH_NUMBER = struct.Struct("<IQ")
_CRC = struct.Struct("<I")
HEAD_BYTES = 16  # before the payload


def frame(number: int, payload: bytes) -> bytes:
    """A payload as it lies on disk."""
    start = _LENGTH_NUMBER.pack(len(payload), number)
    return start + _CRC.pack(crc32(start + payload)) + payload


def frame_at(data: bytes, offset: int) -> tuple[int, bytes] | None:
    """The number and the payload of the frame at `offset` if it is whole and good, else None."""
    if offset + HEAD_BYTES > len(data):
        return None
    length, number = _LENGTH_NUMBER.unpack_from(data, offset)
    end = offset + HEAD_BYTES + length
    payload = data[offset + HEAD_BYTES : end]
    (crc,) = _CRC.unpack_from(data, offset + 12)
    if end > len(data) or crc != crc32(data[offset : offset + 12] + payload):
        return None
    return number, payload


def frames(data: bytes, where: str) -> tuple[list[tuple[int, bytes]], int]:
    """The good frames from the start of `data`, and the offset behind the last; what follows is a torn tail.

    Raises CorruptError if it is none: only the last write can be torn, so a good frame behind bad bytes proves damage.
    """
    found: list[tuple[int, bytes]] = []
    offset = 0
    while (good := frame_at(data, offset)) is not None and (not found or good[0] == found[-1][0] + 1):
        found.append(good)
        offset += HEAD_BYTES + len(good[1])
    if any(frame_at(data, later) for later in range(offset, len(data) - HEAD_BYTES + 1)):
        raise CorruptError(
            f"{where}: bad bytes at {offset}, and a good frame behind them: no crash leaves this; restore a copy"
        )
    return found, offset
