"""Text of stored runs for `lab show` and `lab compare`."""

from __future__ import annotations

from lab.engine.errors import LabError, UsageError
from lab.record import RUNS, Record
from lab.report.compare import compare as compare_runs
from lab.report.show import UnknownTrial, show_run, show_trial
from lab.stored import load

ENDED = {0: "passed", 1: "a promise was broken", 2: "not enough evidence", 3: "failed", 130: "interrupted"}


def show(run: str | None, trial: int | None) -> str:
    """The runs there are, one run, or one trial of it. Raises UsageError."""
    if run is None:
        return _list()
    record = Record.find(run)
    data = load(record)
    if trial is None:
        return show_run(data)
    folder = next((r.evidence for r in data.results if r.trial.ident == trial), None)
    evidence = record.evidence(folder)[0] if folder else None
    try:
        return show_trial(data, trial, evidence)
    except UnknownTrial as error:
        raise UsageError(str(error)) from error


def compare(run: str, other: str | None) -> str:
    return compare_runs(load(Record.find(run)), load(Record.find(other)) if other else None)


def _list() -> str:
    lines = []
    for path in sorted(p.parent for p in RUNS.glob("*/run.json") if not p.parent.is_symlink()):
        record = Record(path)
        try:
            header = record.header()
            code = record.read("summary.json")["exit_code"] if record.has("summary.json") else None
            if not record.has("plan.json"):
                lines.append(f"{header.run}  {header.campaign} of {header.subject}, seed {header.seed}: it got no plan")
                continue
            ended = "not finished" if code is None else ENDED.get(code, f"exit code {code}")
            about = f"{header.run}  {header.campaign} of {header.subject}, seed {header.seed}"
            lines.append(f"{about}: {len(record.results()):,} trials run, {ended}")
        except LabError as error:
            lines.append(f"{path.name}  {error.what}")
    return "\n".join(lines) or f"no runs in {RUNS}"
