"""One lab for all integration tests that run trials by hand: its engine services start once."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path

import docker
import pytest
from lab.campaigns.frame import Request, Stage, checked, new_stage
from lab.storage.base import StorageLayer
from lab.trial.life import Outcome, run_trial
from remains import left, left_by_trials

from lab.engine.client import connect
from lab.model import CrashPoint, Kind, Trial
from lab.run.pool import Stop
from lab.subject.spec import VerifierTable
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


@pytest.fixture(scope="session")
def stage(engine: docker.DockerClient) -> Iterator[Stage]:
    """Services, layers, a worker and the prepared state of the misbehaving subject; nothing is left at the end."""
    request = Request("test", str(MISBEHAVING), 1, ("ext4", "tmpfs", "overlay"), 1, keep_evidence=False)
    subject = checked(request)
    with new_stage(request, subject, workloads(subject, request.seed, 1), Stop(), print) as stage:
        yield stage
    assert left(engine, stage.setting.run) == []


@pytest.fixture
def run_one(engine: docker.DockerClient, stage: Stage) -> RunOne:
    """Run one trial of the misbehaving subject, and see that it leaves nothing."""

    def run(
        *,
        storage: str = "tmpfs",
        verifier: str = "honest",
        points: tuple[CrashPoint, ...] = (STEP,),
        layers: Mapping[str, StorageLayer] | None = None,
        **how: str,
    ) -> Outcome:
        table = VerifierTable(image=stage.setting.verifier_image, command=("verifier", verifier))
        subject = stage.setting.subject.model_copy(update={"verifier": table})
        setting = replace(stage.setting, subject=subject, workloads=(how,))
        trial = Trial(1, Kind.POINT, storage, 0, points)

        def work(worker: Worker, task: Trial) -> Outcome:
            return run_trial(task, setting, replace(worker, layers=layers or worker.layers), keep_evidence=False)

        (outcome,) = stage.crew.each([trial], work)
        assert left_by_trials(engine, stage.setting.run) == []
        return outcome

    return run
