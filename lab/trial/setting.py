"""What all trials of a run share: subject, images, workloads and the prepared state. Plain, picklable data."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cached_property

from lab.codec import to_json
from lab.engine.errors import UsageError
from lab.model import CrashScript, Json, Promises, Scenario
from lab.subject.spec import Subject
from lab.workloads import promises_of, rules_of

WORKLOAD_BYTES = 100 * 1024  # Linux takes 128 KiB for one environment variable


@dataclass(frozen=True)
class Prepared:
    """The state that every trial starts from: a finished workload, what it left, and what the ledger saw of it."""

    workload: Json
    ledger: Json
    archive: bytes  # a tar of the data folder, as the subject's user

    @property
    def told(self) -> Json:
        return {"workload": self.workload, "ledger": self.ledger}


@dataclass(frozen=True)
class Setting:
    """What all trials of a campaign share. Plain data."""

    run: str
    seed: int
    subject: Subject
    subject_image: str
    verifier_image: str
    clients_image: str | None  # only where clients drive the subject
    workloads: tuple[Json, ...]  # that the subject drives itself through
    prepared: Prepared

    @cached_property
    def workload_texts(self) -> tuple[str, ...]:
        """The workloads as the subject gets them, in `LAB_WORKLOAD`."""
        return tuple(workload_text(w) for w in self.workloads)

    def told(self, script: CrashScript | Scenario) -> Json:
        """What the checker is told of a script: its workload, or the scenario itself."""
        return self.workloads[script.workload] if isinstance(script, CrashScript) else dict(to_json(script))

    def promised(self, script: CrashScript | Scenario) -> Promises:
        """What a trial is judged by: a family of workloads may ask for some of the subject's promises only."""
        if isinstance(script, CrashScript):
            return promises_of(self.workloads[script.workload], self.subject.promises)
        return self.subject.promises

    def ledger_rules(self, script: CrashScript | Scenario) -> Json:
        """What the outside world does. A request that a first crash cuts is held until its sender is gone."""
        if isinstance(script, Scenario):
            return {"decline": [], "lose_reply": list(script.lost_replies)}
        hold_at = self.subject.ledger.hold_at
        held = [point.occurrence for point in script.points if point.life == 1 and point.hook == hold_at]
        return {**rules_of(self.workloads[script.workload]), "hold": held}


def workload_text(workload: Json) -> str:
    """A workload as a subject gets it. Raises UsageError if it is longer than an environment variable may be."""
    text = json.dumps(workload, sort_keys=True, separators=(",", ":"))
    if len(text) > WORKLOAD_BYTES:
        raise UsageError(
            f"a workload has {len(text):,} bytes; at most {WORKLOAD_BYTES:,} fit", "Split it into several workloads."
        )
    return text
