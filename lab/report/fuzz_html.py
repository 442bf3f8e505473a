"""A fuzz run as one self-contained HTML file, in the look of lab.report.html. Pure but for its template."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup

from lab.fuzz.model import FuzzResult, Limits
from lab.model import Word
from lab.report import text
from lab.report.charts import waits_chart
from lab.report.data import BROKEN
from lab.report.fuzz import KINDS, details, hooks, ident, note_lines, script_lines, title, violation_line
from lab.report.fuzz_data import FuzzData, caught, distinct, points
from lab.report.fuzz_summary import Summary, headline
from lab.report.html import FAILURES_SHOWN, pages

NOTES_SHOWN = 200  # a page of thousands of the same loss helps nobody


@dataclass(frozen=True)
class Card:
    """The first trial of one kind of failure."""

    ident: str
    storage: str
    word: Word
    title: str
    line: str  # as it was said when it was found
    details: tuple[tuple[str, str], ...]
    also: tuple[str, ...]  # other trials of the same kind
    script: str


def render(results: Sequence[FuzzResult], data: FuzzData, summary: Summary) -> str:
    """The page."""
    groups = distinct(results)
    notes = [line for r in points(results) for line in note_lines(r)]
    quantiles = {text.printable(op): (w.p50, w.p95, w.p99, w.max) for op, w in summary.waits.items()}
    return (
        pages()
        .get_template("fuzz.html.j2")
        .render(
            data=data,
            summary=summary,
            headline=headline(results, data, summary),
            failures=[_card(group, data) for group in groups[:FAILURES_SHOWN]],
            failures_hidden=max(0, len(groups) - FAILURES_SHOWN),
            notes=notes[:NOTES_SHOWN],
            notes_hidden=max(0, len(notes) - NOTES_SHOWN),
            chart=Markup(waits_chart(quantiles, _limit_ms(results))),
            limit_ms=_limit_ms(results),
            hooks=hooks(summary),
            kinds=KINDS,
            properties=[(name, count, _promised(data, name)) for name, count in summary.facts.items()],
            canaries=caught(results, data),
            environment=text.flat(data.environment),
            words=list(Word),
        )
    )


def _limit_ms(results: Sequence[FuzzResult]) -> int:
    """What was promised of an answer: every scenario of a run has the same limits."""
    return next((r.trial.scenario.limits for r in results), Limits()).answer_ms


def _promised(data: FuzzData, name: str) -> str:
    if name in data.audits:
        return "no promise: a difference makes the trial invalid"
    return ", ".join(data.promises.get(name, ())) or "nothing: a loss is a note"


def _card(group: Sequence[FuzzResult], data: FuzzData) -> Card:
    result = group[0]
    short = data.shrunk.get(result.trial.ident)
    return Card(
        ident=ident(result.trial),
        storage=result.trial.storage,
        word=result.verdict.word,
        title=title(result),
        line=violation_line(result) if result.verdict.word in BROKEN else "",
        details=tuple(details(result, data)),
        also=tuple(f"{ident(r.trial)} on {r.trial.storage}" for r in group[1:]),
        script="\n".join(script_lines(short)) if short else "",
    )
