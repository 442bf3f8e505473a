"""Crash points of a campaign, laid out as trials: what the plans share, and those of a planted bug. Pure."""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from lab.model import CrashPoint, CrashScript, Kind, Trial
from lab.plan.census import Census
from lab.subject.spec import Bug, hooks_of

CANARY_TRIES = 4  # points at which a planted bug may show, tried until it is caught


@dataclass(frozen=True)
class Drawn:
    """What a plan has drawn: a script, and why."""

    script: CrashScript
    drawn: str  # as in Trial
    kind: Kind = Kind.POINT
    bug: str | None = None


def with_faults(points: Sequence[CrashPoint], spelled: str) -> tuple[CrashPoint, ...]:
    """Each point with its fault of `first>second`; the last fault is that of every further point."""
    faults = spelled.split(">")
    return tuple(replace(point, fault=faults[min(n, len(faults) - 1)]) for n, point in enumerate(points))


def laid_out(draws: Iterable[Drawn], storages: Sequence[str], faults: Sequence[str], start: int = 1) -> Iterator[Trial]:
    """The trials, numbered from `start`; a draw's own lie side by side, so that a stopped run has tried all alike."""
    ident = start
    for draw in draws:
        for spelled in faults:
            script = replace(draw.script, points=with_faults(draw.script.points, spelled))
            for storage in storages:
                yield Trial(ident, draw.kind, storage, script, draw.bug, draw.drawn, spelled)
                ident += 1


@dataclass(frozen=True)
class Bounds:
    """When a run without a plan of trials ends: after so many minutes or trials of its own, whichever comes first."""

    minutes: float | None
    trials: int | None
    shrink_s: float = 0.0  # for each violation

    def __str__(self) -> str:
        asked = [f"{self.minutes:g} min" if self.minutes else "", f"{self.trials:,} trials" if self.trials else ""]
        return " or ".join(filter(None, asked))


@dataclass(frozen=True)
class Plan:
    """The trials, and what they are expected to cover."""

    trials: tuple[Trial, ...]
    points_known: int  # crash points of life 1, per layer, in the census
    covers: tuple[str, ...]  # hooks that some trial of each layer is planned to be killed at
    canaries: tuple[str, ...] = ()  # planted bugs, once on each layer with each fault
    whole: int = 0  # trials of the whole plan, of which this may be a shard
    population: int = 0  # first points that those of `is_draw` were drawn from: what the bound speaks of
    bounds: Bounds | None = None  # of a plan that has no last trial


def is_draw(trial: Trial) -> bool:
    """Whether a trial is a draw for the bound: a first point that was drawn at random and struck alone.

    One that is struck again shows its first recovery in part only: a pass does not say that it would have gone well.
    Which entries are struck again does not depend on their first points, so the others stay a fair sample.
    """
    return trial.kind is Kind.POINT and trial.drawn == "random" and len(trial.kills) == 1


def bug_plan(seed: int, points: int, storages: Sequence[str], faults: Sequence[str], bug: Bug, census: Census) -> Plan:
    """At most `points` trials a layer of the subject with a planted bug, at the points where it may show."""
    tries = [Drawn(script, "cover", bug=bug.name) for script in bug_points(seed, bug, census)][:points]
    trials = tuple(laid_out(tries, storages, faults))
    return Plan(trials, len(census.first_points()), (), whole=len(trials))


def canaries(seed: int, bugs: Sequence[Bug], census: Census) -> Iterator[Drawn]:
    """For each canary a few tries. On each layer the run stops at the first that is caught."""
    for bug in bugs:
        if bug.canary:
            for script in list(bug_points(seed, bug, census))[:CANARY_TRIES]:
                yield Drawn(script, "cover", Kind.CANARY, bug.name)


def bug_points(seed: int, bug: Bug, census: Census) -> Iterator[CrashScript]:
    """Crash points at which a planted bug may show: its hooks in turn, occurrences drawn by the seed.

    The second of "hook > hook" is that hook's first hit in life 2, be it in the recovery or in the work behind it.
    """
    rng = random.Random(f"{seed}/bugs/{bug.name}")
    pools: list[list[CrashScript]] = []
    for text in bug.points:
        first_hook, *others = hooks_of(text)
        later = tuple(CrashPoint(life, hook) for life, hook in enumerate(others, 2))
        pool = [
            first.script(*later)
            for first in census.first_points()
            if first.hit.hook == first_hook and bug.tags.items() <= first.hit.tags.items()
        ]
        rng.shuffle(pool)
        pools.append(pool)
    for nth in range(max((len(pool) for pool in pools), default=0)):
        for pool in pools:
            if nth < len(pool):
                yield pool[nth]


def shard(plan: Plan, index: int, of: int) -> Plan:
    """Part `index` (from 1) of `of` of a plan, with every layer and fault of a point; canaries are in the first."""
    together = len({(t.storage, t.faults) for t in plan.trials}) or 1

    def mine(trial: Trial) -> bool:
        return index == 1 if trial.kind is Kind.CANARY else (trial.ident - 1) // together % of == index - 1

    return replace(plan, trials=tuple(t for t in plan.trials if mine(t)))
