"""All that one look judges, read once and shared by the cells."""

from __future__ import annotations

from typing import Any, NamedTuple

from verifier.cells.story import Json, Story, read_story
from verifier.cells.views import Row, Store, Views, load, read
from verifier.finding import Check
from verifier.tree import Tree


class Earlier(NamedTuple):
    """A look of the same trial before this one."""

    look: str
    files: Tree | None  # None: it was too large to be kept
    history: int  # how many lines of the history it was told


class Case(NamedTuple):
    look: str
    workload: Json
    files: Tree
    views: Views
    store: Store
    story: Story
    history: list[Json]
    ledgers: tuple[Json, ...]  # of the prepared state, if there is one, and of the trial
    earlier: tuple[Earlier, ...]

    def view(self, name: str) -> tuple[Row, ...]:
        """The rows of a view; none if it cannot be read, which `sound` reports. Raises ValueError if there is none."""
        if name not in self.views.selects:
            raise ValueError(f"views.toml has no view {name!r}: {self.workload['cell']} is not offered by this store")
        return self.store.rows.get(name, ())

    def sound(self, check: Check) -> bool:
        """What every cell asks first: SQLite finds the recovered copy whole, and every view can be read.

        False if there is no database to ask anything else of.
        """
        why = "SQLite opens what a crash left and finds it whole"
        fault = self.store.faults.get("database")
        if not check.holds(fault is None, "database", "a database", fault, why):
            return False
        check.same("integrity_check", ["ok"], list(self.store.integrity[:5]), why)
        for view in self.views.selects:
            fault = self.store.faults.get(view)
            why = "what was persisted can be read"
            check.holds(fault is None, f"view {view}", "rows", fault, why)
        return True


def read_case(files: Tree, request: dict[str, Any]) -> Case:
    """Raises KeyError or ValueError if the request is not one that the protocol allows."""
    views = load()
    prepared = request.get("prepared")
    ledgers = (request["ledger"],) if prepared is None else (prepared["ledger"], request["ledger"])
    earlier = tuple(Earlier(e["look"], e["files"], e["history"]) for e in request.get("earlier", ()))
    history = request["history"]
    story = read_story(prepared, history)
    return Case(
        request["look"], request["workload"], files, views, read(files, views), story, history, ledgers, earlier
    )
