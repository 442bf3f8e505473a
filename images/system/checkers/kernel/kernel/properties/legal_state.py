"""Every transition in the log is one of the tables', from the state that really was; the end is the script's.

Covers attempts, cursors, slots and the intents' own table. What intents did outside is another property's matter.
"""

from __future__ import annotations

from typing import Any

from verifier.finding import Check
from verifier.kernel import states
from verifier.kernel.case import Case
from verifier.kernel.records import Attempt, Cursor, Entry, Intent, effect_identity
from verifier.kernel.script import Script, Task

TABLE = "the table of states has no such transition"


def check(case: Case) -> Check:
    """Transitions at every look; ownerless states at recovered and end; the script's ends at the end."""
    check = Check()
    walk = _Walk(check, case.scripts)
    for entry in case.log.entries:
        walk.step(entry)
    for script in case.scripts:
        prepared = script is not case.scripts[-1]
        for task, intended in script.tasks.items():
            if not case.after_crash:
                walk.has_owner(task)
            if case.at_end or prepared:
                walk.ends(task, intended)
    return check


class _Walk:
    """The states as they are while the log is read."""

    def __init__(self, check: Check, scripts: tuple[Script, ...]) -> None:
        self._check = check
        self._scripts = scripts
        self._script_of = {task: script for script in scripts for task in script.tasks}
        self._attempts: dict[int, list[str]] = {}  # by task: the state of each try
        self._intents: dict[str, str] = {}
        self._cursors: dict[int, tuple[int, int, int]] = {}
        self._admitted = {id(script): 0 for script in scripts}

    def step(self, entry: Entry) -> None:
        record, at = entry.record, f"log[{entry.lsn}]"
        if record is None:
            payload = entry.payload[:200].decode("ascii", "backslashreplace")
            self._check.holds(False, at, "a record of the format", payload, entry.fault)
        elif isinstance(record, Intent):
            self._intent(at, record)
        elif record.task not in self._script_of:
            self._check.holds(False, f"{at} task", "a task of the workload", record.task, "nobody gave it this task")
        elif isinstance(record, Attempt):
            self._attempt(at, record)
        else:
            self._cursor(at, record)

    def _attempt(self, at: str, record: Attempt) -> None:
        tries = self._attempts.setdefault(record.task, [])
        fact = f"{at} attempts[{record.task}/{record.attempt}]"
        current = tries[record.attempt] if record.attempt < len(tries) else None
        move, table = (record.before, record.after), states.ATTEMPT
        if not self._moved(fact, current, move, table):
            return
        script = self._script_of[record.task]
        if current is None:
            reason = "" if record.attempt == len(tries) and all(s == "failed" for s in tries) else f"after {tries}"
            why = "a further attempt is created only when the one before has failed"
            self._check.same(f"{fact} created", "", reason, why)
            most = len(script.tasks[record.task].attempts)
            self._check.holds(record.attempt < most, fact, f"at most {most} attempts", record.attempt + 1, "the script")
            tries += ["created"] * (record.attempt + 1 - len(tries)) if record.attempt < most else []
            self._cursors[record.task] = (record.attempt, 0, 0)
            return
        tries[record.attempt] = record.after
        held = self._admitted[id(script)] + (record.after in states.HOLDS_SLOT) - (current in states.HOLDS_SLOT)
        self._admitted[id(script)] = held
        if record.after == "admitted":
            why = "an attempt is admitted only when a slot is free"
            self._check.holds(held <= script.slots, f"{at} admitted", f"at most {script.slots}", held, why)

    def _moved(self, fact: str, current: str | None, move: tuple[str | None, str], table: Any) -> bool:
        """Compare one transition with the table and with the state that really is."""
        legal = f"a transition from {current}: " + (", ".join(sorted(b for a, b in table if a == current)) or "none")
        real = self._check.holds(move[0] == current, fact, f"from {current}", f"from {move[0]}", "it really is so")
        return self._check.holds(move in table, fact, legal, f"{move[0]} -> {move[1]}", TABLE) and real

    def _intent(self, at: str, record: Intent) -> None:
        fact = f"{at} intents[{record.effect}]"
        self._moved(fact, self._intents.get(record.effect), (record.before, record.after), states.INTENT)
        self._intents[record.effect] = record.after
        if record.born is not None:
            born = record.born
            identity = effect_identity(born["task"], born["step"], born["tool"], born["args"])
            self._check.same(fact, identity, record.effect, "an effect is named by what it is")

    def _cursor(self, at: str, record: Cursor) -> None:
        task = self._script_of[record.task].tasks[record.task]
        current = self._cursors.get(record.task)
        step = current[1] + 1 if current and current[0] == record.attempt else None
        clocks = task.clocks[record.attempt] if record.attempt < len(task.clocks) else ()
        clock = clocks[step] if step is not None and step < len(clocks) else None
        expected, found = [len(self._attempts.get(record.task, ())) - 1, step, clock], [*record[1:]]
        why = "[try, step, clock]: a cursor moves step by step as the script does, and no crash costs a tick"
        self._check.same(f"{at} cursor[{record.task}]", expected, found, why)
        self._cursors[record.task] = record[1:]

    def has_owner(self, task: int) -> None:
        """Nobody is left who could own a running attempt."""
        for number, state in enumerate(self._attempts.get(task, ())):
            fact = f"attempts[{task}/{number}].state"
            why = "only a live owner may hold it, and the owner is gone or the work is over"
            self._check.holds(state not in states.OWNED, fact, "not running, not waiting", state, why)

    def ends(self, task: int, intended: Task) -> None:
        """The task is where the script puts it."""
        found = self._attempts.get(task, [])
        why = "states of its attempts: the script puts them there, wherever it was killed"
        self._check.same(f"task {task}", list(intended.attempts), found, why)
        cursor = self._cursors.get(task)
        why = "[try, step, clock]: the script ends there"
        self._check.same(f"cursor[{task}]", list(intended.cursor), cursor and list(cursor), why)
