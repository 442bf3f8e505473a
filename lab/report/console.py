"""What a person reads in a terminal when a campaign has ended. Plain text, no colour, at most 100 columns.

Pure: functions return lines, the command line prints them. Progress while it runs is in `progress.py`.
"""

from __future__ import annotations

from pathlib import Path

from lab.model import Kind, Result, Word
from lab.report import coverage, legs
from lab.report.data import RunData
from lab.report.headline import bound_sentence, headline
from lab.report.statistics import Quantiles
from lab.report.summary import Layer, Summary
from lab.report.table import WIDTH, align, ends, labelled
from lab.report.text import HEADING_CHARS, details, heading, ident, one_line, plural, points

FAILURES_SHOWN = 10  # more scroll the first, which is the one to read, off the screen
VALUE_LIMIT = 400  # characters of an expected or found value; the whole is in the evidence


def end_text(data: RunData, summary: Summary, report: Path | None = None) -> str:
    """Everything that is printed at the end: the table, what was covered, the failures, and the verdict last."""
    final = headline(data, summary)
    lines = [*legs.lines(data), *layer_table(summary), *coverage_lines(data, summary)]
    if report:
        lines += labelled("report", str(report))
    for block in (*failure_blocks(data), *note_blocks(data), canary_block(data), no_work_block(summary)):
        lines += ["", *block] if block else []
    if summary.exit_code:
        lines.append("")
    return "\n".join([*lines, *labelled(final.word, final.sentence)]) + "\n"


def layer_table(summary: Summary) -> list[str]:
    """One line a layer. Columns that do not fit are given up from the right: the least is lost there."""
    words = [Word.PASS, Word.VIOLATION, Word.HANG, Word.INVALID, Word.ERROR]
    words[1:1] = [w for w in (Word.NOTE, Word.UNREPRODUCED) if summary.verdicts[w]]
    head = ["layer", "trials", *words, "recovery p50/p95/max", "starts", "points tried"]
    rows = [head] + [_layer_row(layer, words, summary.points_known) for layer in summary.layers]
    while len(max(align(rows), key=len)) > WIDTH:
        rows = [row[:-1] for row in rows]
    return align(rows)


def _layer_row(layer: Layer, words: list[Word], known: int) -> list[str]:
    return [
        layer.storage,
        f"{layer.trials:,}",
        *(f"{layer.verdicts[word]:,}" for word in words),
        recovery(layer.recovery),
        f"{layer.starts_per_trial:.1f}",
        f"{layer.points_tried:,} of {known:,}",
    ]


def recovery(found: Quantiles | None) -> str:
    """`41 /  63 /   118 ms`, aligned; `none seen` if nothing recovered."""
    return f"{found.p50:,.0f} / {found.p95:,.0f} / {found.max:,.0f} ms" if found else "none seen"


def coverage_lines(data: RunData, summary: Summary) -> list[str]:
    """What the numbers rest on, a line each."""
    second = f"{plural(summary.second_crashes, 'second crash', 'second crashes')} inside recovery"
    reached = f"{summary.hooks_covered:,} of {summary.hooks_expected:,} killed at on every layer"
    partly = data.draws_from_every_hook and summary.hooks_covered < summary.hooks_expected
    if partly and not any(coverage.missed(data, s) for s in data.storages):
        reached += " (not all owed)"
    found = summary.ledger
    effects = (
        f"{found['resent']:,} re-sent, {found['deduped']:,} deduped, {found['fenced']:,} fenced, "
        f"{plural(found['receipts'], 'receipt')} found: counted by the ledger"
    )
    compared = plural(sum(summary.facts.values()), "fact")
    facts = f"{compared} compared for {plural(len(summary.facts), 'property', 'properties')}"
    lines = [("hooks", f"{reached} · {second}"), ("effects", effects), ("facts", facts)]
    if summary.canaries_planted:
        lines.append(("canaries", f"{summary.canaries_caught:,} of {summary.canaries_planted:,} caught"))
    lines.append(("bound", bound_sentence(summary)))
    return [line for label, text in lines for line in labelled(label, text)]


def failure_blocks(data: RunData) -> list[list[str]]:
    """The first red trials, worst first, and how many more there are."""
    failures = data.failures()
    blocks = [failure_block(data, result) for result in failures[:FAILURES_SHOWN]]
    if len(failures) > FAILURES_SHOWN:
        more = plural(len(failures) - FAILURES_SHOWN, "more red trial")
        blocks.append([f"and {more}: lab show {data.run}"])
    return blocks


def failure_block(data: RunData, result: Result) -> list[str]:
    """One red trial: what, where, promised, found, evidence, and the line that repeats it."""
    trial = result.trial
    about = f"{result.verdict.word.upper()}  {one_line(heading(data, result), HEADING_CHARS)}"
    lines = [ends(about, f"trial {ident(trial)} · {trial.storage} · {trial.fault}")]
    for label, text in details(data, result):
        lines += labelled(label, one_line(text, VALUE_LIMIT), indent=2)
    return lines


def note_blocks(data: RunData) -> list[list[str]]:
    """The first loss of each leg that nobody promised to prevent, and which other trials had one."""
    blocks = []
    for results in legs.noted(data).values():
        others = ", ".join(f"{ident(r.trial)} on {r.trial.storage}" for r in results[1:])
        more = labelled("also", one_line(others, VALUE_LIMIT), indent=2) if others else []
        blocks.append([*failure_block(data, results[0]), *more])
    return blocks


def canary_block(data: RunData) -> list[str]:
    """Planted bugs that went by: until each is caught, a pass of its property means nothing."""
    missed = [c for c in coverage.canaries(data) if c.caught_by is None]
    if not missed or data.interrupted:
        return []
    lines = [
        f"CANARY MISSED  {plural(len(missed), 'planted bug')} not caught: a pass of its property means nothing yet"
    ]
    for canary in missed:
        ended = ", ".join(f"{ident(r.trial)} {_ending(r)}" for r in canary.tries) or "no try has run"
        lines += labelled(canary.storage, f"{canary.bug.name}: {canary.bug.meaning}", indent=2)
        lines += labelled("", f"must be caught by {canary.bug.property or '?'}; tries: {ended}", indent=2)
    return lines


def _ending(result: Result) -> str:
    named = f" ({result.verdict.property})" if result.verdict.property else ""
    return f"{result.verdict.word}{named}"


def no_work_block(summary: Summary) -> list[str]:
    """Why the run proves too little. An interrupted run has not had its chance yet."""
    if not summary.no_work or summary.interrupted:
        return []
    head = "NO-WORK  the campaign proves too little, whatever its verdicts say"
    return [head, *(line for reason in summary.no_work for line in labelled("missing", reason, indent=2))]


def trial_line(result: Result, done: str = "") -> str:
    """One finished trial on one line; `done` is how far the campaign is, `12/1500`, while it runs."""
    trial = result.trial
    kind = "" if trial.kind is Kind.POINT else f"{trial.kind} {trial.bug or ''}".strip() + ": "
    head = f"{done}  " if done else ""
    head += f"{ident(trial)}  {trial.storage:<7}  {result.verdict.word:<12}  "
    tail = f"  {result.took_s:5.2f} s"
    room = WIDTH - len(head) - len(tail)
    return head + one_line(f"{kind}{points(trial)} (workload {trial.workload})", room).ljust(room) + tail
