"""Reads `pages.db` from the documented format. Never raises on bytes; what the format forbids is a `Fault`."""

from __future__ import annotations

import struct
from typing import NamedTuple

from verifier.kernel.crc32c import crc32c
from verifier.kernel.log import Fault

PAGE = 4096
TABLES = ("attempts", "intents", "effects", "cursor")
ROOT = struct.Struct("<8sIIQQ4HI")
REFERENCE = struct.Struct("<II")
TABLE_HEAD = struct.Struct("<8sII")
TABLE_ENTRY = struct.Struct("<HHII")
DATA_HEAD = struct.Struct("<8sIHHI")
ROW_HEAD = struct.Struct("<HH")
SYNCED = "everything under a root was written and synced before it"


class Root(NamedTuple):
    slot: int
    sequence: int
    lsn: int
    buckets: tuple[int, ...]
    table: tuple[tuple[int, int], ...]  # physical page and CRC of each page-table page


class Broken(Exception):
    """Carries a Fault; never leaves this module."""

    def __init__(self, fact: str, expected: object, found: object, why: str) -> None:
        super().__init__(fact)
        self.fault = Fault(fact, str(expected), str(found), why)


Rows = dict[str, bytes]


def read_root(data: bytes, slot: int) -> Root | str:
    """The root in a slot, or why there is none."""
    page = data[slot * PAGE : (slot + 1) * PAGE]
    if not page.strip(b"\0"):
        return "never written"
    if len(page) < ROOT.size + 4:
        return f"{len(page)} bytes"
    magic, version, used, sequence, lsn, *buckets, count = ROOT.unpack_from(page)
    if magic != b"LABKROOT" or not ROOT.size + 4 <= used <= len(page):
        return "torn: bad magic or length"
    if int.from_bytes(page[used - 4 : used], "little") != crc32c(page[: used - 4]):
        return "torn: CRC does not match"
    if version != 1 or used != ROOT.size + count * REFERENCE.size + 4:
        return f"version {version}, {used} bytes for {count} page-table pages"
    table = tuple(REFERENCE.iter_unpack(page[ROOT.size : used - 4]))
    return Root(slot, sequence, lsn, tuple(buckets), table)


def read_tables(data: bytes, root: Root) -> tuple[tuple[Rows, ...], int, Fault | None]:
    """Rows of the four tables under a root, how many pages were read, and the first fault (then rows are partial)."""
    rows: tuple[Rows, ...] = tuple({} for _ in TABLES)
    seen: set[int] = set()
    try:
        for number, buckets in enumerate(root.buckets):
            if buckets == 0 or buckets & (buckets - 1):
                why = "the number of buckets of a table is a power of two"
                raise Broken(f"root {root.sequence} buckets of {TABLES[number]}", "a power of two", buckets, why)
        previous = (-1, -1)
        for physical, crc in root.table:
            for entry in _page_table(_page(data, physical, crc, b"LABKPTBL", seen), physical):
                table, bucket, target, target_crc = entry
                if table >= len(TABLES) or bucket >= root.buckets[table] or (table, bucket) <= previous:
                    why = "entries are sorted by table and bucket, each at most once"
                    raise Broken(f"page table on page {physical}", f"an entry after {previous}", (table, bucket), why)
                previous = (table, bucket)
                page = _page(data, target, target_crc, b"LABKPAGE", seen)
                _rows(page, target, table, bucket, root.buckets[table], rows[table])
    except Broken as broken:
        return rows, len(seen), broken.fault
    return rows, len(seen), None


def _page(data: bytes, physical: int, crc: int, magic: bytes, seen: set[int]) -> bytes:
    """The used bytes of a page, checked against the CRC that its parent carries."""
    name = f"page {physical}"
    if physical < 2 or physical in seen:
        raise Broken(name, "a page of its own", "a root slot, or used twice under one root", "pages are not shared")
    seen.add(physical)
    page = data[physical * PAGE : (physical + 1) * PAGE]
    used = int.from_bytes(page[8:12], "little") if len(page) >= 16 else 0
    if not 16 <= used <= len(page):
        raise Broken(name, f"{magic.decode()} with used bytes", f"{len(page)} bytes in the file, {used} used", SYNCED)
    found = crc32c(page[:used])
    if found != crc:
        raise Broken(f"{name} CRC", f"{crc:08x} (in its parent)", f"{found:08x}", SYNCED)
    if page[:8] != magic:
        raise Broken(f"{name} magic", magic, page[:8], "the parent says what the page is")
    return page[:used]


def _page_table(page: bytes, physical: int) -> list[tuple[int, int, int, int]]:
    count = TABLE_HEAD.unpack_from(page)[2]
    if len(page) != TABLE_HEAD.size + count * TABLE_ENTRY.size:
        raise Broken(f"page {physical} entries", count, f"{len(page)} bytes used", "the page holds just its entries")
    return list(TABLE_ENTRY.iter_unpack(page[TABLE_HEAD.size :]))


def _rows(page: bytes, physical: int, table: int, bucket: int, buckets: int, rows: Rows) -> None:
    """Add the rows of one data page to `rows`."""
    name, why = f"page {physical} ({TABLES[table]}, bucket {bucket})", "a data page holds just its rows, sorted by key"
    if len(page) < DATA_HEAD.size:
        raise Broken(name, "a whole head", f"{len(page)} bytes used", why)
    _, _, own_table, own_bucket, count = DATA_HEAD.unpack_from(page)
    if (own_table, own_bucket) != (table, bucket):
        raise Broken(name, (table, bucket), (own_table, own_bucket), "the page says what it is")
    at, previous = DATA_HEAD.size, b""
    for _ in range(count):
        if at + ROW_HEAD.size > len(page):
            raise Broken(name, f"{count} rows", "fewer", why)
        key_size, value_size = ROW_HEAD.unpack_from(page, at)
        at += ROW_HEAD.size
        key, value = page[at : at + key_size], page[at + key_size : at + key_size + value_size]
        at += key_size + value_size
        if at > len(page) or key <= previous:
            raise Broken(name, f"a whole row with a key after {previous!r}", repr(key), why)
        if crc32c(key) % buckets != bucket:
            why = "a row lies in bucket crc32c(key) mod buckets"
            raise Broken(f"{name} key {key!r}", f"bucket {crc32c(key) % buckets}", f"bucket {bucket}", why)
        previous = key
        rows[key.decode("utf-8", "backslashreplace")] = value
    if at != len(page):
        raise Broken(name, f"{at} bytes used", f"{len(page)} bytes used", why)
