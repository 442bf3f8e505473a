"""The phases of a trial with their times, as they go into its evidence."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

from lab.model import Phase


class Phases:
    """Begins to count when it is made. A phase that fails has its time as well."""

    def __init__(self) -> None:
        self._began_s = time.monotonic()
        self.seen: list[Phase] = []

    @property
    def last(self) -> str:
        """The name of the one that began last; of none yet, the first that any trial has."""
        return self.seen[-1].name if self.seen else "volume"

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        began = time.monotonic()
        self.seen.append(Phase(name, 1000 * (began - self._began_s), 0.0))
        at = len(self.seen) - 1
        try:
            yield
        finally:
            self.seen[at] = replace(self.seen[at], took_ms=1000 * (time.monotonic() - began))
