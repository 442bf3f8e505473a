"""CRC32C (Castagnoli), by the format's own definition."""

from __future__ import annotations

from functools import lru_cache


def _table() -> tuple[int, ...]:
    entries = []
    for value in range(256):
        for _ in range(8):
            value = value >> 1 ^ (0x82F63B78 if value & 1 else 0)
        entries.append(value)
    return tuple(entries)


_TABLE = _table()


@lru_cache(maxsize=4096)  # most frames, pages and keys are the same in every look of a trial
def crc32c(data: bytes) -> int:
    """The CRC of `data`."""
    table, crc = _TABLE, 0xFFFFFFFF
    for byte in data:
        crc = table[(crc ^ byte) & 0xFF] ^ crc >> 8
    return crc ^ 0xFFFFFFFF
