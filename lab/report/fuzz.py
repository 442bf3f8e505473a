"""What a person reads of a fuzz run in a terminal: a line a trial, a line a violation, and the end. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from lab.fuzz.model import FuzzResult, FuzzTrial
from lab.model import Kind, Word
from lab.report.console import FAILURES_SHOWN, VALUE_LIMIT, recovery
from lab.report.data import BROKEN
from lab.report.fuzz_data import (
    Caught,
    FuzzData,
    Short,
    caught,
    distinct,
    is_of_a_bug,
    points,
    promise,
    said,
    said_of,
)
from lab.report.fuzz_summary import Summary, headline, note_kind
from lab.report.table import WIDTH, align, ends, labelled
from lab.report.text import HEADING_CHARS, duration, one_line, plural, value

LINES_SHOWN = 20  # of violations, and of kinds of notes; report.html has them all
SCRIPT_SHOWN = 40  # operations of a script that is printed: a short one has about ten
HOOKS_NAMED = 6  # of those that were never killed at


def ident(trial: FuzzTrial) -> str:
    """A trial's number as it is shown and typed."""
    return f"{trial.ident:04d}"


def violation_line(result: FuzzResult) -> str:
    """`VIOLATION seed=7/12 step=41 op=queue/remove what=…`, whole and on one line."""
    return one_line(said_of(result).line(result.verdict.word.upper(), result))


def note_lines(result: FuzzResult) -> list[str]:
    """`NOTE seed=7/12 step=12 op=chat/rename what=…`: losses that nobody promised to prevent."""
    return [one_line(said(note).line("NOTE", result)) for note in result.notes]


def trial_line(result: FuzzResult) -> str:
    """One finished trial on one line."""
    trial = result.trial
    planted = f"{trial.kind} {trial.bug}: " if trial.kind is Kind.CANARY else f"{trial.bug}: " if trial.bug else ""
    head = f"{ident(trial)}  {trial.storage:<7}  {result.verdict.word:<12}  "
    work = f"{plural(result.operations, 'operation')}, {plural(len(result.kills), 'kill')}"
    tail = f"  {result.took_s:5.2f} s"
    room = WIDTH - len(head) - len(tail)
    return head + one_line(f"{planted}seed {trial.scenario.name}, {work}", room).ljust(room) + tail


def end_text(results: Sequence[FuzzResult], data: FuzzData, summary: Summary, reports: Sequence[Path] = ()) -> str:
    """Everything that is printed at the end: tables, what they rest on, what broke, and the verdict last."""
    final = headline(results, data, summary)
    tables = (word_table(summary), work_table(summary), wait_table(summary))
    lines = [*(line for table in tables for line in (*table, "")), *rest_lines(results, data, summary)]
    for report in reports:
        lines += labelled("report", str(report))
    blocks = [*failure_blocks(results, data), _violations(results), _notes(results), _missed(results, data)]
    shown = [block for block in (*blocks, _gaps(summary)) if block]
    lines += [line for block in shown for line in ("", *block)]
    lines += [""] if shown else []
    return "\n".join([*lines, *labelled(final.word, final.sentence)]) + "\n"


def word_table(summary: Summary) -> list[str]:
    """A line a layer: how its trials ended."""
    words = [Word.PASS, Word.VIOLATION, Word.HANG, Word.INVALID, Word.ERROR]
    words[1:1] = [w for w in (Word.NOTE, Word.UNREPRODUCED) if summary.verdicts[w]]
    rows = [["layer", "trials", *words]]
    rows += [
        [layer.storage, f"{layer.trials:,}", *(f"{layer.verdicts[word]:,}" for word in words)]
        for layer in summary.layers
    ]
    return align(rows)


def work_table(summary: Summary) -> list[str]:
    """A line a layer: what was done to the daemon, and how long it took to be back."""
    rows = [["layer", "operations", "kills", "restarts", "start to up p50/p95/max"]]
    for layer in summary.layers:
        counts = [f"{n:,}" for n in (layer.operations, layer.kills, layer.restarts)]
        rows.append([layer.storage, *counts, recovery(layer.up)])
    return align(rows)


def wait_table(summary: Summary) -> list[str]:
    """How long requests waited while the daemon was up, in ms."""
    rows = [["operation", "requests", "p50", "p95", "p99", "max ms"]]
    for op, waits in summary.waits.items():
        times = (waits.p50, waits.p95, waits.p99, waits.max)
        rows.append([op, f"{waits.count:,}", *(f"{ms:,.1f}" for ms in times)])
    return align(rows) if summary.waits else ["no operation was sent"]


def rest_lines(results: Sequence[FuzzResult], data: FuzzData, summary: Summary) -> list[str]:
    """What the numbers rest on, a labelled line each."""
    asked = [f"{data.minutes:g} min" if data.minutes else "", plural(data.trials, "trial") if data.trials else ""]
    until = f", asked for {' or '.join(filter(None, asked))}" if any(asked) else ""
    rates = f"{summary.operations_per_s:.1f} operations and {summary.kills_per_s:.2f} kills a second"
    kinds = ", ".join(f"{count:,} {KINDS.get(kind, kind)}" for kind, count in summary.kinds.items())
    compared = plural(sum(summary.facts.values()), "fact")
    lines = [
        ("rate", f"{rates}, for {duration(summary.took_s)}{until}"),
        ("kills", kinds or "none"),
        ("hooks", hooks(summary)),
        ("facts", f"{compared} compared for {plural(len(summary.facts), 'property', 'properties')}"),
    ]
    if summary.notes:
        lost = ", ".join(f"{count:,} {kind}" for kind, count in summary.notes.items())
        lines.append(("notes", f"{lost}: lost, and promised by nobody"))
    if data.corpus:
        lines.append(("corpus", f"{plural(data.corpus, 'seed')} that once failed, run first"))
    if is_of_a_bug(results):
        lines += [("planted", planted(found)) for found in caught(results, data)]
    elif summary.bugs_planted:
        lines.append(("canaries", f"{summary.bugs_caught:,} of {summary.bugs_planted:,} caught"))
    return [line for label, text in lines for line in labelled(label, text)]


def planted(found: Caught) -> str:
    """What became of the bug that a whole run was asked for."""
    if found.by is None:
        return f"{found.bug.name}: not caught in {plural(len(found.tries), 'trial')}"
    return f"{found.bug.name}: caught by trial {ident(found.by.trial)}"


KINDS = {
    "hook": "at hooks",
    "answer": "at an answer",
    "invoke": "inside a request",
    "start": "in a start",
    "end": "after the operations",
}


def hooks(summary: Summary) -> str:
    """How many of the catalogue were killed at, and which never."""
    if not summary.hooks:
        return "none: the daemon has no hooks, it was killed at moments"
    at = len(summary.hooks) - len(summary.hooks_missed)
    named, more = summary.hooks_missed[:HOOKS_NAMED], len(summary.hooks_missed) - HOOKS_NAMED
    never = f"; never: {', '.join(named)}" if named else ""
    never += f" and {more:,} more (report.html)" if more > 0 else ""
    return f"{at:,} of {len(summary.hooks):,} killed at{never}"


def details(result: FuzzResult, data: FuzzData) -> list[tuple[str, str]]:
    """A red trial in labelled lines, all that is needed to understand and to repeat it."""
    trial, verdict = result.trial, result.verdict
    struck = f", killed at {', '.join(result.kills)}" if result.kills else ", never killed"
    lines = [("scenario", f"seed {trial.scenario.name}: {plural(result.operations, 'operation')} sent{struck}")]
    if verdict.property:
        lines.append(("promised", promise(data, verdict.property)))
    if others := [name for name in verdict.broken if name != verdict.property]:
        lines.append(("also broke", ", ".join(others)))
    if differs := verdict.differs:
        lines += [("fact", differs.fact), ("expected", value(differs.expected)), ("found", value(differs.found))]
    if verdict.why:
        lines.append(("why", verdict.why))
    if result.evidence:
        lines.append(("evidence", f"{data.path / result.evidence}/"))
    if short := data.shrunk.get(trial.ident):
        lines.append(("shrunk", shrunk(short)))
    return [*lines, ("replay", f"lab replay {data.run} {trial.ident}")]


def shrunk(short: Short) -> str:
    """How a short script was found, and what it is worth."""
    how = short.how
    form = "one at a time" if how.serial else "side by side"
    if how.finished and not how.serial:  # else one at a time may not have been tried to its end
        form += ": it does not fail one at a time"
    after = plural(how.after, "operation")
    size = f"{how.before} to {after}" if how.shorter else f"no shorter than {after}"
    text = f"{size}, {form}, after {plural(how.tried, 'candidate')}"
    if not how.finished:
        return f"{text}; the time was up, a shorter one may be there: a longer --shrink (seconds) looks for it"
    return f"{text}; a fault of timing, it does not shrink further" if how.timing else text


def script_lines(short: Short) -> list[str]:
    """A script that is short, whole; of a long one, where it is and how to run it."""
    if short.how.after <= SCRIPT_SHOWN:
        return list(short.lines)
    return [*labelled("script", str(short.path)), *labelled("replay", f"lab replay {short.path}")]


def failure_blocks(results: Sequence[FuzzResult], data: FuzzData) -> list[list[str]]:
    """The first of each kind of failure, worst first, and how many more there are."""
    groups = distinct(results)
    blocks = [list(_block(group, data)) for group in groups[:FAILURES_SHOWN]]
    if len(groups) > FAILURES_SHOWN:
        blocks.append([f"and {plural(len(groups) - FAILURES_SHOWN, 'more kind')} of failure: lab show {data.run}"])
    return blocks


def title(result: FuzzResult) -> str:
    """What a red trial is about: the property that was broken, or the reason in a line."""
    return result.verdict.property or one_line(result.verdict.why) or "no reason recorded"


def _block(group: list[FuzzResult], data: FuzzData) -> Iterator[str]:
    result = group[0]
    about = f"{result.verdict.word.upper()}  {one_line(title(result), HEADING_CHARS)}"
    yield ends(about, f"trial {ident(result.trial)} · {result.trial.storage} · sigkill")
    for label, text in details(result, data):
        yield from labelled(label, one_line(text, VALUE_LIMIT), indent=2)
    if also := ", ".join(f"{ident(r.trial)} on {r.trial.storage}" for r in group[1:]):
        yield from labelled("also", one_line(also, VALUE_LIMIT), indent=2)
    if short := data.shrunk.get(result.trial.ident):
        yield from script_lines(short)


def _violations(results: Sequence[FuzzResult]) -> list[str]:
    """Broken promises of the kinds that have no block, a line each as it was said when it was found."""
    unshown = [r for group in distinct(results)[FAILURES_SHOWN:] for r in group]
    lines = [violation_line(r) for r in unshown if r.verdict.word in BROKEN]
    more = len(lines) - LINES_SHOWN
    return lines if more <= 0 else [*lines[:LINES_SHOWN], f"and {more:,} more"]


def _notes(results: Sequence[FuzzResult]) -> list[str]:
    """The first loss of each kind, and how many more there are of it: most likely for the same reason."""
    kinds: dict[str, list[str]] = {}
    for result in points(results):
        for note, line in zip(result.notes, note_lines(result), strict=True):
            kinds.setdefault(note_kind(note), []).append(line)
    said = []
    for kind, lines in list(kinds.items())[:LINES_SHOWN]:
        said += [lines[0], f"and {len(lines) - 1:,} more of {kind}"] if len(lines) > 1 else lines
    more = len(kinds) - LINES_SHOWN
    return [*said, f"and {plural(more, 'more kind')} of loss"] if more > 0 else said


def _missed(results: Sequence[FuzzResult], data: FuzzData) -> list[str]:
    """Planted bugs that went by: until each is caught, a pass of its property means nothing."""
    missed = [c for c in caught(results, data) if c.by is None]
    if not missed or data.interrupted:
        return []
    lines = [f"CANARY MISSED  {plural(len(missed), 'planted bug')} not caught: its property proves nothing yet"]
    for bug, tries in ((c.bug, c.tries) for c in missed):
        ended = ", ".join(f"{ident(r.trial)} {r.verdict.word}" for r in tries) or "none has run"
        lines += labelled("bug", f"{bug.name}: {bug.meaning}", indent=2)
        lines += labelled(
            "", f"must be caught by {bug.property} within {plural(bug.within, 'trial')}: {ended}", indent=2
        )
    return lines


def _gaps(summary: Summary) -> list[str]:
    if not summary.no_work:
        return []
    head = "NO-WORK  the run proves too little, whatever its verdicts say"
    return [head, *(line for reason in summary.no_work for line in labelled("missing", reason, indent=2))]
