"""A run as a Markdown summary, for the step summary of a CI job. Pure; all that a subject said is escaped."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from lab.model import Result, Word
from lab.report import legs, text
from lab.report.console import recovery
from lab.report.data import LegInfo, RunData
from lab.report.headline import bound_sentence, headline
from lab.report.summary import Summary

FAILURES_SHOWN = 20  # GitHub cuts a step summary at 1 MiB; the HTML report has them all


def render(data: RunData, summary: Summary) -> str:
    """The document as text."""
    final = headline(data, summary)
    parts = [
        f"## {'✅' if summary.exit_code == 0 else '❌'} {final.word}: {escape(final.sentence)}",
        f"{escape(data.subject)} · {data.campaign} `{data.run}` · seed `{data.seed}`",
        *_cells(data),
        _layers(summary),
        _covered(summary),
    ]
    if summary.no_work or summary.canaries_missed:
        missed = [f"planted bug not caught: {name}" for name in summary.canaries_missed]
        reasons = [f"- {escape(reason)}" for reason in (*summary.no_work, *missed)]
        parts.append("\n".join(["### Not enough evidence", "", *reasons]))
    if data.failures():
        parts.append(_failures(data))
    if notes := legs.noted(data):
        parts.append(_notes(data, notes))
    return "\n\n".join(parts) + "\n"


def escape(said: str) -> str:
    """On one line, with nothing in it that Markdown or HTML would take for its own."""
    safe = text.one_line(said).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return re.sub(r"([\\`*_\[\]|#~])", r"\\\1", safe)


def _layers(summary: Summary) -> str:
    head = ["layer", "trials", *Word, "recovery p50 / p95 / max", "hooks", "points tried"]
    rows = [
        [
            escape(layer.storage),
            f"{layer.trials:,}",
            *(f"{layer.verdicts[word]:,}" for word in Word),
            recovery(layer.recovery),
            f"{layer.hooks_covered:,} of {summary.hooks_expected:,}",
            f"{layer.points_tried:,} of {summary.points_known:,}",
        ]
        for layer in summary.layers
    ]
    return table(head, ["---", *["--:"] * (len(head) - 1)], rows)


def table(head: Sequence[str], rule: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table of cells that are escaped already."""
    return "\n".join("| " + " | ".join(row) + " |" for row in (head, rule, *rows))


def _cells(data: RunData) -> list[str]:
    """The table of a cells campaign, and why something is not offered."""
    if not data.legs:
        return []
    head = ["cell", "layer", *map(escape, legs.modes(data))]
    rows = [[escape(row.cell), escape(row.layer), *map(escape, row.words)] for row in legs.folded(data)]
    refused = [f"- {legs.NOT_OFFERED}: {escape(what)}: {escape(why)}" for why, what in legs.refusals(data).items()]
    words = table(head, ["---", "---", *["--:"] * len(legs.modes(data))], rows)
    return [words, "\n".join([f"- legs: {legs.LEGEND}", *refused])]


def _covered(summary: Summary) -> str:
    lines = [
        f"{text.plural(summary.kills, 'real kill')}, {summary.second_crashes:,} of them inside recovery",
        f"hooks killed at on every layer: {summary.hooks_covered:,} of {summary.hooks_expected:,}",
        f"canaries caught: {summary.canaries_caught:,} of {summary.canaries_planted:,}",
        f"effect ledger: {', '.join(f'{count:,} {name}' for name, count in summary.ledger.items())}",
        f"bound: {bound_sentence(summary)}",
    ]
    return "\n".join(f"- {line}" for line in lines)


def _failures(data: RunData) -> str:
    failures = data.failures()
    lines = ["### Red trials", "", _trials(data, failures[:FAILURES_SHOWN])]
    if len(failures) > FAILURES_SHOWN:
        lines += ["", f"and {text.plural(len(failures) - FAILURES_SHOWN, 'more')}: `lab show {data.run}`"]
    return "\n".join(lines)


def _notes(data: RunData, notes: Mapping[LegInfo, Sequence[Result]]) -> str:
    """The first loss of each leg that nobody promised to prevent: green, and shown."""
    return "\n".join(["### Lost, and promised by nobody", "", _trials(data, [found[0] for found in notes.values()])])


def _trials(data: RunData, results: Sequence[Result]) -> str:
    head = ["trial", "layer", "verdict", "point", "what", "replay"]
    return table(head, ["---"] * len(head), [_trial(data, result) for result in results])


def _trial(data: RunData, result: Result) -> list[str]:
    differs, trial, what = result.verdict.differs, result.trial, text.heading(data, result)
    if differs:
        what += f": {differs.fact} expected {text.value(differs.expected)}, found {text.value(differs.found)}"
    elif data.leg(trial) and result.verdict.why:
        what += f": {result.verdict.why}"
    said = [text.ident(trial), trial.storage, result.verdict.word.value, text.points(trial), text.one_line(what, 300)]
    return [*map(escape, said), f"`lab replay {data.run} {text.ident(trial)}`"]
