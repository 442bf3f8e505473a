"""Segments and frames of the log as bytes: pure functions, no I/O. The layout is in docs/format.md."""

import struct

from kernel.crc import crc32c
from kernel.errors import CorruptError

MAGIC = b"LABKLOG1"
HEADER_BYTES = 24
FRAME_BYTES = 16  # before the payload
PAYLOAD_BYTES = 65_536  # at most
_HEADER = struct.Struct("<8sQ")
_TAIL = struct.Struct("<II")
_LENGTH_LSN = struct.Struct("<IQ")
_CRC = struct.Struct("<I")


def header(first_lsn: int) -> bytes:
    """The header of a segment whose first frame will carry `first_lsn`."""
    start = _HEADER.pack(MAGIC, first_lsn)
    return start + _TAIL.pack(crc32c(start), 0)


def frame(lsn: int, payload: bytes) -> bytes:
    """One record as it lies in the log."""
    start = _LENGTH_LSN.pack(len(payload), lsn)
    return start + _CRC.pack(crc32c(start + payload)) + payload


def payload_at(data: bytes, offset: int, lsn: int) -> bytes | None:
    """The payload of the frame at `offset` if it is whole, good and carries `lsn`; else None."""
    if offset + FRAME_BYTES > len(data):
        return None
    length, found = _LENGTH_LSN.unpack_from(data, offset)
    end = offset + FRAME_BYTES + length
    if found != lsn or length > PAYLOAD_BYTES or end > len(data):
        return None
    payload = data[offset + FRAME_BYTES : end]
    (crc,) = _CRC.unpack_from(data, offset + 12)
    return payload if crc == crc32c(data[offset : offset + 12] + payload) else None


def payloads(data: bytes, first_lsn: int) -> tuple[list[bytes], int]:
    """The payloads of a segment from its first frame to the first that is not good, and the offset where that is."""
    found: list[bytes] = []
    offset = HEADER_BYTES
    while (payload := payload_at(data, offset, first_lsn + len(found))) is not None:
        found.append(payload)
        offset += FRAME_BYTES + len(payload)
    return found, offset


def check_torn(data: bytes, offset: int, lsn: int, where: str) -> None:
    """Raise CorruptError unless what lies at `offset`, where the frame `lsn` should, is a torn tail.

    Only the last write can be torn: a good frame anywhere behind it proves that the bad bytes are no tail.
    """
    highest = lsn + (len(data) - offset) // FRAME_BYTES
    for later in range(offset + 1, len(data) - FRAME_BYTES + 1):
        _, found = _LENGTH_LSN.unpack_from(data, later)
        if lsn < found <= highest and payload_at(data, later, found) is not None:
            raise CorruptError(f"bad frame at byte {offset} where LSN {lsn} should be, but LSN {found} follows", where)
