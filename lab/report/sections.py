"""The sections that reports are made of, each a function of a run. A campaign lists those that it shows. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from lab.model import Limits, Scenario, Word
from lab.plan.points import is_draw
from lab.report import coverage, legs
from lab.report.document import SYMBOLS, Cell, Curves, Failure, Items, Lines, Ranges, Section, Table, Tone, row
from lab.report.failures import anchor, failure, groups, note_kind, note_line
from lab.report.numbers import rates, restarts, starts_each, up_ms, verdicts, waits_ms
from lab.report.text import duration, flat, ident, percent, plural, some
from lab.report.timeline import Timeline
from lab.run.data import RunData
from lab.text import one_line

FAILURES_SHOWN = 100  # in full; a file of thousands of the same failure helps nobody
NOTES_SHOWN = 20
KINDS = {
    "hook": "at hooks",
    "answer": "at an answer",
    "invoke": "inside a request",
    "start": "in a start",
    "end": "after the operations",
}
LEDGER = {
    "effects": "effects that landed",
    "resent": "effects that were sent more than once",
    "deduped": "requests answered from an earlier one with the same key",
    "fenced": "requests refused by a fence",
    "receipts": "receipt questions that found one",
}


# The table of layers, of columns that a campaign chooses.

Column = tuple[str, Callable[[RunData, str], str]]  # its head, and what is said of each layer


def _up(data: RunData, storage: str) -> str:
    """`41 / 63 / 118 ms`; `none seen` if there are none."""
    found = up_ms(data, storage)
    return f"{found.p50:,.0f} / {found.p95:,.0f} / {found.max:,.0f} ms" if found else "none seen"


OPERATIONS: Column = ("operations", lambda data, s: f"{sum(r.operations for r in data.points(s)):,}")
KILLS: Column = ("kills", lambda data, s: f"{coverage.kills(data, s):,}")
RESTARTS: Column = ("restarts", lambda data, s: f"{restarts(data, s):,}")
STARTS: Column = ("starts", lambda data, s: f"{starts_each(data, s):.1f}")
FIRST_POINTS: Column = ("first points", lambda data, s: f"{coverage.first_points(data, s):,} of {data.points_known:,}")
RECOVERY: Column = ("recovery p50/p95/max", _up)
UP: Column = ("start to up p50/p95/max", _up)


def layers(*columns: Column) -> Callable[[RunData], Section]:
    """A line a layer: how its trials ended, and what else is said of it."""

    def section(data: RunData) -> Section:
        words = [word for word in Word if word is not Word.NOTE or verdicts(data)[word]]
        rows = []
        for storage in data.storages:
            ended = verdicts(data, storage)
            counts = [Cell(f"{ended[word]:,}", _counted(word, ended[word])) for word in words]
            others = [of(data, storage) for _, of in columns]
            rows.append(row(storage, f"{sum(ended.values()):,}", *counts, *others))
        head = ["layer", "trials", *words, *(head for head, _ in columns)]
        return Section("Storage layers", (Table(head, rows),), "Canaries and probes are in no number here.")

    return section


def _counted(word: Word, count: int) -> Tone:
    return "muted" if not count else "" if word in (Word.PASS, Word.NOTE) else "bad"


# What the numbers rest on.


def rests_on(*lines: Callable[[RunData], tuple[str, str]]) -> Callable[[RunData], Section]:
    """What the numbers of a report rest on, in labelled lines of which a campaign chooses; an empty one is left out."""

    def section(data: RunData) -> Section:
        told = (line(data) for line in lines)
        return Section("What the numbers rest on", (Lines([each for each in told if each[1]]),))

    return section


def hooks_line(data: RunData) -> tuple[str, str]:
    reached = f"{coverage.covered_everywhere(data):,} of {data.expected_hooks:,} killed at on every layer"
    return "hooks", reached if data.expected_hooks else "none: it was killed at moments"


def points_line(data: RunData) -> tuple[str, str]:
    """What `first points` counts, in numbers."""
    tried = sorted(coverage.first_points(data, storage) for storage in data.storages)
    trials = max((len(data.points(s)) for s in data.storages), default=0)
    different = " to ".join(f"{n:,}" for n in dict.fromkeys((tried[0], tried[-1]))) if tried else "0"
    struck_again = coverage.second_crashes(data)
    again = f"; {struck_again:,} in all struck again in a later life" if struck_again else ""
    first = f"{plural(trials, 'trial')} a layer, struck first at {different} different points"
    return "points", f"{first} of the {data.points_known:,} that the census knows{again}"


def any_hooks_line(data: RunData) -> tuple[str, str]:
    if not data.hooks:
        return "hooks", "none: it has no hooks, it was killed at moments"
    never = coverage.uncovered(data)
    reached = f"{coverage.covered(data):,} of {len(data.hooks):,} killed at"
    return "hooks", f"{reached}; never: {some(never)}" if never else reached


def effects_line(data: RunData) -> tuple[str, str]:
    found = coverage.ledger_totals(data)
    counts = f"{found['resent']:,} re-sent, {found['deduped']:,} deduped, {found['fenced']:,} fenced"
    receipts = f"{plural(found['receipts'], 'receipt')} found: counted by the ledger"
    return "effects", f"{counts}, {receipts}" if data.has_ledger else ""


def facts_line(data: RunData) -> tuple[str, str]:
    found = coverage.facts(data)
    compared = plural(sum(found.values()), "fact")
    return "facts", f"{compared} compared for {plural(len(found), 'property', 'properties')}"


def canaries_line(data: RunData) -> tuple[str, str]:
    planted = coverage.canaries(data)
    if not data.is_of_a_bug:
        caught = sum(c.caught_by is not None for c in planted)
        none = "none: no planted bug shows what the checker can see"
        return "canaries", f"{caught:,} of {len(planted):,} caught" if planted else none
    said = []
    for canary in planted:
        by, tries = canary.caught_by, plural(len(canary.tries), "trial")
        said.append(f"{canary.bug.name}: " + (f"caught by trial {ident(by.trial)}" if by else f"not caught in {tries}"))
    return "planted", ", ".join(said)


def bound_line(data: RunData) -> tuple[str, str]:
    """The upper bound in words, with all it rests on."""
    found = coverage.highest_bound(data)
    if found:
        failed = f", {found.failed:,} of them failed" if found.failed else ""
        drawn = f"from {found.drawn:,} of {found.population:,} drawn at random{failed}"
        return "bound", f"at most {percent(found.upper)} of the untried points fail (95 %, {drawn})"
    if any(is_draw(trial) for trial in data.trials):
        return "bound", "none: a point that was drawn at random proved nothing, or did not run"
    return "bound", "none: no point was drawn at random"


def rate_line(data: RunData) -> tuple[str, str]:
    _, operations, kills = rates(data)
    until = f", asked for {data.bounds}" if data.bounds and str(data.bounds) else ""
    span = f"in all trials, for {duration(data.took_s)}"
    return "rate", f"{operations:.1f} operations and {kills:.2f} kills a second {span}{until}"


def kinds_line(data: RunData) -> tuple[str, str]:
    return "kills", ", ".join(f"{n:,} {KINDS.get(k, k)}" for k, n in coverage.kinds(data).items()) or "none"


def corpus_line(data: RunData) -> tuple[str, str]:
    ran = sum(r.trial.drawn == "corpus" for r in data.points())
    return "corpus", f"{plural(ran, 'seed')} that once failed, run first" if ran else ""


# The cells of a contract.


def cells(data: RunData) -> Section:
    """Each cell in each journal mode on each layer, and why something is not offered."""
    if not data.legs:
        return Section("Cells", ())
    rows = []
    before = ""
    for found in legs.rows(data, fold=True):
        name = "" if found.cell == before else found.cell
        rows.append(row(name, found.layer, *(_leg(data, outcome) for outcome in found.outcomes)))
        before = found.cell
    refused = [f"{what}: {reason}" for reason, what in legs.refusals(data).items()]
    words = Table(["cell", "layer", *legs.modes(data)], rows, left=2)
    why = (Items(refused, legs.NOT_OFFERED),) if refused else ()
    return Section("Cells", (words, Lines((("legs", legs.LEGEND),)), *why))


def _leg(data: RunData, outcome: legs.Outcome | None) -> Cell:
    if outcome is None:
        return Cell(legs.NO_LEG, "muted")
    worst = outcome.worst
    link = anchor(data, worst) if worst and worst.verdict.word is not Word.PASS else ""
    tones: dict[str, Tone] = {"pass": "good", "note": "warn"}
    return Cell(str(outcome), tones.get(outcome.word, "bad" if worst else "muted"), link=link)


# What a person must see.


def red_trials(data: RunData, pictures: Mapping[int, Timeline]) -> Section:
    """The first trial of each kind of failure, worst first."""
    found = groups(data)
    blocks: list[Failure | Items] = [failure(data, group, pictures) for group in found[:FAILURES_SHOWN]]
    if len(found) > FAILURES_SHOWN:
        blocks.append(Items((f"and {plural(len(found) - FAILURES_SHOWN, 'more kind')}: lab show {data.run}",)))
    lead = "The first of each kind, worst first; its replay line repeats exactly that trial."
    return Section("Red trials", blocks, lead, urgent=True)


def unpromised(data: RunData) -> Section:
    """Losses that were not promised not to happen: green, and shown."""
    blocks: list[Failure | Items] = [failure(data, group) for group in legs.noted(data)]
    kinds: dict[str, list[str]] = {}
    for result in data.points():
        for note in result.verdict.notes if data.leg(result.trial) is None else ():
            kinds.setdefault(note_kind(note), []).append(note_line(result, note))
    entries = []
    for kind, lines in kinds.items():
        entries.append(lines[0] + (f" (and {len(lines) - 1:,} more of {kind})" if lines[1:] else ""))
    if len(entries) > NOTES_SHOWN:
        entries[NOTES_SHOWN:] = [f"and {plural(len(entries) - NOTES_SHOWN, 'more kind')} of loss"]
    blocks += [Items(entries, "note")] if entries else []
    lead = "Not red: nobody promised to prevent them. The first of each kind."
    return Section("Unpromised losses", blocks, lead, urgent=True)


def not_enough(data: RunData, gaps: Sequence[str]) -> Section:
    blocks: list[Items] = [Items(gaps, "missing")] if gaps else []
    missed = []
    for canary in coverage.missed_canaries(data):
        tried = ", ".join(f"{ident(r.trial)} {r.verdict.word}" for r in canary.tries) or "no try has run"
        must = f"must be caught by {canary.bug.property or '?'}"
        within = f" within {plural(canary.bug.within, 'trial')}" if canary.storage is None and canary.bug.within else ""
        missed.append(f"{canary.name}: {canary.bug.meaning}; {must}{within}: {tried}")
    blocks += [Items([*map(one_line, missed)], "uncaught")] if missed else []
    lead = "Whatever the verdicts say, this run proves too little while any of these stands."
    words = [word for word, there in (("NO-WORK", gaps), ("CANARY MISSED", missed)) if there]
    heading = f"{' · '.join(words)}  the run proves too little, whatever its verdicts say"
    return Section("Not enough evidence", blocks, lead, urgent=True, heading=heading)


# What a page has room for.


def recovery_times(data: RunData) -> Section:
    series = {s: sorted(ms for r in data.judged(s) for ms in r.up_ms) for s in data.storages}
    series = {storage: found for storage, found in series.items() if found}
    x = "ms from the start of the recovering container to the end of recovery"
    blocks = (Curves(series, x, "recoveries that had ended"),) if series else ()
    lead = "Every recovery of every trial that was judged, second ones too. A container's start is part of it."
    return Section("How long recovery took", blocks, lead, brief=False)


def wait_times(data: RunData) -> Section:
    found = waits_ms(data)
    names = ("p50", "p95", "p99", "max")
    limit = _answer_ms(data)
    rows = [
        row(op, f"{w['count']:,.0f}", *(Cell(f"{w[n]:,.1f}", "bad" if w[n] > limit else "") for n in names))
        for op, w in found.items()
    ]
    head = ("operation", "requests", "p50", "p95", "p99", "max ms")
    x = "ms from the request to its answer: p50 (dot), p95, p99, max; dashed: the promise"
    chart = Ranges({op: [w[n] for n in names] for op, w in found.items()}, limit, x)
    lead = "Every request while it was up, answered or not; one that a kill cut waited until the kill."
    lead += f" Promised: {limit:,} ms."
    return Section("How long requests waited", (chart, Table(head, rows)) if found else (), lead)


def _answer_ms(data: RunData) -> int:
    """What was promised of an answer: every scenario of a run has the same limits."""
    scripts = (r.trial.script for r in data.results)
    return next((s.limits for s in scripts if isinstance(s, Scenario)), Limits()).answer_ms


def checked(data: RunData) -> Section:
    rows = [
        row(name, _promised(data, name), Cell(f"{n:,}" if n else "0 – never checked", "" if n else "bad"))
        for name, n in coverage.facts(data).items()
    ]
    lead = "A property that compared no fact has proven nothing."
    head = ("property", "promised after", "facts compared")
    return Section("What was checked", (Table(head, rows, left=2),) if rows else (), lead, brief=False)


def _promised(data: RunData, name: str) -> str:
    """After which faults a property holds by the subject's own word, and in which journal modes not."""
    if name in data.audits:
        return "no promise: a difference makes the trial invalid"
    mine = [leg for leg in data.legs if leg.cell == name and leg.offered]
    faults = ", ".join(data.promises.get(name, ()))
    without = [leg.journal_mode for leg in mine if not leg.promised]
    if not faults or (mine and len(without) == len(mine)):
        return "nothing: a loss is a note"
    return faults + (f"; nothing in {', '.join(without)}: a loss is a note" if without else "")


def effects(data: RunData) -> Section:
    """The outside world's own counts, and the windows in which it was left."""
    if not data.has_ledger:
        return Section("Effects on the outside world", ())
    totals = coverage.ledger_totals(data)
    rows = [
        row(meaning, Cell(f"{totals[name]:,}", "bad" if not totals[name] and name in data.coverage.ledger else ""))
        for name, meaning in LEDGER.items()
    ]
    blocks: list[Table] = [Table(("counted", "times"), rows)]
    if windows := coverage.window_table(data):
        found = [row(w, *(Cell(f"{n:,}", "" if n else "bad") for n in at.values())) for w, at in windows.items()]
        blocks.append(Table(("killed in the window", *data.coverage.values), found))
    lead = "Counted by the effect ledger in its own records, never taken from the subject's word."
    return Section("Effects on the outside world", blocks, lead, brief=False)


def canaries(data: RunData) -> Section:
    rows = []
    for canary in coverage.canaries(data):
        by = canary.caught_by
        tries = plural(len(canary.tries), "try", "tries")
        ended = Cell("✓ caught", "good", f"trial {ident(by.trial)}") if by else Cell("✗ missed", "bad", tries)
        planted = Cell(canary.bug.name, more=canary.bug.meaning)
        rows.append(row(planted, canary.bug.property, canary.storage or "any", ended))
    lead = "Known-bad variants of the subject. Each must be caught by the property named for it."
    blocks = (Table(("planted bug", "must be caught by", "layer", ""), rows, left=4),) if rows else ()
    none = Items(("None was planted: nothing here shows that a broken subject would have been caught.",))
    return Section("Canaries", blocks or (none,), lead, brief=False)


def hooks(data: RunData) -> Section:
    at = {storage: coverage.kills_at(data, storage) for storage in data.storages}
    order = ("run", "recovery", "moment")
    rows = [
        row(Cell(hook.name, more=hook.meaning), hook.where, *(_kills(data, hook.name, s, at[s][hook.name]) for s in at))
        for hook in sorted(coverage.places(data), key=lambda h: order.index(h.where) if h.where in order else 3)
    ]
    lead = "Kills at each named place by their own record, later crashes of a trial too; verdicts that were no pass."
    blocks = (Table(("hook", "reached in", *data.storages), rows, left=2),) if rows else ()
    return Section("Where it was killed", blocks, lead, brief=False)


def _kills(data: RunData, hook: str, storage: str, kills: int) -> Cell:
    words = coverage.words_at(data, hook, storage)
    more = ", ".join(f"{SYMBOLS[word]} {count} {word}" for word, count in words.items() if word is not Word.PASS)
    return Cell(f"{kills:,}", "bad" if Word.VIOLATION in words else "" if kills else "muted", more)


def proves(*not_proven: str) -> Callable[[RunData], Section]:
    """What the run shows, and what it does not: what holds for every campaign, and what a campaign adds."""

    def section(data: RunData) -> Section:
        faults = ", ".join(data.faults)
        shows = [
            f"Every kill that counts was real ({faults}): it was alive at its place by its own record or the record of "
            "the moment, was gone after, and was started again on the same volume.",
            "The filesystem of each trial was read from inside its container, not assumed.",
            "A checker in a container of its own compared what was promised with what is there.",
        ]
        if coverage.canaries(data) and not coverage.missed_canaries(data):
            shows.append("The same checks caught every planted bug.")
        power = "Power loss: after a SIGKILL the page cache lives on, so a missing fsync goes unseen."
        hidden = [power] if data.faults == ("sigkill",) else [f"Faults other than {faults}."]
        hidden += [*not_proven, "Another engine, kernel or filesystem than those below."]
        shown = shows if coverage.kills(data) else ["Nothing: no trial was killed and judged."]
        blocks = (Items(shown, "it shows"), Items(hidden, "it does not show"))
        return Section("What this shows, and what it does not", blocks, brief=False)

    return section


def environment(data: RunData) -> Section:
    """Where it ran. The packages of the base image are many; `run.json` lists them."""
    known = dict(data.environment)
    if packages := known.get("packages"):
        known["packages"] = f"{len(packages)} of the base image, listed in run.json"
    return Section("Environment", (Lines(flat(known)),) if known else (), brief=False)
