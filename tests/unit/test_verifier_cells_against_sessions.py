"""The cells' verifier against the reference store's real processes, on the workloads that a campaign really throws.

Through the real harness, which hands each look those before it. What the store's own scripts show is in
test_sessions_crash.py; here it is the generator, the verifier and the store together that must raise no false alarm.
"""

from __future__ import annotations

import json
import subprocess
import tomllib
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from itertools import count
from random import Random
from typing import Any

import pytest
from checkers import PACKAGES, launch
from kernel_process import PYTHON, LedgerService, Process
from sessions_process import SESSIONS, VIEWS_FILE, Folder
from verifier import tree

from lab.workloads.session_cells import CELLS, RACERS, generate, prepared

Json = dict[str, Any]

SEED = 7
POINTS: dict[str, list[str]] = tomllib.loads((SESSIONS / "cells.toml").read_text())["points"]
BUGS: list[Json] = tomllib.loads((SESSIONS / "bugs.toml").read_text())["bug"]
# The occurrence at which a cell's story is long enough to show something.
LATE = {("prefix-durability", "append"): 201, ("rotation-atomicity", "rotate"): 51}
# In one container after the other its process id is the same; here it is not, and test_sessions_crash.py sees to that.
NEEDS_CONTAINERS = "claim-owner-is-pid"


@dataclass
class Outcome:
    """What one trial showed."""

    differs: list[Json] = field(default_factory=list)
    broken: set[str] = field(default_factory=set)
    facts: dict[str, int] = field(default_factory=dict)


class Trial:
    """One cell on one folder: its processes, and what was seen after each."""

    def __init__(self, folder: Folder, script: Json, before: Json, bug: str | None) -> None:
        self.folder, self.script, self.bug = folder, script, bug
        self._before = before
        self._history: list[Json] = []
        self._requests: list[Json] = []
        folder.finish("run", before["workload"], bug)
        before["ledger"] = folder.ledger()
        self._seen_before = len(before["ledger"]["effects"])

    def kill(self, number: int, hook: str) -> None:
        process = self.folder.kill_at("recover" if number > 1 else "run", self.script, hook, self.bug)
        self._remember(process, {"process": number})
        self._history.append({"process": number, "died": True})
        self._look("killed")

    def run(self) -> None:
        process = self.folder.start("run", self.script, self.bug)
        assert process.wait() == 0, process.log
        self._remember(process, {"process": 1})

    def race(self) -> None:
        """As many processes as the lab would start containers, released at once."""
        racers = []
        for n in range(1, RACERS + 1):
            racer = self.folder.start("race", self.script, self.bug, racer=str(n), barrier="race.ready")
            racer.await_hit()
            racers.append(racer)
        for racer in racers:
            racer.release()
        for n, racer in enumerate(racers, start=1):
            code = racer.wait()
            self._remember(racer, {"process": 10 + n, "racer": n})
            self._history.append({"process": 10 + n, "racer": n, "exited": code})

    def recover(self, number: int) -> Outcome:
        process = self.folder.start("recover", self.script, self.bug, barrier="recovery.done")
        process.await_hit()
        kept = len(self._history)
        self._remember(process, {"process": number})
        self._look("recovered")
        del self._history[kept:]
        process.release()
        assert process.wait() == 0, process.log
        self._remember(process, {"process": number})
        self._look("end")
        return self._judged()

    def _remember(self, process: Process, who: Json) -> None:
        records = [record for record in process.records if "op" in record]
        self._history += [who | {key: value for key, value in record.items() if key != "lab"} for record in records]

    def _look(self, look: str) -> None:
        ledger = self.folder.ledger()
        ledger["effects"] = ledger["effects"][self._seen_before :]
        self._requests.append({
            "ask": "look", "look": look, "workload": self.script, "prepared": self._before, "ledger": ledger,
            "history": list(self._history), "volume": tree.pack(tree.read(str(self.folder.path))),
        })  # fmt: skip

    def _judged(self) -> Outcome:
        """Every look in order by one verifier, as in a trial."""
        asked = "".join(json.dumps(request) + "\n" for request in self._requests)
        done = subprocess.run(
            [*PYTHON, "-c", launch(PACKAGES["cells"]), "cells"], input=asked, text=True, capture_output=True,
            timeout=30, check=True, env={"LAB_DATA": "/", "VERIFIER_VIEWS": str(VIEWS_FILE)},
        )  # fmt: skip
        outcome = Outcome()
        for line in done.stdout.splitlines()[1:]:
            answer = json.loads(line)
            for name, finding in answer["properties"].items():
                outcome.facts[name] = outcome.facts.get(name, 0) + finding["facts"]
                if finding["differs"]:
                    outcome.differs.append({"look": answer["look"], "property": name, **finding["differs"]})
                    outcome.broken.add(name)
        return outcome


New = Callable[..., Trial]


@pytest.fixture(scope="module")
def ledger(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LedgerService]:
    service = LedgerService(tmp_path_factory.mktemp("ledger"))
    yield service
    service.end()


@pytest.fixture
def new(ledger: LedgerService) -> Iterator[New]:
    """Trials of a generated workload on a prepared state; their folders are gone behind the test."""
    numbers = count(1)
    with ExitStack() as stack:

        def made(cell: str, mode: str = "default", bug: str | None = None, seed: int = SEED) -> Trial:
            folder = Folder(ledger, f"cell-{next(numbers)}")
            stack.callback(folder.close)
            return Trial(folder, generate(seed, cell, mode), {"workload": prepared(seed)}, bug)

        yield made


def crashed(trial: Trial, cell: str, point: str) -> Outcome:
    """Killed at a point of cells.toml, `hook` or `hook > hook`, and brought to its end."""
    hooks = point.split(" > ")
    late = LATE.get((cell, hooks[0].split(".")[0]), 1)
    for number, hook in enumerate(hooks, start=1):
        trial.kill(number, f"{hook}#{late if number == 1 else 1}")
    return trial.recover(len(hooks) + 1)


@pytest.mark.parametrize(("cell", "point"), [(cell, point) for cell in CELLS for point in POINTS[cell]])
def test_a_correct_store_passes_at_every_point_of_its_cells(new: New, cell: str, point: str) -> None:
    """No false alarm, and never a pass on no fact: the control of every planted bug."""
    outcome = crashed(new(cell), cell, point)
    assert outcome.differs == []
    assert outcome.facts[cell] > 0 and outcome.facts["journal-mode"] > 0


@pytest.mark.parametrize("seed", [1, 2**31])
@pytest.mark.parametrize("cell", CELLS)
def test_other_seeds_raise_no_false_alarm_either(new: New, cell: str, seed: int) -> None:
    """At a point that the seed draws, in a mode that it draws: the campaign's own bar, in small."""
    dice = Random(f"{seed}/{cell}")
    outcome = crashed(new(cell, dice.choice(("default", "delete", "wal")), seed=seed), cell, dice.choice(POINTS[cell]))
    assert outcome.differs == []
    assert outcome.facts[cell] > 0


# One point of each cell that lies between two transactions.
BETWEEN = {
    "prefix-durability": "append.durable",
    "consume-once": "claim.durable",
    "rotation-atomicity": "rotate.durable",
    "fork-determinism": "edit.durable",
    "outbox-exactly-once": "outbox.sent",
    "recovery-determinism": "claim.durable",
    "checkpoint-validity": "rotate.durable",
}


@pytest.mark.parametrize("mode", ["delete", "truncate", "persist", "memory", "off"])
@pytest.mark.parametrize("cell", CELLS)
def test_a_correct_store_passes_in_every_journal_mode_between_transactions(new: New, cell: str, mode: str) -> None:
    """Also where nothing is promised: a kill outside a transaction harms no mode."""
    outcome = crashed(new(cell, mode), cell, BETWEEN[cell])
    assert outcome.differs == []
    assert outcome.facts[cell] > 0 and outcome.facts["journal-mode"] > 0


@pytest.mark.parametrize("bug", [bug for bug in BUGS if bug["name"] != NEEDS_CONTAINERS], ids=lambda bug: bug["name"])
def test_each_planted_bug_is_caught_by_its_cell_and_by_nothing_else(new: New, bug: Json) -> None:
    """At each of its points: caught always, not by chance."""
    cell = bug["property"] if bug["property"] in CELLS else "prefix-durability"
    mode = "delete" if bug["property"] == "journal-mode" else "default"
    for point in bug["points"]:
        outcome = crashed(new(cell, mode, bug["name"]), cell, point)
        assert outcome.broken == {bug["property"]}, (point, outcome)


@pytest.mark.parametrize(
    ("cell", "bug"), [("consume-once", "claim-by-read-then-write"), ("outbox-exactly-once", "both-gateways-send")]
)
def test_racing_containers_are_judged_after_a_whole_run(new: New, cell: str, bug: str) -> None:
    """Eight `race` processes on what the run left, then a recovery and the end: once as it is, once with the bug."""
    for planted, broken in ((None, set()), (bug, {cell})):
        trial = new(cell, "default", planted)
        trial.run()
        trial.race()
        outcome = trial.recover(30)
        assert outcome.broken == broken, outcome
        assert outcome.facts[cell] > 0


@pytest.mark.parametrize("hook", ["outbox.attempting", "outbox.sent"])
def test_gateways_that_boot_at_once_after_a_crash_send_one_marked_copy(new: New, hook: str) -> None:
    """The dead one's delivery is redelivered by one of eight."""
    trial = new("outbox-exactly-once")
    trial.kill(1, f"{hook}#1")
    trial.race()
    outcome = trial.recover(30)
    assert outcome.differs == []
    assert [marked for name, marked in trial.folder.copies() if name == "d-1"].count(True) == 1
