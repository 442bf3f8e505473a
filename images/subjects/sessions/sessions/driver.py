"""The commands of `sessions`, as docs/cells.md has them. All it is given comes from the environment, see USAGE."""

import os
import sqlite3
from collections.abc import Callable
from sys import stderr

from sessions import ops, racers
from sessions.errors import CorruptError, DriverError, LostReply, Refused, UsageError
from sessions.hooks import Hooks
from sessions.provider import Provider
from sessions.store import VERSION, Store
from sessions.workload import Workload

USAGE = """\
usage: sessions run      do the ops of `work`
       sessions recover  recover from a crash, then do the ops of `resume`
       sessions race     do the one op of `race`, in the name of racer LAB_RACER
LAB_WORKLOAD is the workload, LAB_LEDGER the provider's socket; the store lies in SESSIONS_DATA (default /data).
exit: 0 done, or won · 10 lost · 64 usage · 65 corrupt · 69 the provider · 74 the disk · 78 not offered"""

LOST = 10
EX_SOFTWARE = 70
EX_IOERR = 74


class Driver:
    """One process of the store, and the script that it works."""

    def __init__(self, environ, hooks: Hooks):
        if "LAB_WORKLOAD" not in environ:
            raise UsageError("LAB_WORKLOAD is not set: it is the workload to execute, as JSON")
        self.workload = Workload(environ["LAB_WORKLOAD"])
        self.hooks = hooks
        self._folder = environ.get("SESSIONS_DATA", "/data")
        self._provider = Provider(environ.get("LAB_LEDGER", ""))
        self._racer = environ.get("LAB_RACER", "")
        self.store = self._open(hooks.reach)
        hooks.opened(journal_mode=self.store.journal_mode, sqlite=sqlite3.sqlite_version, store=f"sessions {VERSION}")

    def run(self) -> int:
        """Do the ops of `work`."""
        self._work(self.workload.work)
        return 0

    def recover(self) -> int:
        """Recover whatever a crash left, then do the ops of `resume`."""
        self.store.recover()
        self.hooks.reach("recovery.done")
        self._work(self.workload.resume)
        return 0

    def race(self) -> int:
        """Do the op of `race` once everybody is there."""
        if self.workload.race is None or not self._racer.isdigit():
            raise UsageError("`race` needs an op in the workload's `race`, and LAB_RACER, a number")
        op = ops.for_racer(self.workload.race, int(self._racer))
        self.hooks.reach("race.ready")
        result = self._do(op)
        return 0 if result is not None and ops.won(result) else LOST

    def _work(self, script):
        for op in script:
            self._do(op)
        self.store.close()

    def _do(self, op):
        """One op with its history. None if it did not happen, or nobody knows."""
        operation = self.hooks.invoke(op["op"], op)
        try:
            result = self._race_processes(op) if op["op"] == ops.RACE else ops.do(self.store, op)
        except Refused as error:
            self.hooks.complete(op["op"], "fail", operation, {"why": str(error)})
            return None
        except LostReply as error:
            self.hooks.complete(op["op"], "info", operation, {"why": str(error)})
            return None
        self.hooks.complete(op["op"], "ok", operation, result)
        return result

    def _race_processes(self, op):
        """An SQLite connection may not be carried across a fork: ours ends before, and a new one opens behind."""
        self.store.close()
        exits = racers.race(op["racers"], self._ready_racer(op["do"]))
        self.store = self._open(self.hooks.reach)
        return {"exits": exits}

    def _ready_racer(self, op):
        def ready(racer: int) -> Callable[[], int]:
            store = self._open(lambda hook: None)  # the hooks of this process are not theirs

            def go() -> int:
                try:
                    return 0 if ops.won(ops.do(store, ops.for_racer(op, racer))) else LOST
                except (Refused, LostReply):
                    return LOST

            return go

        return ready

    def _open(self, reach):
        return Store(self._folder, self._provider, reach, self.workload.journal_mode)


COMMANDS = {"run": Driver.run, "recover": Driver.recover, "race": Driver.race}


def main(arguments: list[str]) -> int:
    """Returns the exit code."""
    if len(arguments) != 1 or arguments[0] not in COMMANDS:
        print(USAGE, file=stderr)
        return UsageError.exit_code
    try:
        return COMMANDS[arguments[0]](Driver(os.environ, Hooks(os.environ)))
    except DriverError as error:
        print(f"sessions: {error}", file=stderr)
        return error.exit_code
    except sqlite3.IntegrityError as error:
        print(f"sessions: {error}: the store was about to write what its schema forbids", file=stderr)
        return EX_SOFTWARE
    except (sqlite3.OperationalError, OSError) as error:
        print(f"sessions: {error}: the store is left as after a crash, use `sessions recover`", file=stderr)
        return EX_IOERR
    except sqlite3.DatabaseError as error:
        print(f"sessions: corrupt: sessions.db: {error}", file=stderr)
        return CorruptError.exit_code
