"""Writes the files of a run's reports and prints its end. The views themselves are in `lab.report`."""

from __future__ import annotations

import json
from collections.abc import Callable

from lab.record import Record
from lab.report import console, html, junit, markdown
from lab.report.summary import Summary, summarise, to_json
from lab.stored import load


def write_reports(record: Record) -> Summary:
    """summary.json, report.html, junit.xml and summary.md in the run's folder."""
    data = load(record)
    summary = summarise(data)
    record.write_bytes("summary.json", (json.dumps(to_json(summary), indent=1) + "\n").encode())
    record.write_bytes("report.html", html.render(data, summary).encode())
    record.write_bytes("junit.xml", junit.render(data, summary).encode())
    record.write_bytes("summary.md", markdown.render(data, summary).encode())
    return summary


def finish(record: Record, say: Callable[[str], None]) -> int:
    """Write the reports, print the end of the run, and return the command's exit code."""
    summary = write_reports(record)
    say(console.end_text(load(record), summary, record.path / "report.html"))
    return summary.exit_code
