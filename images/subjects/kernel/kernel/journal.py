"""The one way to change anything: a record to the log, durable, then the rows, now and then a checkpoint.

Each transition of docs/format.md has three hooks here: before its record, after it is durable, after its rows changed.
"""

from kernel import states
from kernel.codec import canonical
from kernel.errors import IllegalTransitionError
from kernel.log import Log
from kernel.pager import Pager
from kernel.tables import Tables, attempt_key, fold


class Journal:
    """An open state: log, tables and pages, kept in step."""

    def __init__(self, hooks, log: Log, tables: Tables, pager: Pager, checkpoint_every: int):
        self.hooks = hooks
        self.log = log
        self.tables = tables
        self.pager = pager
        self._checkpoint_every = checkpoint_every

    def attempt(self, task: int, attempt: int, to: str) -> None:
        """Move an attempt to the state `to`."""
        row = self.tables.attempts.get(attempt_key(task, attempt))
        before = row and row["state"]
        record = {"r": "attempt", "task": task, "try": attempt, "from": before, "to": to}
        self._transition("attempt", record, None)

    def propose(self, effect: str, call: dict) -> None:
        """Create an intent. `call` has task, step, tool, class and args."""
        record = {"r": "intent", "effect": effect, "from": None, "to": "proposed"} | call
        self._transition("intent", record, {"class": call["class"]})

    def intent(self, effect: str, to: str, **more) -> None:
        """Move an intent to the state `to`."""
        row = self.tables.intents[effect]
        record = {"r": "intent", "effect": effect, "from": row["state"], "to": to} | more
        self._transition("intent", record, {"class": row["class"]})

    def cursor(self, task: int, attempt: int, step: int, clock: int) -> None:
        """Move a task's cursor to its next step."""
        record = {"r": "cursor", "task": task, "try": attempt, "step": step, "clock": clock}
        fold(self.tables, self._log(record), record)
        self._checkpoint_if_due()

    def checkpoint(self) -> None:
        """Commit the tables to pages."""
        self.pager.commit(self.tables)

    def _transition(self, kind, record, tags):
        if not states.legal(kind, record["from"], record["to"]):
            raise IllegalTransitionError(f"refused to record an illegal transition: {record}")
        name = states.hook(kind, record["from"], record["to"])
        self.hooks.reach(name + ".before", tags)
        lsn = self._log(record)
        self.hooks.reach(name + ".durable", tags)
        fold(self.tables, lsn, record)
        self.hooks.reach(name + ".applied", tags)
        self._checkpoint_if_due()

    def _log(self, record):
        text = canonical(record)
        operation = self.hooks.invoke("append", f'"record":{text}')
        lsn = self.log.append(text.encode())
        self.hooks.ok("append", operation, f'"lsn":{lsn}')
        return lsn

    def _checkpoint_if_due(self):
        if self.tables.lsn - self.pager.lsn >= self._checkpoint_every:
            self.checkpoint()
