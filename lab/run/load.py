"""A run on disk as the reports see it. Reads only; `lab.run.record` knows the files."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from lab.engine.errors import LabError
from lab.model import Json, Promises, Result
from lab.plan.points import Plan, is_draw
from lab.plan.shrink import How
from lab.run import reproducer
from lab.run.data import BugInfo, HookInfo, LegInfo, Reproducer, RunData, workload_of
from lab.run.record import Record, took_s
from lab.subject.spec import Subject
from lab.workloads import promises_of


def load(record: Record) -> RunData:
    """Everything of a finished or partial run that a report needs. Raises LabError if it never got to a plan."""
    header, plan, subject = record.header(), record.plan(), record.subject()
    _check_draws(record, plan)
    lines, results = record.journal(), record.results()
    workloads, _ = record.inputs()
    tried = sorted({w for t in plan.trials if (w := workload_of(t)) is not None})
    for number in tried:
        _check_workload(record, "plan.json", number, workloads)
    _check_results(record, plan, results)
    return RunData(
        run=header.run,
        campaign=header.campaign,
        subject=header.subject,
        seed=header.seed,
        storages=header.storages,
        trials=plan.trials,
        results=results,
        hooks=tuple(HookInfo(h.name, h.meaning, h.where) for h in subject.hooks),
        expected_hooks=subject.expected_hooks,
        promises=_promises(subject, [workloads[n] for n in tried]) if tried else subject.promises,
        environment=header.environment,
        took_s=took_s(lines, "result"),
        interrupted=bool(lines) and lines[-1].get("interrupted", True),
        path=record.path,
        points_known=plan.points_known,
        population=plan.population,
        workloads=len(workloads),
        bugs=tuple(BugInfo(b.name, b.property, b.meaning, b.canary, b.within or 1) for b in subject.bugs),
        bug=header.bug,
        coverage=subject.coverage,
        covers=plan.covers,
        whole=plan.whole,
        audits=subject.verifier.audits,
        has_ledger=any(r.counts.effects or r.counts.resent for r in results) or bool(subject.coverage.ledger),
        legs=_legs(record, subject, workloads),
        bounds=plan.bounds,
        reproducers={r.trial.ident: found for r in results if (found := _reproducer(record, r)) is not None},
    )


def _check_draws(record: Record, plan: Plan) -> None:
    """Raises LabError for more draws than there were points, of which no bound could be computed."""
    drawn = Counter((trial.storage, trial.faults) for trial in plan.trials if is_draw(trial))
    most = max(drawn.values(), default=0)
    if most > plan.population:
        raise LabError(f"{record.path / 'plan.json'} is damaged: {most:,} draws from {plan.population:,} points")


def _check_results(record: Record, plan: Plan, results: Sequence[Result]) -> None:
    """Raises LabError for a result of a trial that was not planned so: it proves nothing of this plan."""
    planned = {trial.ident: trial for trial in plan.trials}
    for trial in [result.trial for result in results] if planned else ():
        if planned.get(trial.ident) != trial:
            raise LabError(f"{record.path} is damaged: trial {trial.ident} of journal.jsonl is not that of plan.json")


def _check_workload(record: Record, name: str, number: int, workloads: Sequence[Json]) -> None:
    if not 0 <= number < len(workloads):
        raise LabError(f"{record.path / name} is damaged: workload {number} of {len(workloads)}")


def _promises(subject: Subject, workloads: Sequence[Json]) -> Promises:
    """What the trials were judged by, all together: a property with each fault that it is promised under somewhere."""
    found: Promises = {}
    for workload in workloads:
        for name, faults in promises_of(workload, subject.promises).items():
            found[name] = tuple(sorted({*found.get(name, ()), *faults}))
    return found


def _legs(record: Record, subject: Subject, workloads: Sequence[Json]) -> tuple[LegInfo, ...]:
    """The legs as the campaign wrote them, each with what is promised in its mode."""
    legs = []
    for leg in record.read("legs.json", tuple[LegInfo, ...]) if record.has("legs.json") else ():
        if leg.workload is not None:
            _check_workload(record, "legs.json", leg.workload, workloads)
        asked = promises_of(workloads[leg.workload], subject.promises) if leg.workload is not None else {}
        legs.append(replace(leg, promised=asked.get(leg.cell, ())))
    return tuple(legs)


def _reproducer(record: Record, result: Result) -> Reproducer | None:
    name = reproducer.path_of(result.trial.ident)
    if not record.has(name):
        return None
    path = Path(record.path / name)
    how = record.read(reproducer.how_path_of(result.trial.ident), How)
    return Reproducer(path, how, reproducer.read(path).scenario)
