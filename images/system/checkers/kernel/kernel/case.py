"""All that one look judges, read once and shared by the properties."""

from __future__ import annotations

from typing import Any, NamedTuple

from verifier.kernel.ledger import Ledger, read_ledger
from verifier.kernel.log import Log, read_log
from verifier.kernel.records import Attempt, Cursor, Intent, Record
from verifier.kernel.script import Script, read_script
from verifier.tree import Tree


class Move(NamedTuple):
    """One transition of an intent."""

    lsn: int
    record: Intent


class Case(NamedTuple):
    look: str
    files: Tree
    log: Log
    scripts: tuple[Script, ...]  # of the prepared state, if there is one, and of the trial
    base: int  # last LSN of the prepared state; the history begins behind it
    history: list[dict[str, Any]]
    ledger: Ledger
    stories: dict[str, list[Move]]  # by effect, in order: every transition of its intent

    @property
    def at_end(self) -> bool:
        return self.look == "end"

    @property
    def after_crash(self) -> bool:
        """Nothing may be asked that only a recovery could give."""
        return self.look == "killed"

    def state(self, effect: str) -> str | None:
        """Where the log leaves an intent."""
        return self.stories[effect][-1].record.after if effect in self.stories else None


def read_case(files: Tree, request: dict[str, Any]) -> Case:
    """Raises KeyError or ValueError if the request is not one that the protocol allows."""
    prepared = request.get("prepared")
    log = read_log(files)
    script = read_script(request["workload"])
    scripts: tuple[Script, ...] = (script,)
    base = 0
    if prepared is not None:
        before = read_script(prepared["workload"])
        scripts = (before, script)
        common = before.tasks.keys() & script.tasks.keys()
        if common:
            raise ValueError(f"the prepared workload and the trial's share the tasks {sorted(common)}")
        while base < log.end and _task_of(log.entries[base].record) in before.tasks:
            base += 1
    ledger = read_ledger(prepared and prepared["ledger"], request["ledger"])
    return Case(request["look"], files, log, scripts, base, request["history"], ledger, _stories(log))


def _task_of(record: Record | None) -> int | None:
    if isinstance(record, Attempt | Cursor):
        return record.task
    task = record.effect.partition("/")[0] if record else ""
    return int(task) if task.isdecimal() and len(task) < 20 else None


def _stories(log: Log) -> dict[str, list[Move]]:
    stories: dict[str, list[Move]] = {}
    for entry in log.entries:
        if isinstance(entry.record, Intent):
            stories.setdefault(entry.record.effect, []).append(Move(entry.lsn, entry.record))
    return stories
