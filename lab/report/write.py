"""Writes the files of a run's reports and prints its end. The views themselves are in `lab.report`."""

from __future__ import annotations

import json
from collections.abc import Callable

from lab.fuzz.model import CAMPAIGN
from lab.report import console, fuzz, fuzz_files, fuzz_html, fuzz_summary, html, junit, markdown
from lab.report.summary import Summary, summarise, to_json
from lab.run import load_fuzz as stored_fuzz
from lab.run.load import load
from lab.run.record import Record


def finish(record: Record, say: Callable[[str], None]) -> int:
    """Write the reports, print the end of the run, and return the command's exit code."""
    if record.header().campaign == CAMPAIGN:
        return _finish_fuzz(record, say)
    summary = write_reports(record)
    say(console.end_text(load(record), summary, record.path / "report.html"))
    return summary.exit_code


def write_reports(record: Record) -> Summary:
    """summary.json, report.html, junit.xml and summary.md in the run's folder."""
    data = load(record)
    summary = summarise(data)
    record.write_bytes("summary.json", (json.dumps(to_json(summary), indent=1) + "\n").encode())
    record.write_bytes("report.html", html.render(data, summary).encode())
    record.write_bytes("junit.xml", junit.render(data, summary).encode())
    record.write_bytes("summary.md", markdown.render(data, summary).encode())
    return summary


def _finish_fuzz(record: Record, say: Callable[[str], None]) -> int:
    """The same files of a fuzz run, and its end."""
    results, data = stored_fuzz.load(record)
    summary = fuzz_summary.summarise(results, data)
    record.write_bytes("summary.json", (json.dumps(fuzz_summary.to_json(summary), indent=1) + "\n").encode())
    record.write_bytes("report.html", fuzz_html.render(results, data, summary).encode())
    record.write_bytes("junit.xml", fuzz_files.junit(results, data, summary).encode())
    record.write_bytes("summary.md", fuzz_files.markdown(results, data, summary).encode())
    say(fuzz.end_text(results, data, summary, [record.path / "report.html"]))
    return summary.exit_code
