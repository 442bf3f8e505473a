"""A run on disk as the reports see it. Reads only; `lab.record` knows the files, `lab.report` knows what to show."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from lab.campaigns.cells_data import CELLS
from lab.model import Json, Promises, from_json
from lab.report.data import BugInfo, Coverage, HookInfo, LegInfo, RunData
from lab.run.record import Record
from lab.subject.load import Subject
from lab.trial.prepare import promises_of


def load(record: Record) -> RunData:
    """Everything of a finished or partial run that a report needs. Raises LabError if it never got to a plan."""
    header, plan = record.header(), record.plan()
    subject = recorded_subject(record)
    lines = record.journal()
    workloads, _ = record.inputs()
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
        promises=_promises(subject, [workloads[n] for n in sorted({t.workload for t in plan.trials})]),
        environment=header.environment,
        took_s=took_s(lines),
        interrupted=bool(lines) and lines[-1].get("interrupted", True),
        workloads=len(workloads),
        path=record.path,
        covers=plan.covers,
        whole=plan.whole,
        audits=subject.verifier.audits,
        legs=_legs(record, subject, workloads),
    )


def recorded_subject(record: Record) -> Subject:
    """The subject as it was when the run began, whatever has become of its files since."""
    return Subject.model_validate(record.read("subject.json"))


def _promises(subject: Subject, workloads: Sequence[Json]) -> Promises:
    """What the trials were judged by, all together: a property with each fault that it is promised under somewhere."""
    found: Promises = {}
    for workload in workloads:
        for name, faults in promises_of(subject, workload).items():
            found[name] = tuple(sorted({*found.get(name, ()), *faults}))
    return found


def _legs(record: Record, subject: Subject, workloads: Sequence[Json]) -> tuple[LegInfo, ...]:
    """The legs of a cells campaign, each with its clause and what is promised in its mode; a matrix has none."""
    if not record.has("legs.json"):
        return ()
    clauses = {cell.name: f"{cell.clause} ({cell.source})" for cell in CELLS}
    legs = []
    for data in record.read("legs.json"):
        leg = from_json(LegInfo, data)
        asked = promises_of(subject, workloads[leg.workload]) if leg.workload is not None else {}
        legs.append(replace(leg, clause=clauses.get(leg.cell, ""), promised=asked.get(leg.cell, ())))
    return tuple(legs)


def took_s(lines: list[Json]) -> float:
    """Seconds of work over all sessions: each counts from its beginning to its last line."""
    total = last = 0.0
    for line in lines:
        if line.get("session") == "began":
            total, last = total + last, 0.0
        last = float(line["at_s"])
    return total + last
