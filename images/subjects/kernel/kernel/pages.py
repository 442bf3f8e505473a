"""Pages of pages.db as bytes: roots, page-table pages, data pages. Pure functions, no I/O; layout in docs/format.md."""

import struct

from kernel.codec import canonical
from kernel.crc import crc32c

PAGE_BYTES = 4096
ROOT_MAGIC, TABLE_MAGIC, DATA_MAGIC = b"LABKROOT", b"LABKPTBL", b"LABKPAGE"
VERSION = 1
_ROOT = struct.Struct("<8sIIQQ4HI")
_PAIR = struct.Struct("<II")
_CRC = struct.Struct("<I")
_TABLE = struct.Struct("<8sII")
_ENTRY = struct.Struct("<HHII")
_DATA = struct.Struct("<8sIHHI")
_CELL = struct.Struct("<HH")
ENTRIES_PER_PAGE = (PAGE_BYTES - _TABLE.size) // _ENTRY.size


class Root:
    """A root slot's content. `buckets` is one number per table, `table_pages` a list of (page, CRC)."""

    __slots__ = ("buckets", "lsn", "sequence", "table_pages")

    def __init__(self, sequence, lsn, buckets, table_pages):
        self.sequence, self.lsn, self.buckets, self.table_pages = sequence, lsn, buckets, table_pages

    def encode(self) -> bytes:
        """The root's bytes, its CRC included."""
        used = _ROOT.size + _PAIR.size * len(self.table_pages) + _CRC.size
        head = _ROOT.pack(
            ROOT_MAGIC, VERSION, used, self.sequence, self.lsn, *self.buckets, len(self.table_pages)
        ) + b"".join(_PAIR.pack(*pair) for pair in self.table_pages)
        return head + _CRC.pack(crc32c(head))


def decode_root(page: bytes) -> Root | None:
    """The root in a slot, or None if the slot holds none that is whole."""
    if len(page) < _ROOT.size:
        return None
    magic, version, used, sequence, lsn, *buckets, n = _ROOT.unpack_from(page)
    if magic != ROOT_MAGIC or version != VERSION or used != _ROOT.size + _PAIR.size * n + _CRC.size or used > len(page):
        return None
    (crc,) = _CRC.unpack_from(page, used - _CRC.size)
    if crc != crc32c(page[: used - _CRC.size]):
        return None
    pairs = list(_PAIR.iter_unpack(page[_ROOT.size : used - _CRC.size]))
    return Root(sequence, lsn, buckets, pairs)


def table_page(entries: list[tuple[int, int, int, int]]) -> bytes:
    """A page-table page of (table, bucket, page, CRC) entries."""
    used = _TABLE.size + _ENTRY.size * len(entries)
    return _TABLE.pack(TABLE_MAGIC, used, len(entries)) + b"".join(_ENTRY.pack(*entry) for entry in entries)


def decode_table_page(used_bytes: bytes) -> list[tuple[int, int, int, int]]:
    """The entries of a page-table page whose CRC was good."""
    return list(_ENTRY.iter_unpack(used_bytes[_TABLE.size :]))


def cell(key: bytes, row: dict) -> bytes:
    """One row as it lies in a data page."""
    value = canonical(row).encode()
    return _CELL.pack(len(key), len(value)) + key + value


def data_page(table: int, bucket: int, cells: dict[bytes, bytes]) -> bytes | None:
    """The page of a bucket's cells (by key), or None if they do not fit one."""
    body = b"".join([cells[key] for key in sorted(cells)])
    used = _DATA.size + len(body)
    return None if used > PAGE_BYTES else _DATA.pack(DATA_MAGIC, used, table, bucket, len(cells)) + body


def decode_data_page(used_bytes: bytes) -> list[tuple[bytes, bytes]]:
    """(key, cell) of every row of a data page whose CRC was good."""
    found = []
    offset = _DATA.size
    while offset < len(used_bytes):
        key_bytes, value_bytes = _CELL.unpack_from(used_bytes, offset)
        end = offset + _CELL.size + key_bytes + value_bytes
        found.append((used_bytes[offset + _CELL.size :][:key_bytes], used_bytes[offset:end]))
        offset = end
    return found


def cell_value(key: bytes, cell_bytes: bytes) -> bytes:
    """The value's JSON bytes of a cell."""
    return cell_bytes[_CELL.size + len(key) :]


def used_bytes(page: bytes, magic: bytes) -> bytes | None:
    """The significant bytes of a page-table or data page, or None if it is not one."""
    if len(page) < _TABLE.size or page[:8] != magic:
        return None
    (used,) = _CRC.unpack_from(page, 8)
    return page[:used] if used <= len(page) else None
