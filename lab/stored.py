"""A run on disk as the reports see it. Reads only; `lab.record` knows the files, `lab.report` knows what to show."""

from __future__ import annotations

from lab.model import Json
from lab.record import Record
from lab.report.data import BugInfo, Coverage, HookInfo, RunData
from lab.subject import Subject


def load(record: Record) -> RunData:
    """Everything of a finished or partial run that a report needs. Raises LabError if it never got to a plan."""
    header, plan = record.header(), record.plan()
    subject = recorded_subject(record)
    lines = record.journal()
    return RunData(
        run=header.run,
        campaign=header.campaign,
        subject=header.subject,
        seed=header.seed,
        storages=header.storages,
        trials=plan.trials,
        results=record.results(),
        hooks=tuple(HookInfo(h.name, h.meaning, h.where) for h in subject.hooks),
        expected_hooks=subject.expected_hooks,
        points_known=plan.points_known,
        bugs=tuple(BugInfo(b.name, b.property, b.meaning, b.canary) for b in subject.bugs),
        coverage=Coverage(**subject.coverage.model_dump()),
        promises=subject.promises,
        environment=header.environment,
        took_s=_took_s(lines),
        interrupted=bool(lines) and lines[-1].get("interrupted", True),
        workloads=len(record.inputs()[0]),
        path=record.path,
        covers=plan.covers,
        whole=plan.whole,
    )


def recorded_subject(record: Record) -> Subject:
    """The subject as it was when the run began, whatever has become of its files since."""
    return Subject.model_validate(record.read("subject.json"))


def _took_s(lines: list[Json]) -> float:
    """Seconds of work over all sessions: each counts from its beginning to its last line."""
    total = last = 0.0
    for line in lines:
        if line.get("session") == "began":
            total, last = total + last, 0.0
        last = float(line["at_s"])
    return total + last
