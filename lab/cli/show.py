"""Text of stored runs for `lab show` and `lab compare`."""

from __future__ import annotations

from lab.campaigns.base import campaign_of
from lab.engine.errors import LabError, UsageError
from lab.report.compare import compare as compare_runs
from lab.report.trial import show_run, show_trial
from lab.run.load import load
from lab.run.record import RUNS, Record
from lab.text import visible

ENDED = {0: "passed", 1: "a promise was broken", 2: "not enough evidence", 3: "failed", 130: "interrupted"}


def show(run: str | None, trial: int | None, *, everything: bool = False) -> str:
    """The runs there are, one run, or one trial of it. Raises UsageError."""
    if run is None:
        return _list()
    record = Record.find(run)
    data = load(record)
    if trial is None:
        return show_run(data, campaign_of(record).report, everything=everything)
    folder = next((r.evidence for r in data.results if r.trial.ident == trial), None)
    return show_trial(data, trial, record.evidence(folder)[0] if folder else None)


def compare(run: str, other: str | None) -> str:
    """Layers of a run side by side, or two runs. Raises UsageError."""
    runs = [load(Record.find(name)) for name in (run, other) if name]
    for data in runs:
        if data.bounds:
            raise UsageError(
                f"run {data.run} has no plan of trials: its layers ran other scenarios, there is nothing to compare",
                f"`lab show {data.run}` has its layers one below the other.",
            )
    return compare_runs(*runs)


def _list() -> str:
    folders = sorted(path.parent for path in RUNS.glob("*/run.json") if not path.parent.is_symlink())
    return "\n".join(visible(" ".join(_listed(Record(path)).splitlines())) for path in folders) or f"no runs in {RUNS}"


def _listed(record: Record) -> str:
    """One run on one line; a damaged one must not keep the others from being listed."""
    try:
        header = record.header()
        about = f"{record.path.name}  {header.campaign} of {header.subject}, seed {header.seed}"
        if not record.has("plan.json"):
            return f"{about}: it got no plan"
        code = record.read("summary.json").get("exit_code") if record.has("summary.json") else None
        ended = "not finished" if code is None else ENDED.get(code, f"exit code {code}")
        return f"{about}: {len(record.results()):,} trials run, {ended}"
    except (LabError, ValueError, AttributeError, TypeError) as error:
        return f"{record.path.name}  cannot be read: {error.what if isinstance(error, LabError) else error}"
