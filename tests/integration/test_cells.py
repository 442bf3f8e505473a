"""The cells campaign on real containers: what is green, what is red, and what is neither, trial by trial.

What takes a whole campaign is run as a person does, on a store that offers two cells; the rest is one trial each.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import docker
import pytest
from conftest import staged

from lab.campaigns import cells
from lab.campaigns.base import Inputs, Planning, Request
from lab.campaigns.session import checked
from lab.campaigns.stage import Stage
from lab.codec import from_json
from lab.model import CrashScript, Json, Kind, Trial, Word, catches
from lab.plan.cells import Leg
from lab.subject.load import load
from lab.subject.spec import Subject
from lab.trial import Outcome, run_trial
from lab.workloads.session_cells import RACERS

pytestmark = pytest.mark.docker

REQUEST = Request("cells", "sessions", 3, ("tmpfs",), 2, keep_evidence=False, options={"nightly": False})
BUGS = load("sessions").bugs
ANNOUNCES = r"""printf '\036{"lab":"%s","hit":"HOOK","n":1,"barrier":true}\n' "$LAB_NONCE"; read -r line; """


class Bench:
    """The services of a run of the reference store, ready; trials are run on it one by one."""

    def __init__(self, stage: Stage, inputs: Inputs) -> None:
        self.stage = stage
        self.inputs = inputs

    def run(self, trial: Trial, workload: Json | None = None, subject: Subject | None = None) -> Outcome:
        """This trial, in its own workload and of the store as it is, or of others."""
        setting = self.stage.setting
        if workload is not None:
            setting = replace(setting, workloads=(workload,))
        if subject is not None:
            setting = replace(setting, subject=subject)
        (outcome,) = self.stage.pool.each([trial], lambda w, t: run_trial(t, setting, w, keep_evidence=False))
        return outcome

    def workload_of(self, cell: str) -> Json:
        legs = from_json(tuple[Leg, ...], self.inputs.files[cells.LEGS])
        number = next(leg.workload for leg in legs if (leg.cell, leg.journal_mode) == (cell, "default"))
        assert number is not None
        return self.stage.setting.workloads[number]


@pytest.fixture(scope="module")
def bench(engine: docker.DockerClient) -> Iterator[Bench]:
    inputs = cells.inputs(checked(REQUEST), REQUEST)
    with staged(engine, REQUEST, inputs) as stage:
        yield Bench(stage, inputs)


@pytest.mark.parametrize("bug", BUGS, ids=[bug.name for bug in BUGS])
def test_each_planted_bug_is_caught_by_its_own_property_where_it_is_named_to_show(bench: Bench, bug: Any) -> None:
    """As `lab run cells --bug` plans it: its census, its leg, its points. An audit that differs is invalid, not red."""
    setting, pool = bench.stage.setting, bench.stage.pool
    plan, _ = cells.plan(Planning(replace(REQUEST, bug=bug.name), bench.inputs, setting, pool, print))
    verdict = bench.run(plan.trials[0]).verdict
    assert catches(verdict, bug.property), verdict
    audit = bug.property in setting.subject.verifier.audits
    assert verdict.word is (Word.INVALID if audit else Word.VIOLATION), verdict


RACE = Trial(1, Kind.POINT, "tmpfs", CrashScript(0, (), RACERS), drawn="cover")


def without_racing_processes(workload: Json) -> Json:
    """So that what is found is found by the containers."""
    return {**workload, "work": [op for op in workload["work"] if op["op"] != "race_processes"]}


@pytest.mark.parametrize("cell", ["consume-once", "outbox-exactly-once"])
def test_a_race_of_containers_on_a_good_store_passes_with_every_end_seen(bench: Bench, cell: str) -> None:
    """One wins at most what there is to win; eight ends are in the evidence and in the verifier's history."""
    outcome = bench.run(RACE, without_racing_processes(bench.workload_of(cell)))
    assert outcome.verdict.word is Word.PASS, outcome.verdict
    ends = [p.exit_code for p in outcome.evidence.processes if p.racer is not None]
    assert len(ends) == RACERS
    assert set(ends) == {0, 10}
    assert cell != "consume-once" or ends.count(0) == 1  # two deliveries were left, and two may have sent one
    assert sum("exited" in line for line in outcome.evidence.history) == RACERS
    assert [p.killed for p in outcome.evidence.processes] == [False] * 10


@pytest.mark.parametrize(
    ("cell", "bug"), [("consume-once", "claim-by-read-then-write"), ("outbox-exactly-once", "both-gateways-send")]
)
def test_a_race_of_containers_catches_a_store_that_lets_two_win(bench: Bench, cell: str, bug: str) -> None:
    """Planted: racers that run one after the other, or on volumes of their own, would all be green."""
    verdict = bench.run(replace(RACE, bug=bug), without_racing_processes(bench.workload_of(cell))).verdict
    assert (verdict.word, verdict.property) == (Word.VIOLATION, cell), verdict


def racing(bench: Bench, third: str) -> Subject:
    """The store, with a third racer that does something else."""
    subject = bench.stage.setting.subject
    script = f'if [ "$LAB_RACER" = 3 ]; then {third}; fi; exec sessions race'
    return subject.model_copy(update={"subject": subject.subject.model_copy(update={"race": ("sh", "-c", script)})})


@pytest.mark.parametrize("cell", ["consume-once", "outbox-exactly-once"])
def test_a_racer_that_crashes_is_never_counted_as_one_that_lost(bench: Bench, cell: str) -> None:
    """Planted: seven crashes and a winner are a clean race."""
    crashing = racing(bench, f"{ANNOUNCES.replace('HOOK', 'race.ready')} exit 1")
    outcome = bench.run(RACE, without_racing_processes(bench.workload_of(cell)), crashing)
    assert [p.exit_code for p in outcome.evidence.processes if p.racer == 3] == [1]
    assert (outcome.verdict.word, outcome.verdict.property) == (Word.VIOLATION, cell), outcome.verdict
    assert outcome.verdict.differs is not None
    assert outcome.verdict.differs.fact == "racer 3 exit code"


NEVER_READY = {
    "it ends before": ("exit 10", "racer 3 never got ready"),
    "it stands elsewhere": (ANNOUNCES.replace("HOOK", "claim.before") + "exit 10", "racer 3 never got ready"),
    "it is killed by somebody": (ANNOUNCES.replace("HOOK", "race.ready") + "exit 137", "exited 137 by itself"),
}


@pytest.mark.parametrize(("third", "why"), NEVER_READY.values(), ids=NEVER_READY.keys())
def test_a_race_that_not_all_of_them_ran_is_invalid(bench: Bench, third: str, why: str) -> None:
    """Planted: a race of seven, or one that somebody had begun before the others were there."""
    verdict = bench.run(RACE, without_racing_processes(bench.workload_of("consume-once")), racing(bench, third)).verdict
    assert verdict.word is Word.INVALID
    assert re.search(why, verdict.why), verdict
