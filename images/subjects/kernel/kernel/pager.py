"""The tables on shadow pages: copy on write, a page table, two root slots.

A commit never touches a page that either root uses: pages are synced before the root is written, the root before the
pages that only the older root used are free. A crash anywhere leaves the newest whole root and all its pages.
"""

import os

from kernel import pages
from kernel.codec import decode
from kernel.crc import crc32c
from kernel.errors import CorruptError, UsageError
from kernel.files import write_all
from kernel.tables import NAMES, Tables

FIRST_BUCKETS = 4  # of a new table: a commit rewrites a quarter of a small table, not all of it
MOST_BUCKETS = 32_768  # what the format's 16 bits hold


class Commit:
    """All that one commit will write, laid out before the first byte of it is written."""

    __slots__ = ("data", "entries", "root", "tables", "used")

    def __init__(self, data, tables, entries, root):
        self.data = data  # per table: [(page, bytes)]
        self.tables = tables  # page-table pages: [(page, bytes)]
        self.entries = entries  # (table, bucket) -> (page, CRC)
        self.root = root
        self.used = _pages_of(root, entries)


class Pager:
    """An open pages.db. `root` is the newest root, None before the first commit."""

    def __init__(self, path: str, hooks):
        self._path = path
        self._hooks = hooks
        self._fd = os.open(path, os.O_RDWR)
        self.root: pages.Root | None = None
        self._used: set[int] = set()  # pages of the newest root
        self._older_used: set[int] = set()  # pages of the root in the other slot
        self._entries: dict[tuple[int, int], tuple[int, int]] = {}
        self._cells: list[list[dict[bytes, bytes]]] = [[{} for _ in range(FIRST_BUCKETS)] for _ in NAMES]
        self._hash: dict[bytes, int] = {}  # CRC of each key, asked for again whenever its row changes

    @property
    def lsn(self) -> int:
        """The LSN of the newest root."""
        return self.root.lsn if self.root else 0

    def choose_root(self) -> None:
        """Take the newest whole root. Raises CorruptError if there is none: a named pages.db always had one."""
        slots = [pages.decode_root(self._read(slot)) for slot in (0, 1)]
        found = sorted((root for root in slots if root), key=lambda root: root.sequence)
        if not found:
            raise CorruptError("neither slot holds a valid root", self._path)
        self.root = found[-1]
        if len(found) == 2:
            try:
                self._older_used = _pages_of(found[0], self._page_table(found[0]))
            except (
                CorruptError
            ):  # rotten, and only the newest root is promised: nothing of the older one is worth keeping
                self._older_used = set()

    def load(self) -> Tables:
        """Check every page under the newest root and return its tables."""
        self._entries = self._page_table(self.root)
        self._used = _pages_of(self.root, self._entries)
        self._cells = [[{} for _ in range(buckets)] for buckets in self.root.buckets]
        tables = Tables()
        for (table, bucket), (page, crc) in self._entries.items():
            cells = self._cells[table][bucket]
            for key, cell in pages.decode_data_page(self._checked(page, crc, pages.DATA_MAGIC)):
                cells[key] = cell
                tables.rows[table][key.decode()] = decode(pages.cell_value(key, cell).decode())
        tables.lsn = self.root.lsn
        return tables

    def commit(self, tables: Tables) -> None:
        """Make the tables durable as they stand, at their LSN."""
        commit = self._stage(tables)
        self._write_pages(commit)
        self._write_root(commit)
        self._older_used, self._used = self._used, commit.used
        self.root, self._entries = commit.root, commit.entries

    def close(self) -> None:
        """Let go of the file; what is committed is durable already."""
        os.close(self._fd)

    def _stage(self, tables):
        free = self._free_pages()
        entries = dict(self._entries)
        data = []
        for table in range(len(NAMES)):
            written = []
            for bucket, content in self._changed_buckets(table, tables, entries):
                page = next(free)
                entries[table, bucket] = (page, crc32c(content))
                written.append((page, content))
            data.append(written)
        listed = sorted((table, bucket, page, crc) for (table, bucket), (page, crc) in entries.items())
        per_page = pages.ENTRIES_PER_PAGE
        contents = [pages.table_page(listed[i : i + per_page]) for i in range(0, len(listed), per_page)]
        table_pages = [(next(free), content) for content in contents]
        root = pages.Root(
            self.root.sequence + 1 if self.root else 1,
            tables.lsn,
            [len(buckets) for buckets in self._cells],
            [(page, crc32c(content)) for page, content in table_pages],
        )
        return Commit(data, table_pages, entries, root)

    def _free_pages(self):
        taken = self._used | self._older_used
        page = 2
        while True:
            if page not in taken:
                yield page
            page += 1

    def _changed_buckets(self, table, tables, entries):
        """(bucket, page content) of what changed in a table; all of it if it had to be spread over more buckets."""
        buckets = self._cells[table]
        rows, changed = tables.rows[table], tables.changed[table]
        dirty = set()
        for key in changed:
            name = key.encode()
            bucket = self._key_hash(name) % len(buckets)
            buckets[bucket][name] = pages.cell(name, rows[key])
            dirty.add(bucket)
        changed.clear()
        contents = [(bucket, pages.data_page(table, bucket, buckets[bucket])) for bucket in sorted(dirty)]
        while any(content is None for _, content in contents):
            buckets = self._cells[table] = self._double(buckets)
            contents = [(b, pages.data_page(table, b, cells)) for b, cells in enumerate(buckets) if cells]
            for key in [key for key in entries if key[0] == table]:
                del entries[key]
        return contents

    def _double(self, buckets):
        if len(buckets) == MOST_BUCKETS:
            raise UsageError(f"a row does not fit a page of {pages.PAGE_BYTES} bytes")
        doubled = [{} for _ in range(2 * len(buckets))]
        for cells in buckets:
            for key, cell in cells.items():
                doubled[self._key_hash(key) % len(doubled)][key] = cell
        return doubled

    def _key_hash(self, key):
        found = self._hash.get(key)
        if found is None:
            found = self._hash[key] = crc32c(key)
        return found

    def _write_pages(self, commit):
        for name, written in zip(NAMES, commit.data, strict=True):
            for page, content in written:
                self._write(page, content)
            if written:
                self._hooks.reach(f"pager.{name}_written")
        for page, content in commit.tables:
            self._write(page, content)
        self._hooks.reach("pager.pages_written")
        self._sync()
        self._hooks.reach("pager.pages_synced")

    def _write_root(self, commit):
        content = commit.root.encode()
        offset = commit.root.sequence % 2 * pages.PAGE_BYTES
        half = len(content) // 2
        write_all(self._fd, content[:half], offset)
        self._hooks.reach("pager.root_half_written")
        write_all(self._fd, content[half:], offset + half)
        self._hooks.reach("pager.root_written")
        self._sync()
        self._hooks.reach("pager.root_synced")

    def _write(self, page, content):
        write_all(self._fd, content.ljust(pages.PAGE_BYTES, b"\0"), page * pages.PAGE_BYTES)

    def _sync(self):
        os.fdatasync(self._fd)

    def _read(self, page):
        return os.pread(self._fd, pages.PAGE_BYTES, page * pages.PAGE_BYTES)

    def _checked(self, page, crc, magic):
        found = pages.used_bytes(self._read(page), magic)
        if found is None or crc32c(found) != crc:
            raise CorruptError(f"page {page} under root {self.root.sequence} fails its CRC", self._path)
        return found

    def _page_table(self, root):
        entries = {}
        for page, crc in root.table_pages:
            for table, bucket, data_page, data_crc in pages.decode_table_page(
                self._checked(page, crc, pages.TABLE_MAGIC)
            ):
                entries[table, bucket] = (data_page, data_crc)
        return entries


def _pages_of(root, entries):
    return {page for page, _ in root.table_pages} | {page for page, _ in entries.values()}
