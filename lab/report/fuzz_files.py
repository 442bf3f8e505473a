"""A fuzz run as a Markdown summary and as JUnit XML, for CI. Pure; all that a subject said is escaped."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from collections.abc import Sequence

from lab.fuzz.model import FuzzResult
from lab.model import RECOVERS, Word
from lab.report import text
from lab.report.console import recovery
from lab.report.data import BROKEN, GREEN
from lab.report.fuzz import details, hooks, ident, note_lines, title, violation_line
from lab.report.fuzz_data import FuzzData, caught, distinct, failures, points
from lab.report.fuzz_summary import Summary, headline
from lab.report.junit import add_suite, document, fail, new_case
from lab.report.markdown import FAILURES_SHOWN, escape, table

NOTES_SHOWN = 20


def markdown(results: Sequence[FuzzResult], data: FuzzData, summary: Summary) -> str:
    """The document as text."""
    final = headline(results, data, summary)
    parts = [
        f"## {'✅' if summary.exit_code == 0 else '❌'} {final.word}: {escape(final.sentence)}",
        f"{escape(data.subject)} · fuzz `{data.run}` · seed `{data.seed}`",
        _layers(summary),
        _waits(summary),
        _covered(summary),
    ]
    if summary.no_work or summary.bugs_missed:
        missed = [f"planted bug not caught: {name}" for name in summary.bugs_missed]
        parts.append(_section("Not enough evidence", [escape(reason) for reason in (*summary.no_work, *missed)]))
    if groups := distinct(results):
        parts.append(_failures(groups, data))
    if notes := [line for r in points(results) for line in note_lines(r)]:
        parts.append(_section("Lost, and promised by nobody", [escape(line) for line in notes[:NOTES_SHOWN]]))
    return "\n\n".join(parts) + "\n"


def _section(name: str, lines: Sequence[str]) -> str:
    return "\n".join([f"### {name}", "", *(f"- {line}" for line in lines)])


def _layers(summary: Summary) -> str:
    head = ["layer", "trials", *Word, "operations", "kills", "restarts", "start to up p50 / p95 / max"]
    rows = [
        [
            escape(layer.storage),
            f"{layer.trials:,}",
            *(f"{layer.verdicts[word]:,}" for word in Word),
            *(f"{count:,}" for count in (layer.operations, layer.kills, layer.restarts)),
            recovery(layer.up),
        ]
        for layer in summary.layers
    ]
    return table(head, ["---", *["--:"] * (len(head) - 1)], rows)


def _waits(summary: Summary) -> str:
    head = ["operation", "requests", "p50 ms", "p95 ms", "p99 ms", "max ms"]
    rows = [
        [escape(op), f"{w.count:,}", *(f"{ms:,.1f}" for ms in (w.p50, w.p95, w.p99, w.max))]
        for op, w in summary.waits.items()
    ]
    return table(head, ["---", *["--:"] * (len(head) - 1)], rows)


def _covered(summary: Summary) -> str:
    lines = [
        f"{summary.operations_per_s:.1f} operations and {summary.kills_per_s:.2f} kills a second",
        f"hooks: {escape(hooks(summary))}",
        f"planted bugs caught: {summary.bugs_caught:,} of {summary.bugs_planted:,}",
        f"facts compared: {', '.join(f'{count:,} {escape(name)}' for name, count in summary.facts.items())}",
    ]
    return "\n".join(f"- {line}" for line in lines)


def _failures(groups: Sequence[Sequence[FuzzResult]], data: FuzzData) -> str:
    head = ["trial", "layer", "verdict", "what", "trials like it", "replay"]
    rows = [
        [
            *map(escape, (ident(r.trial), r.trial.storage, r.verdict.word.value, text.one_line(_what(r), 300))),
            f"{len(group):,}",
            f"`lab replay {data.run} {r.trial.ident}`",
        ]
        for group in groups[:FAILURES_SHOWN]
        for r in group[:1]
    ]
    lines = ["### Red trials", "", table(head, ["---"] * len(head), rows)]
    if len(groups) > FAILURES_SHOWN:
        lines += ["", f"and {text.plural(len(groups) - FAILURES_SHOWN, 'more kind')}: `lab show {data.run}`"]
    return "\n".join(lines)


def _what(result: FuzzResult) -> str:
    return violation_line(result) if result.verdict.word in BROKEN else title(result)


def junit(results: Sequence[FuzzResult], data: FuzzData, summary: Summary) -> str:
    """A suite a layer with a test for each property; one for canaries; one for what a green run must have seen."""
    root = ET.Element("testsuites", name=f"lab {text.printable(data.subject)} fuzz", time=f"{data.took_s:.3f}")
    for storage in data.storages:
        mine = points(results, storage)
        names = dict.fromkeys((*data.promises, *data.audits, RECOVERS))
        cases = [_property(mine, data, name) for name in names]
        add_suite(root, f"fuzz.{storage}", [*cases, _ended(mine, data)])
    add_suite(root, "fuzz.canaries", _canaries(results, data))
    add_suite(root, "fuzz.evidence", [_evidence(results, data, summary)])
    return document(root)


def _property(mine: Sequence[FuzzResult], data: FuzzData, name: str) -> ET.Element:
    """One property on one layer, over all its trials."""
    case = new_case(f"{name} in {text.plural(len(mine), 'trial')}", sum(r.took_s for r in mine))
    broke = [r for r in failures(mine) if r.verdict.word in BROKEN and name in (r.verdict.property, *r.verdict.broken)]
    if broke:
        tag = "failure" if any(r.verdict.word is Word.VIOLATION for r in broke) else "error"
        fail(case, tag, violation_line(broke[0]), _body(broke, data), broke[0].verdict.word)
    return case


def _ended(mine: Sequence[FuzzResult], data: FuzzData) -> ET.Element:
    """Red trials that say nothing of a property; and what was lost without a promise."""
    case = new_case("every trial ran to its end", 0)
    red = [r for r in mine if r.verdict.word not in GREEN | BROKEN]
    if red:
        fail(case, "error", f"{red[0].verdict.word}: {title(red[0])}", _body(red, data), red[0].verdict.word)
    elif notes := [line for r in mine for line in note_lines(r)]:
        ET.SubElement(case, "system-out").text = text.printable("\n".join(notes[:NOTES_SHOWN]))
    return case


def _body(red: Sequence[FuzzResult], data: FuzzData) -> str:
    blocks = ["\n".join(f"{label}: {said}" for label, said in details(r, data)) for r in red[:FAILURES_SHOWN]]
    return "\n\n".join(blocks)


def _canaries(results: Sequence[FuzzResult], data: FuzzData) -> list[ET.Element]:
    cases = []
    for found in caught(results, data):
        case = new_case(found.bug.name, sum(r.took_s for r in found.tries))
        if found.by is None and data.interrupted:
            ET.SubElement(case, "skipped", message="the run ended before it was caught")
        elif found.by is None:
            tries = text.plural(len(found.tries), "trial")
            said = f"planted bug not caught by {found.bug.property} in {tries}"
            fail(case, "failure", said, found.bug.meaning, "canary missed")
        cases.append(case)
    return cases


def _evidence(results: Sequence[FuzzResult], data: FuzzData, summary: Summary) -> ET.Element:
    case = new_case("the run has seen what it must", 0)
    if summary.no_work:
        sentence = headline(results, data, summary).sentence
        fail(case, "error", sentence, "\n".join(summary.no_work), "NO-WORK")
    return case
