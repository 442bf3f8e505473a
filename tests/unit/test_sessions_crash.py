"""The store is killed at every hook of its catalogue and in its recoveries; the real verifier finds its promises kept.

The bugs of bugs.toml are planted the same way, and caught by the property that must.
"""

from __future__ import annotations

import itertools
import os
import sqlite3
import tomllib
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest
from kernel_process import LedgerService, Record
from sessions_process import (
    SESSIONS,
    Folder,
    Outcome,
    Trial,
    append,
    claim,
    op,
    race_processes,
    record,
    send,
    workload,
)

BUGS: list[Record] = tomllib.loads((SESSIONS / "bugs.toml").read_text())["bug"]
HOOKS: list[Record] = tomllib.loads((SESSIONS / "hooks.toml").read_text())["hook"]
POINTS: dict[str, list[str]] = tomllib.loads((SESSIONS / "cells.toml").read_text())["points"]

S1 = op("create", session="s1")
FINISH_ALL = tuple(step for item in ("i0", "i1", "i2") for step in (claim(item, "z"), op("finish", item=item, by="z")))
# One small script a cell; what only shows in numbers (200 appends, 50 rotations) comes as a repetition before the rest.
SCRIPTS = {
    "prefix-durability": workload(
        S1, append("s1", "many {n}", repeat=200), append("s1", "last but one"), append("s1", "last", "assistant"),
        resume=(append("s1", "after the crash"),),
    ),
    "consume-once": workload(
        S1, *(op("park", session="s1", item=f"i{n}") for n in range(3)),
        race_processes(claim("i0", "racer")), claim("i1", "ann"), op("finish", item="i1", by="ann"), claim("i2", "bob"),
        resume=FINISH_ALL,
    ),
    "rotation-atomicity": workload(
        S1, *(op("rotate", session=f"s{n}", child=f"s{n + 1}", summary=f"so far {n}") for n in range(1, 51)),
        append("s51", "question"), op("rotate", session="s51", child="t", summary="all of it"), append("t", "answer"),
    ),
    "fork-determinism": workload(
        S1, *(append("s1", f"turn {n}", ("user", "assistant")[n % 2]) for n in range(7)),
        op("edit", session="s1", keep=4, content="another turn 4"), append("s1", "another turn 5", "assistant"),
        append("s1", "another turn 6"), op("rewind", session="s1", keep=2),
        resume=(append("s1", "after the crash"),),
    ),
    "outbox-exactly-once": workload(
        S1, record("d0"), race_processes(op("sweep")), record("d1"), record("d2"), send("d2"),
        resume=(op("sweep"), op("sweep")),
    ),
    "recovery-determinism": workload(
        S1, append("s1", "question"), op("park", session="s1", item="i1"), claim("i1", "ann"), record("d1"), send("d1"),
        op("edit", session="s1", keep=0, content="another question"),
        op("rotate", session="s1", child="s2", summary="so far"), append("s2", "after it"),
    ),
    "checkpoint-validity": workload(
        S1, append("s1", "a question of some length"), op("park", session="s1", item="i1"), record("d1"),
        op("edit", session="s1", keep=0, content="another question"),
        op("rotate", session="s1", child="s2", summary="all that was said"),
    ),
}  # fmt: skip
# Where a cell's script reaches a hook with all that its cell asks for: after the numbers, or after the race.
OCCURRENCES = {
    "append": {"prefix-durability": 201}, "rotate": {"rotation-atomicity": 51}, "record": {"outbox-exactly-once": 2},
}  # fmt: skip

REST = {
    "create.before": "checkpoint-validity", "create.durable": "checkpoint-validity", "park.before": "consume-once",
    "park.written": "consume-once", "park.durable": "consume-once", "finish.before": "consume-once",
    "record.before": "outbox-exactly-once", "open.registered": "recovery-determinism",
    "outbox.sent > recovery.begun": "outbox-exactly-once", "outbox.sent > recovery.swept": "outbox-exactly-once",
    "outbox.sent > recovery.done": "outbox-exactly-once",
}  # fmt: skip

Crash = Callable[..., Outcome]


@pytest.fixture(scope="module")
def crash(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Crash]:
    """Kill a cell's script at its points; a look at each stop."""
    service = LedgerService(tmp_path_factory.mktemp("ledger"))
    numbers = itertools.count(1)

    def run(cell: str, point: str, bug: str | None = None, journal_mode: str = "default") -> Outcome:
        between = first_process_again if bug == "claim-owner-is-pid" else None
        folder = Folder(service, f"t{next(numbers)}")
        try:
            script = SCRIPTS[cell] | {"cell": cell, "journal_mode": journal_mode}
            return Trial(folder, script, bug, between).crash(*occurrences(cell, point))
        finally:
            folder.close()

    yield run
    service.end()


def first_process_again(folder: Folder) -> None:
    """In containers the dead owner and the next process are both number 1: give its number to a process that lives."""
    with closing(sqlite3.connect(folder.path / "sessions.db")) as database, database:
        database.execute("UPDATE items SET owner = ? WHERE holder = 'ann'", (os.getpid(),))


def occurrences(cell: str, point: str) -> list[str]:
    """A point of a catalogue, "hook" or "hook > hook", as hits of this cell's script."""
    first, *second = (part.strip() for part in point.split(">"))
    n = OCCURRENCES.get(first.split(".")[0], {}).get(cell, 1)
    return [f"{first}#{n}", *(f"{hook}#1" for hook in second)]


@pytest.mark.parametrize(("cell", "point"), [(cell, point) for cell, points in POINTS.items() for point in points])
def test_a_kill_at_any_point_of_a_cell_breaks_nothing(crash: Crash, cell: str, point: str) -> None:
    """The points of cells.toml, second crashes inside a recovery too: no false alarm, and never a pass on no fact."""
    outcome = crash(cell, point)
    assert (outcome.differs, outcome.words) == ([], "")
    assert outcome.facts[cell] and outcome.facts["journal-mode"]


@pytest.mark.parametrize(("point", "cell"), REST.items())
def test_a_kill_at_any_other_hook_breaks_nothing(crash: Crash, point: str, cell: str) -> None:
    """The hooks that no cell asks for, those of a start among them."""
    outcome = crash(cell, point)
    assert (outcome.differs, outcome.words) == ([], "")


def test_every_hook_of_the_catalogue_is_killed_at_here() -> None:
    """A hook that is named nowhere would be a place that nobody has ever died at."""
    points = [*REST, *(point for points in POINTS.values() for point in points)]
    assert {hook for point in points for hook in point.split(" > ")} == {hook["name"] for hook in HOOKS}


@pytest.mark.parametrize("mode", ["delete", "wal", "truncate", "persist"])
@pytest.mark.parametrize("point", ["append.written", "edit.durable", "rotate.written"])
def test_every_journal_mode_on_disk_keeps_what_is_promised(crash: Crash, mode: str, point: str) -> None:
    """The legs of the cells: each mode leaves another kind of journal to a recovery."""
    outcome = crash("recovery-determinism", point, journal_mode=mode)
    assert (outcome.differs, outcome.words) == ([], "")


@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug["name"])
def test_a_planted_bug_is_caught_by_its_property(crash: Crash, bug: Record) -> None:
    """Each bug of bugs.toml, at each of its points, where the good store is clean."""
    cell = "recovery-determinism" if bug["property"] == "journal-mode" else bug["property"]
    for point in bug["points"]:
        outcome = crash(cell, point, bug["name"], journal_mode="delete")
        assert bug["property"] in outcome.broken, (point, outcome.differs, outcome.words)
        good = crash(cell, point, journal_mode="delete")
        assert (good.differs, good.words) == ([], "")


def test_every_bug_has_its_file_and_every_promise_a_bug() -> None:
    """A bug that is listed and not there, or a check that no bug can fail: the table would prove less than it says."""
    files = {path.stem.replace("_", "-") for path in (SESSIONS / "bugs").glob("*.py")}
    subject = tomllib.loads((SESSIONS / "subject.toml").read_text())
    promised = {name for name, faults in subject["promises"].items() if faults}
    assert files == {bug["name"] for bug in BUGS}
    assert {bug["property"] for bug in BUGS} == promised | set(subject["verifier"]["audits"])
    assert Path(SESSIONS / "bin" / "with-bug").is_file()
