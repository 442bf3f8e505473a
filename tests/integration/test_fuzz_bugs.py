"""Every planted bug of the two daemons is caught by the property that is named for it, within its stated trials."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace

import docker
import pytest
from conftest import staged

from lab.campaigns.base import Request
from lab.campaigns.stage import Stage
from lab.model import Kind, Scenario, Trial, catches
from lab.plan.plan_file import plan_of
from lab.plan.schedule import Draw
from lab.subject.load import load
from lab.subject.spec import Bug
from lab.trial import Outcome, run_trial
from lab.trial.worker import Worker

pytestmark = [pytest.mark.docker, pytest.mark.timeout(240)]

SEED = 7
LAYERS = ("ext4", "tmpfs", "overlay")
WORKERS = 4
BUGS = [(name, bug) for name in ("muxd", "redis") for bug in load(name).bugs]


@pytest.fixture(scope="module")
def stages(engine: docker.DockerClient) -> Iterator[dict[str, Stage]]:
    """The stage of a run of each daemon."""
    requests = {name: Request("fuzz", name, SEED, LAYERS, WORKERS, keep_evidence=False) for name in ("muxd", "redis")}
    with staged(engine, requests["muxd"]) as muxd, staged(engine, requests["redis"]) as redis:
        yield {"muxd": muxd, "redis": redis}


@pytest.mark.parametrize(("subject", "bug"), BUGS, ids=[f"{name}-{bug.name}" for name, bug in BUGS])
def test_every_planted_bug_is_caught_within_its_trials(stages: dict[str, Stage], subject: str, bug: Bug) -> None:
    """Random scenarios on the layers in turn, as the campaign draws them; as many as the bug may take."""
    ready = stages[subject]
    draw = Draw(plan_of(ready.setting.subject), ready.setting.subject.hooks, SEED, LAYERS)
    assert bug.within is not None
    caught = threading.Event()

    def trials(within: int) -> Iterator[Trial]:
        for number in range(1, within + 1):
            if caught.is_set():
                return
            trial = draw.trial(number, Kind.POINT, number, draw.layer(number), bug.name, SEED)
            # A bug that never answers, or never gets idle, need not be waited for as long as a slow machine.
            assert isinstance(trial.script, Scenario)
            limits = replace(trial.script.limits, up_s=6.0, settle_s=8.0)
            yield replace(trial, script=replace(trial.script, limits=limits))

    def attempt(worker: Worker, trial: Trial) -> Outcome:
        return run_trial(trial, ready.setting, worker, keep_evidence=False)

    seen = []
    with closing(ready.pool.each(trials(bug.within), attempt)) as outcomes:
        for outcome in outcomes:
            seen.append(outcome.verdict)
            if catches(outcome.verdict, bug.property):
                caught.set()
    assert caught.is_set(), [f"{verdict.word} {verdict.property}" for verdict in seen]
