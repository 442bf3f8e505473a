"""Writes and syncs the new root before the pages that it points to."""

from kernel.pager import Pager


def commit(self, tables):
    staged = self._stage(tables)
    self._write_root(staged)
    self._write_pages(staged)
    self._older_used, self._used = self._used, staged.used
    self.root, self._entries = staged.root, staged.entries


Pager.commit = commit
