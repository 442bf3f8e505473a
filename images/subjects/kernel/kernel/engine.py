"""Executes the workload: round robin over its tasks, one step a turn, several calls on their way at once.

It knows nothing of crashes: whatever the tables say is where it goes on. A dispatched intent's attempt is `running`
until the request is sent and `waiting` from then on; recovery interrupts both and settles the intent by itself.
"""

from kernel import states
from kernel.intents import Intents, identity
from kernel.journal import Journal
from kernel.tables import attempt_key
from kernel.workload import ENDS


class Engine:
    """Works `tasks` (of docs/workload.md) to their end, at most `slots` attempts at a time."""

    def __init__(self, journal: Journal, intents: Intents, tasks: list[dict], slots: int):
        self._journal = journal
        self._intents = intents
        self._tasks = tasks
        self._slots = slots
        self._turns = {
            "created": self._admit,
            "admitted": self._start,
            "interrupted": self._start,
            "running": self._step,
            "waiting": self._collect,
            "failed": self._try_again,
        }

    def run(self) -> None:
        """Until every task is at its end."""
        for task in self._tasks:
            if self._cursor(task) is None:
                self._journal.attempt(task["task"], 0, "created")
        alive = self._tasks
        while alive:
            alive = [task for task in alive if self._turn(task)]

    def _turn(self, task):
        """One turn of one task. False once it is at its end."""
        cursor = self._cursor(task)
        turn = self._turns.get(self._state(task, cursor["try"]))
        return turn is not None and turn(task, cursor) is not False

    def _admit(self, task, cursor):
        if task["cancelled_before_admission"]:
            self._journal.attempt(task["task"], cursor["try"], "cancelled")
        elif self._slots_taken() < self._slots:
            self._journal.attempt(task["task"], cursor["try"], "admitted")

    def _start(self, task, cursor):
        self._journal.attempt(task["task"], cursor["try"], "running")

    def _step(self, task, cursor):
        number, attempt = task["task"], cursor["try"]
        step = _step_at(task, cursor)
        if cursor["clock"] + step["ticks"] > task["deadline"]:
            self._journal.attempt(number, attempt, "timed_out")
        elif step["do"] in ENDS:
            self._journal.attempt(number, attempt, ENDS[step["do"]])
        elif step["do"] == "say":
            self._advance(task, cursor)
        else:
            self._call(task, cursor, step)

    def _call(self, task, cursor, step):
        effect = _effect(task, cursor)
        if effect not in self._journal.tables.intents:
            call = {"task": task["task"], "step": cursor["step"]} | {k: step[k] for k in ("tool", "class", "args")}
            self._journal.propose(effect, call)
        if self._journal.tables.intents[effect]["state"] == "proposed":
            self._intents.dispatch(effect)
            self._journal.attempt(task["task"], cursor["try"], "waiting")
        else:  # resolved by an earlier try or by the recovery: the same effect has the same outcome
            self._advance(task, cursor)

    def _collect(self, task, cursor):
        effect = _effect(task, cursor)
        if self._intents.collect(effect):
            self._journal.attempt(task["task"], cursor["try"], "running")
            self._advance(task, cursor)
        else:  # as after a crash: interrupted, settled, and resumed in a later turn, which finds the outcome
            self._journal.attempt(task["task"], cursor["try"], "interrupted")
            self._intents.settle(effect, _unwatched)

    def _try_again(self, task, cursor):
        if cursor["try"] + 1 == len(task["tries"]):
            return False
        self._journal.attempt(task["task"], cursor["try"] + 1, "created")
        return True

    def _advance(self, task, cursor):
        clock = cursor["clock"] + _step_at(task, cursor)["ticks"]
        self._journal.cursor(task["task"], cursor["try"], cursor["step"] + 1, clock)

    def _cursor(self, task):
        return self._journal.tables.cursor.get(str(task["task"]))

    def _state(self, task, attempt):
        return self._journal.tables.attempts[attempt_key(task["task"], attempt)]["state"]

    def _slots_taken(self):
        return sum(self._state(task, self._cursor(task)["try"]) in states.IN_A_SLOT for task in self._tasks)


def _step_at(task, cursor):
    return task["tries"][cursor["try"]][cursor["step"]]


def _effect(task, cursor):
    step = _step_at(task, cursor)
    return identity(task["task"], cursor["step"], step["tool"], step["args"])


def _unwatched(hook, tags):
    """A lost reply is settled without the recovery's hooks: they are for where a recovery can die."""
