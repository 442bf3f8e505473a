"""Shadows the data pages, but writes the page table over the one that the newest root uses."""

from kernel.pager import Pager

_stage = Pager._stage


def stage(self, tables):
    staged = _stage(self, tables)
    old = [page for page, _ in self.root.table_pages] if self.root else []
    for i, page in enumerate(old[: len(staged.tables)]):
        staged.tables[i] = (page, staged.tables[i][1])
        staged.root.table_pages[i] = (page, staged.root.table_pages[i][1])
    return staged


Pager._stage = stage
