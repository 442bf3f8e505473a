"""Text of stored runs for `lab show` and `lab compare`."""

from __future__ import annotations

from lab.engine.errors import LabError, UsageError
from lab.fuzz import store
from lab.fuzz.model import CAMPAIGN
from lab.report import fuzz_show
from lab.report.compare import compare as compare_runs
from lab.report.show import UnknownTrial, show_run, show_trial
from lab.run import load_fuzz as stored_fuzz
from lab.run.load import load
from lab.run.record import RUNS, Record

ENDED = {0: "passed", 1: "a promise was broken", 2: "not enough evidence", 3: "failed", 130: "interrupted"}


def show(run: str | None, trial: int | None) -> str:
    """The runs there are, one run, or one trial of it. Raises UsageError."""
    if run is None:
        return _list()
    record = Record.find(run)
    try:
        return (_show_fuzz if record.header().campaign == CAMPAIGN else _show)(record, trial)
    except UnknownTrial as error:
        raise UsageError(str(error)) from error


def _show(record: Record, trial: int | None) -> str:
    data = load(record)
    if trial is None:
        return show_run(data)
    folder = next((r.evidence for r in data.results if r.trial.ident == trial), None)
    return show_trial(data, trial, record.evidence(folder)[0] if folder else None)


def _show_fuzz(record: Record, trial: int | None) -> str:
    results, data = stored_fuzz.load(record)
    if trial is None:
        return fuzz_show.show_run(results, data)
    folder = next((r.evidence for r in results if r.trial.ident == trial), None)
    return fuzz_show.show_trial(results, data, trial, store.read_evidence(record, folder) if folder else None)


def compare(run: str, other: str | None) -> str:
    """Layers of a run side by side, or two runs. Raises UsageError."""
    records = [Record.find(name) for name in (run, other) if name]
    for record in records:
        if record.header().campaign == CAMPAIGN:
            raise UsageError(
                f"run {record.path.name} is a fuzz run: its layers ran other scenarios, there is nothing to compare",
                f"`lab show {record.path.name}` has its layers one below the other.",
            )
    return compare_runs(*map(load, records))


def _list() -> str:
    lines = []
    for path in sorted(p.parent for p in RUNS.glob("*/run.json") if not p.parent.is_symlink()):
        record = Record(path)
        try:
            header = record.header()
            code = record.read("summary.json")["exit_code"] if record.has("summary.json") else None
            if not record.has("fuzz.json" if header.campaign == CAMPAIGN else "plan.json"):
                lines.append(f"{header.run}  {header.campaign} of {header.subject}, seed {header.seed}: it got no plan")
                continue
            finished = store.results(record) if header.campaign == CAMPAIGN else record.results()
            ended = "not finished" if code is None else ENDED.get(code, f"exit code {code}")
            about = f"{header.run}  {header.campaign} of {header.subject}, seed {header.seed}"
            lines.append(f"{about}: {len(finished):,} trials run, {ended}")
        except LabError as error:
            lines.append(f"{path.name}  {error.what}")
    return "\n".join(lines) or f"no runs in {RUNS}"
