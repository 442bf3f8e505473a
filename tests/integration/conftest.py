"""One lab for all integration tests that run trials by hand: its engine services start once."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import docker
import pytest
from remains import left, left_by_trials

from lab.campaigns.base import CAMPAIGNS, Inputs, Request
from lab.campaigns.session import checked
from lab.campaigns.stage import Stage, new_stage
from lab.engine.client import connect
from lab.model import CrashPoint, CrashScript, Kind, Trial
from lab.run.pool import Stop
from lab.run.record import new_run_id
from lab.storage import Provisioner
from lab.subject.spec import VerifierTable
from lab.trial import Outcome, run_trial
from lab.trial.prepare import workloads
from lab.trial.worker import Worker

MISBEHAVING = Path(__file__).parent.parent / "subjects" / "misbehaving" / "subject.toml"
STEP = CrashPoint(1, "work.step", 1)

RunOne = Callable[..., Outcome]


@pytest.fixture(scope="session")
def engine() -> Iterator[docker.DockerClient]:
    client = connect()
    yield client
    client.close()


@contextmanager
def staged(engine: docker.DockerClient, request: Request, inputs: Inputs | None = None) -> Iterator[Stage]:
    """The stage of a run, as its campaign or these inputs make it; nothing is left at the end."""
    subject = checked(request)
    if inputs is None:
        inputs = CAMPAIGNS[request.campaign].inputs(subject, request)
    run = new_run_id(uuid.uuid4().hex)
    with new_stage(run, request, subject, inputs, Stop(), print) as stage:
        yield stage
    assert left(engine, run) == []


@pytest.fixture(scope="session")
def stage(engine: docker.DockerClient) -> Iterator[Stage]:
    """Services, layers, a worker and the prepared state of the misbehaving subject."""
    request = Request("matrix", str(MISBEHAVING), 1, ("ext4", "tmpfs", "overlay"), 1, keep_evidence=False)
    scripts = workloads(checked(request), request.seed, 1)
    with staged(engine, request, Inputs(scripts.killed, scripts.prepared)) as stage:
        yield stage


@pytest.fixture
def run_one(engine: docker.DockerClient, stage: Stage) -> RunOne:
    """Run one trial of the misbehaving subject, and see that it leaves nothing."""

    def run(
        *,
        storage: str = "tmpfs",
        verifier: str = "honest",
        points: tuple[CrashPoint, ...] = (STEP,),
        layers: Mapping[str, Provisioner] | None = None,
        **how: str,
    ) -> Outcome:
        table = VerifierTable(image=stage.setting.verifier_image, command=("verifier", verifier))
        subject = stage.setting.subject.model_copy(update={"verifier": table})
        setting = replace(stage.setting, subject=subject, workloads=(how,))
        trial = Trial(1, Kind.POINT, storage, CrashScript(0, points))

        def work(worker: Worker, task: Trial) -> Outcome:
            return run_trial(task, setting, replace(worker, layers=layers or worker.layers), keep_evidence=False)

        (outcome,) = stage.pool.each([trial], work)
        assert left_by_trials(engine, stage.setting.run) == []
        return outcome

    return run
