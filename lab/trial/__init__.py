"""One trial, from a script to evidence and a verdict."""

from __future__ import annotations

from dataclasses import dataclass

from lab.model import CrashPoint, CrashScript, Failure, Hit, Kind, Trial
from lab.trial.client_driven import ClientDriven
from lab.trial.run import Outcome
from lab.trial.self_driven import CensusTaker, SelfDriven
from lab.trial.setting import Setting
from lab.trial.worker import Worker

__all__ = ["Outcome", "Taken", "run_trial", "take_census"]


@dataclass(frozen=True)
class Taken:
    """A census: every hit in order, each answer behind them as a moment; or why the run did not come to its end."""

    hits: tuple[Hit, ...]
    failure: Failure | None = None


def run_trial(
    trial: Trial, setting: Setting, worker: Worker, *, keep_evidence: bool, keep_containers: bool = False
) -> Outcome:
    """Run one trial to its verdict. Raises Interrupted; every other failure is part of the evidence."""
    driver = SelfDriven if isinstance(trial.script, CrashScript) else ClientDriven
    return driver(trial, setting, worker, keep=keep_containers).run(keep_evidence=keep_evidence)


def take_census(setting: Setting, worker: Worker, workload: int, storage: str, first: CrashPoint | None) -> Taken:
    """The census of a run without a fault; or of the life after a first crash point, to the end of the resumed work."""
    trial = Trial(0, Kind.POINT, storage, CrashScript(workload, (first,) if first else ()))
    census = CensusTaker(trial, setting, worker)
    failure = census.run(keep_evidence=False).evidence.failure
    return Taken(tuple(census.hits), failure)
