"""Gives up an attempt that a crash interrupted when it is resumed: by legal steps, to another end than the script's."""

from kernel import recovery, states
from kernel.engine import Engine

_interrupt_owned, _start = recovery.interrupt_owned, Engine._start
_crashed = set()


def interrupt_owned(journal):
    rows = journal.tables.attempts.values()
    _crashed.update((row["task"], row["try"]) for row in rows if row["state"] in states.OWNED)
    _interrupt_owned(journal)


def start(self, task, cursor):
    _start(self, task, cursor)
    if (task["task"], cursor["try"]) in _crashed:
        self._journal.attempt(task["task"], cursor["try"], "failed")


recovery.interrupt_owned, Engine._start = interrupt_owned, start
