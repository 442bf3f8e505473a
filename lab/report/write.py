"""Writes the files of a run's report and says its end. The documents and their formats are pure; this is not."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator

from lab.engine.errors import LabError
from lab.report.document import Document, Report
from lab.report.failures import groups
from lab.report.render import html, junit, markdown, text
from lab.report.reports import document
from lab.report.timeline import Timeline, timeline
from lab.run.data import RunData
from lab.run.load import load
from lab.run.record import Record

PICTURES = 30  # of red trials; each is read from disk, and is some 50 KiB of the page

FILES: dict[str, Callable[[Document], str]] = {
    "summary.json": lambda made: json.dumps(made.numbers, indent=1) + "\n",
    "report.html": html.render,
    "junit.xml": junit.render,
    "summary.md": markdown.render,
}


def finish(record: Record, report: Report, say: Callable[[str], None]) -> int:
    """Write the report of a finished or partial run, say its end, and return the command's exit code."""
    data = load(record)
    made = document(data, report, dict(_pictures(record, data)))
    for name, render in FILES.items():
        record.write_bytes(name, render(made).encode())
    say(text.render(made, record.path / "report.html"))
    return made.headline.exit_code


def _pictures(record: Record, data: RunData) -> Iterator[tuple[int, Timeline]]:
    """Of the trials that stand for a kind of failure and whose evidence was kept. A damaged one has no picture."""
    for result in [group[0] for group in groups(data)][:PICTURES]:
        if result.evidence:
            try:
                evidence = record.evidence(result.evidence)[0]
            except (LabError, OSError, ValueError):
                continue  # the report of a run must not hang on one trial's files; `lab show` says what is wrong
            yield result.trial.ident, timeline(evidence, result.verdict)
