"""The cells' verifier against hermes-agent's real store, killed on the workloads that a campaign really throws.

What each cell says of version 0.19.0, point by point: no false alarm where it keeps its word, and the findings where it
does not. test_hermes_store.py shows that they are the store's.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path

import pytest
from checkers import PACKAGES, launch
from hermes_process import VIEWS_FILE, Driver, Home
from kernel_process import DEADLINE_S, PYTHON, LedgerService, Record
from verifier import tree

from lab.workloads.session_cells import generate

SEED = 7
# How many acknowledgements a cell needs before its kill; far from the end of its script, which must not be reached.
STORY = {"prefix-durability": 215, "fork-determinism": 47, "recovery-determinism": 20, "checkpoint-validity": 20}


class Trial:
    """One cell on one home: what was heard, and what was seen after each death and at the end."""

    def __init__(self, home: Home, cell: str) -> None:
        self.script = generate(SEED, cell, "default", "nightly")
        self._home = home
        self._history: list[Record] = []
        self._requests: list[Record] = []
        self._processes = count(1)

    def die_at(self, *hooks: str) -> None:
        for command, hook in zip(["run", "recover"], hooks, strict=False):
            process = self._home.start(command, self.script, hook=hook)
            process.await_hit()
            self._killed(process)

    def die_after(self, answers: int) -> None:
        process = self._home.start("run", self.script)
        process.await_answers(answers)
        self._killed(process)

    def finish(self) -> None:
        """Work to the end without a death."""
        process = self._home.start("run", self.script)
        assert process.wait() == 0, process.log
        number = next(self._processes)
        self._history += [record | {"process": number} for record in self._said(process)]

    def recover(self) -> dict[str, list[str]]:
        """Recover and work to the end. The properties that differ, with the look and fact of each difference."""
        process = self._home.start("recover", self.script, barrier="recovery.done")
        process.await_hit()
        number = next(self._processes)
        self._look("recovered", [*self._history, *(record | {"process": number} for record in self._said(process))])
        process.release()
        assert process.wait() == 0, process.log
        self._history += [record | {"process": number} for record in self._said(process)]
        self._look("end", self._history)
        return self._judged()

    def _killed(self, process: Driver) -> None:
        assert process.kill() == -9
        number = next(self._processes)
        self._history += [record | {"process": number} for record in self._said(process)]
        self._history.append({"process": number, "died": True})
        self._look("killed", self._history)

    @staticmethod
    def _said(process: Driver) -> list[Record]:
        return [{key: value for key, value in r.items() if key != "lab"} for r in process.records if "op" in r]

    def _look(self, look: str, history: list[Record]) -> None:
        self._requests.append({
            "ask": "look", "look": look, "workload": self.script, "prepared": None, "ledger": self._home.ledger(),
            "history": list(history), "volume": tree.pack(tree.read(str(self._home.folder))),
        })  # fmt: skip

    def _judged(self) -> dict[str, list[str]]:
        done = subprocess.run(
            [*PYTHON, "-c", launch(PACKAGES["cells"]), "cells"], text=True, capture_output=True, check=True,
            input="".join(json.dumps(request) + "\n" for request in self._requests), timeout=DEADLINE_S,
            env={"LAB_DATA": "/", "VERIFIER_VIEWS": str(VIEWS_FILE)},
        )  # fmt: skip
        differs: dict[str, list[str]] = {}
        facts: dict[str, int] = {}
        for answer in map(json.loads, done.stdout.splitlines()[1:]):
            for name, finding in answer["properties"].items():
                facts[name] = facts.get(name, 0) + finding["facts"]
                if finding["differs"]:
                    differs.setdefault(name, []).append(f"{answer['look']}: {finding['differs']['fact']}")
        assert min(facts.values()) > 0 or differs, f"nothing was compared: {facts}"
        return differs


New = Callable[[str], Trial]


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LedgerService]:
    service = LedgerService(tmp_path_factory.mktemp("ledger"))
    yield service
    service.end()


@pytest.fixture
def new(service: LedgerService, tmp_path: Path) -> Iterator[New]:
    home = Home(service, "cells", tmp_path)
    yield lambda cell: Trial(home, cell)
    home.close()


@pytest.mark.parametrize("cell", STORY)
def test_a_cell_finds_nothing_at_a_moment_after_an_answer(new: New, cell: str) -> None:
    """Planted by every false alarm that a view, a position or a name could raise on a store that is not ours."""
    trial = new(cell)
    trial.die_after(STORY[cell])
    assert trial.recover() == {}


@pytest.mark.parametrize(
    "hooks",
    [
        ["outbox.recorded#3"],
        ["outbox.attempting#2"],
        ["outbox.sent#2"],
        ["outbox.sent#2", "redelivery.sent#2"],
        ["outbox.attempting#2", "recovery.done#1"],
    ],
    ids=" > ".join,
)
def test_the_outbox_is_clean_where_it_marks_what_may_be_a_copy(new: New, hooks: list[str]) -> None:
    """A row that a crash left `attempting` comes with the marker, and that is all that is promised."""
    trial = new("outbox-exactly-once")
    trial.die_at(*hooks)
    assert trial.recover() == {}


def test_the_outbox_is_caught_at_a_silent_duplicate(new: New) -> None:
    """The finding: killed while it redelivers a row that was never attempted, it sends a second unmarked copy."""
    trial = new("outbox-exactly-once")
    trial.die_at("outbox.recorded#3", "redelivery.sent#1")
    assert set(trial.recover()) == {"outbox-exactly-once"}


def test_whole_rotations_are_clean(new: New) -> None:
    """The control of the next one: a kill at any moment may fall into a rotation, so here is none."""
    trial = new("rotation-atomicity")
    trial.finish()
    assert trial.recover() == {}


def test_a_hand_off_is_caught_in_limbo(new: New) -> None:
    """The finding: claimed, its claimer killed, and never to be claimed again."""
    trial = new("consume-once")
    trial.die_at("claim.won#1")
    assert set(trial.recover()) == {"consume-once"}


@pytest.mark.parametrize("hook", ["rotate.closed#52", "rotate.created#52"])
def test_a_rotation_is_caught_half(new: New, hook: str) -> None:
    """The finding: parent closed and no child, or a child without its summary."""
    trial = new("rotation-atomicity")
    trial.die_at(hook)
    assert set(trial.recover()) == {"rotation-atomicity"}
