"""A run as one self-contained HTML file: no script, nothing fetched, light and dark, fit to print.

Pure but for reading its own template, which lies beside this module. The template escapes everything it is given;
the chart alone is markup, and made here. Same run, same bytes.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from lab.model import Result, Word
from lab.report import coverage, legs, text
from lab.report.charts import recovery_chart
from lab.report.console import recovery
from lab.report.data import BugInfo, HookInfo, RunData
from lab.report.headline import bound_sentence, headline
from lab.report.summary import Summary

FAILURES_SHOWN = 100  # in full; a file of thousands of the same failure helps nobody

SYMBOLS = {
    "pass": "✓",
    "note": "✎",
    "violation": "✗",
    "unreproduced": "?",
    "hang": "…",
    "invalid": "∅",
    "error": "!",
}


@dataclass(frozen=True)
class HookRow:
    """One line of the hook table: a cell for each layer."""

    hook: HookInfo
    cells: tuple[coverage.Cell, ...]


@dataclass(frozen=True)
class LegCell:
    """One leg on one layer: what it says, and the place of the page that says why."""

    said: str
    word: str
    link: str = ""


@dataclass(frozen=True)
class FailureCard:
    """A red trial as the page shows it; or a note."""

    ident: str
    storage: str
    fault: str
    word: Word
    title: str
    details: tuple[tuple[str, str], ...]
    anchor: str = ""  # where the table of cells links to; a matrix has no such table


def render(data: RunData, summary: Summary) -> str:
    """The page."""
    failures = data.failures()
    cards = [_card(data, result) for result in failures[:FAILURES_SHOWN]]
    notes = [_card(data, results[0]) for results in legs.noted(data).values()]
    return (
        pages()
        .get_template("report.html.j2")
        .render(
            data=data,
            summary=summary,
            headline=headline(data, summary),
            bound=bound_sentence(summary),
            modes=legs.modes(data),
            legs=_leg_rows(data, {card.anchor for card in (*cards, *notes)}),
            legend=legs.LEGEND,
            refusals=legs.refusals(data),
            notes=notes,
            failures=cards,
            failures_hidden=max(0, len(failures) - FAILURES_SHOWN),
            chart=Markup(recovery_chart(_times(data))),
            hooks=_hook_groups(data),
            windows=coverage.window_table(data),
            properties=[(name, count, text.promised(data, name)) for name, count in summary.facts.items()],
            ledger=LEDGER_WORDS,
            canaries=_canary_rows(data),
            environment=text.flat(data.environment),
            faults=sorted({t.fault for t in data.trials}),
            words=list(Word),
        )
    )


LEDGER_WORDS = {
    "effects": "effects that landed",
    "resent": "effects that were sent more than once",
    "deduped": "requests answered from an earlier one with the same key",
    "fenced": "requests refused by a fence",
    "receipts": "receipt questions that found one",
}


def pages() -> Environment:
    """What every page of a report is made with."""
    made = Environment(
        loader=FileSystemLoader(Path(__file__).parent / "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_printable,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.globals.update(symbol=SYMBOLS.get, recovery=recovery)
    made.filters.update(plural=text.plural, duration=text.duration, number="{:,}".format)
    return made


def _printable(value: object) -> object:
    """HTML forbids control characters even escaped; `Markup` is our own and stays as it is."""
    return value if isinstance(value, Markup) or not isinstance(value, str) else text.printable(value)


def _card(data: RunData, result: Result) -> FailureCard:
    trial = result.trial
    return FailureCard(
        ident=text.ident(trial),
        storage=trial.storage,
        fault=trial.fault,
        word=result.verdict.word,
        title=text.heading(data, result),
        details=tuple(text.details(data, result)),
        anchor=_anchor(data, result),
    )


def _anchor(data: RunData, result: Result) -> str:
    """A note stands for all of its leg: only the first of them is shown."""
    leg = data.leg(result.trial)
    if leg is None:
        return ""
    return f"note-{data.legs.index(leg)}" if result.verdict.word is Word.NOTE else f"trial-{text.ident(result.trial)}"


def _leg_rows(data: RunData, anchors: set[str]) -> list[tuple[str, list[tuple[str, list[LegCell]]]]]:
    """Cell -> layer -> a word for each journal mode."""
    groups: dict[str, list[tuple[str, list[LegCell]]]] = {}
    numbers = {reason: n for n, reason in enumerate(legs.refusals(data), 1)}
    for row in legs.rows(data):
        words = [_leg_cell(data, outcome, numbers, anchors) for outcome in row.outcomes]
        groups.setdefault(row.cell, []).append((row.layer, words))
    return list(groups.items())


def _leg_cell(data: RunData, outcome: legs.Outcome | None, numbers: dict[str, int], anchors: set[str]) -> LegCell:
    if outcome is None:
        return LegCell(legs.NO_LEG, "")
    link = _anchor(data, outcome.worst) if outcome.worst else ""
    if not outcome.leg.offered:
        link = f"reason-{numbers[outcome.leg.reason]}"
    return LegCell(str(outcome), outcome.word, link if link in anchors or not outcome.leg.offered else "")


def _times(data: RunData) -> dict[str, list[float]]:
    return {storage: [ms for r in data.judged(storage) for ms in r.recovery_ms] for storage in data.storages}


def _hook_groups(data: RunData) -> list[tuple[str, list[HookRow]]]:
    """The hook table, those of a plain run first, then those that only a recovery reaches."""
    table = coverage.hook_table(data)
    groups: dict[str, list[HookRow]] = {}
    for hook in sorted(coverage.places(data), key=lambda h: h.where == "recovery"):
        groups.setdefault(hook.where, []).append(HookRow(hook, tuple(table[hook.name].values())))
    return list(groups.items())


def _canary_rows(data: RunData) -> list[tuple[BugInfo, dict[str, coverage.Canary]]]:
    """Planted bug -> layer -> what became of it there."""
    rows: dict[BugInfo, dict[str, coverage.Canary]] = {}
    for canary in coverage.canaries(data):
        rows.setdefault(canary.bug, {})[canary.storage] = canary
    return list(rows.items())
