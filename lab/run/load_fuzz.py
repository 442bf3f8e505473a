"""A fuzz run on disk as its reports see it. Reads only; `lab.fuzz.store` knows the files."""

from __future__ import annotations

from lab.fuzz import store
from lab.fuzz.model import FuzzResult
from lab.model import from_json
from lab.plan.plan_file import corpus_of
from lab.plan.shrink import How
from lab.report.fuzz_data import FuzzBug, FuzzData, Short
from lab.run import reproducer as scripts
from lab.run.load import recorded_subject, took_s
from lab.run.record import Record


def load(record: Record) -> tuple[tuple[FuzzResult, ...], FuzzData]:
    """Its results and everything else that a report needs. Raises LabError if it never got to a trial."""
    header, subject = record.header(), recorded_subject(record)
    _, bounds, _ = store.read_plan(record)
    lines, results = record.journal(), store.results(record)
    planted = [bug for bug in subject.bugs if (bug.canary if header.bug is None else bug.name == header.bug)]
    data = FuzzData(
        run=header.run,
        subject=header.subject,
        seed=header.seed,
        storages=header.storages,
        promises=subject.promises,
        hooks=tuple(hook.name for hook in subject.hooks),
        took_s=took_s([line for line in lines if "result" in line or line.get("session") == "began"]),  # no shrinking
        interrupted=bool(lines) and lines[-1].get("interrupted", True),
        path=record.path,
        audits=subject.verifier.audits,
        bugs=tuple(FuzzBug(b.name, b.property, b.meaning, b.within or 1) for b in planted),
        minutes=bounds.minutes,
        trials=bounds.trials,
        corpus=len(corpus_of(subject)) if header.bug is None else 0,
        shrunk={r.trial.ident: short for r in results if (short := _short(record, r)) is not None},
        environment=header.environment,
    )
    return results, data


def _short(record: Record, result: FuzzResult) -> Short | None:
    name = store.script_of(result.trial.ident)
    if not record.has(name):
        return None
    path = record.path / name
    how = from_json(How, record.read(store.how_of(result.trial.ident)))
    return Short(path, how, tuple(scripts.lines(scripts.read(path), path)))
