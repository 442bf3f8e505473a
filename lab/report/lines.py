"""What the numbers of a report rest on, in labelled lines of which a campaign chooses; an empty one is left out."""

from __future__ import annotations

from collections.abc import Callable

from lab.plan.points import is_draw
from lab.report import coverage
from lab.report.document import Lines, Section
from lab.report.numbers import per_second
from lab.report.text import duration, ident, percent, plural, some
from lab.run.data import RunData

KINDS = {
    "hook": "at hooks",
    "answer": "at an answer",
    "invoke": "inside a request",
    "start": "in a start",
    "end": "after the operations",
}

Line = Callable[[RunData], tuple[str, str]]


def rests_on(*lines: Line) -> Callable[[RunData], Section]:
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
    """Hooks that were killed at anywhere, and which never."""
    if not data.hooks:
        return "hooks", "none: it has no hooks, it was killed at moments"
    never = coverage.uncovered(data)
    return "hooks", f"{len(data.hooks) - len(never):,} of {len(data.hooks):,} killed at" + (
        f"; never: {some(never)}" if never else ""
    )


def effects_line(data: RunData) -> tuple[str, str]:
    found = coverage.ledger_totals(data)
    counted = (
        f"{found['resent']:,} re-sent, {found['deduped']:,} deduped, {found['fenced']:,} fenced, "
        f"{plural(found['receipts'], 'receipt')} found: counted by the ledger"
    )
    return "effects", counted if data.has_ledger else ""


def facts_line(data: RunData) -> tuple[str, str]:
    found = coverage.facts(data)
    compared = plural(sum(found.values()), "fact")
    return "facts", f"{compared} compared for {plural(len(found), 'property', 'properties')}"


def canaries_line(data: RunData) -> tuple[str, str]:
    planted = coverage.canaries(data)
    if not data.is_of_a_bug:
        caught = sum(c.caught_by is not None for c in planted)
        return "canaries", f"{caught:,} of {len(planted):,} caught" if planted else ""
    said = [
        f"{c.bug.name}: caught by trial {ident(c.caught_by.trial)}"
        if c.caught_by
        else f"{c.bug.name}: not caught in {plural(len(c.tries), 'trial')}"
        for c in planted
    ]
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
    operations = per_second(sum(r.operations for r in data.results), data)
    kills = per_second(sum(len(r.hits) for r in data.results), data)
    until = f", asked for {data.bounds}" if data.bounds and str(data.bounds) else ""
    return "rate", f"{operations:.1f} operations and {kills:.2f} kills a second, for {duration(data.took_s)}{until}"


def kinds_line(data: RunData) -> tuple[str, str]:
    return "kills", ", ".join(f"{n:,} {KINDS.get(k, k)}" for k, n in coverage.kinds(data).items()) or "none"


def corpus_line(data: RunData) -> tuple[str, str]:
    ran = sum(r.trial.drawn == "corpus" for r in data.points())
    return "corpus", f"{plural(ran, 'seed')} that once failed, run first" if ran else ""
