"""A random plan: what must be covered, then crash points drawn by the seed. Pure.

The same seed and the same census give the same plan, byte for byte.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from lab.model import CrashPoint, CrashScript
from lab.plan.census import Census, FirstPoint
from lab.plan.points import Drawn, Plan, canaries, laid_out
from lab.subject.spec import Bug, CoverageTable, Hook

RECOVERY_CRASH_EVERY = 5  # one trial in five is struck again in its recovery
WORK_CRASH_EVERY = 5  # and one in five in the work behind it,
THIRD_CRASH_EVERY = 4  # of which one in four is struck once more, in the recovery from that


def recoveries_wanted(points: int, workloads: int) -> int:
    """Recoveries that a census must have seen at least, so that points behind a barrier lie in different work."""
    return min(workloads, points // WORK_CRASH_EVERY)


@dataclass(frozen=True)
class _Entry:
    """Where life 1 ends, where those after it end, and how it was drawn."""

    first: FirstPoint
    later: tuple[CrashPoint, ...]
    how: str  # of Trial.drawn

    @property
    def key(self) -> tuple[int, str]:
        return (self.first.workload, str(self.first.point))

    @property
    def points(self) -> tuple[CrashPoint, ...]:
        return (self.first.point, *self.later)

    @property
    def drawn(self) -> Drawn:
        return Drawn(CrashScript(self.first.workload, self.points), self.how)


@dataclass
class _Draw:
    """The entries of one layer while they are drawn; never more than `limit`."""

    rng: random.Random
    limit: int
    entries: list[_Entry] = field(default_factory=list)

    @property
    def room(self) -> int:
        return max(0, self.limit - len(self.entries))

    def add(self, first: FirstPoint, how: str, *later: CrashPoint) -> None:
        self.entries.append(_Entry(first, later, how))


def random_plan(
    seed: int,
    points: int,
    storages: Sequence[str],
    faults: Sequence[str],
    hooks: Sequence[Hook],
    coverage: CoverageTable,
    bugs: Sequence[Bug],
    census: Census,
) -> Plan:
    """`points` entries, the same on each layer with each fault, none of them twice.

    First those whose recovery failed in the census, so that a run shows what broke whatever stops it. Then, shuffled:
    what must be covered, as far as it fits and the coverage windows first; points behind the barrier, for up to half of
    what is left; first points drawn at random. Some of all these are struck again in their recovery.
    """
    draw = _Draw(random.Random(f"{seed}/points"), points)
    firsts = census.first_points()
    for failure in census.failed[:points]:
        draw.add(failure.first, "cover")
    shown = len(draw.entries)
    _cover(draw, firsts, hooks, coverage, census)
    covers = _covered(draw.entries)
    recovery_hooks = _recovery_hooks(hooks, census)
    behind = _behind_the_barrier(draw, points, recovery_hooks, census)
    taken = {entry.key for entry in draw.entries if not entry.later}
    rest = [f for f in firsts if (f.workload, str(f.point)) not in taken]
    for first in draw.rng.sample(rest, min(len(rest), draw.room - len(behind))):
        draw.add(first, "random")
    _strike_recoveries(draw, points, shown, recovery_hooks)
    ordered = draw.entries[shown:] + behind
    draw.rng.shuffle(ordered)
    trials = list(laid_out((entry.drawn for entry in draw.entries[:shown] + ordered), storages, faults))
    trials += laid_out(canaries(seed, bugs, census), storages, faults, len(trials) + 1)
    names = tuple(bug.name for bug in bugs if bug.canary)
    return Plan(tuple(trials), len(firsts), covers, names, len(trials), len(rest))


def _cover(
    draw: _Draw, firsts: Sequence[FirstPoint], hooks: Sequence[Hook], coverage: CoverageTable, census: Census
) -> None:
    """Add what must be covered while there is room: windows by tag, hooks of recoveries, then every hook of a run."""
    by_hook: dict[str, list[FirstPoint]] = {}
    for first in firsts:
        by_hook.setdefault(first.hit.hook, []).append(first)
    for window in coverage.windows:
        for value in coverage.values:
            _cover_one(draw, [f for f in by_hook.get(window, []) if f.hit.tags.get(coverage.by) == value])
    ways: dict[str, list[tuple[FirstPoint, CrashPoint]]] = {}
    for recovery in census.recoveries:
        for hit in (*recovery.hits, *recovery.work):
            ways.setdefault(hit.hook, []).append((recovery.first, CrashPoint(2, hit.hook, hit.n)))
    for hook in hooks:
        if hook.where == "recovery" and hook.name in ways and draw.room:
            first, second = draw.rng.choice(ways[hook.name])
            draw.add(first, "cover", second)
    # Shuffled, so that a plan too small for all of them still touches every area of the subject.
    for hook in draw.rng.sample(list(hooks), len(hooks)):
        if not any(entry.first.hit.hook == hook.name for entry in draw.entries):
            _cover_one(draw, by_hook.get(hook.name, []))


def _cover_one(draw: _Draw, candidates: Sequence[FirstPoint]) -> None:
    """One of these that is in no entry yet: a coverage window may have taken it for another reason."""
    taken = {entry.key for entry in draw.entries if not entry.later}
    free = [first for first in candidates if (first.workload, str(first.point)) not in taken]
    if free and draw.room:
        draw.add(draw.rng.choice(free), "cover")


def _covered(entries: Sequence[_Entry]) -> tuple[str, ...]:
    """Hooks that the plan is sure to kill at: all first points, and second points that a census has seen.

    The points that are drawn from the catalogue later may never be reached.
    """
    return tuple(sorted({point.hook for entry in entries for point in entry.points}))


def _recovery_hooks(hooks: Sequence[Hook], census: Census) -> list[str]:
    """What a recovery can be struck at: by the catalogue, and as far as a census has seen up to the barrier."""
    by_catalogue = {hook.name for hook in hooks if hook.where == "recovery"}
    return sorted(by_catalogue | {hit.hook for recovery in census.recoveries for hit in recovery.hits})


def _behind_the_barrier(draw: _Draw, points: int, recovery_hooks: Sequence[str], census: Census) -> list[_Entry]:
    """One entry in five, each struck where a census saw the work after a recovery; some again in the next recovery.

    Every hit behind a barrier is as likely as any other. At most half of the room: the rest is for first points.
    """
    planned = {(entry.first.workload, entry.points) for entry in draw.entries if entry.later}
    there = [
        (recovery.first, CrashPoint(2, hit.hook, hit.n)) for recovery in census.recoveries for hit in recovery.work
    ]
    free = [(first, second) for first, second in there if (first.workload, (first.point, second)) not in planned]
    count = min(points // WORK_CRASH_EVERY, draw.room // 2, len(free))
    entries = [_Entry(first, (second,), "random") for first, second in draw.rng.sample(free, count)]
    for at in draw.rng.sample(range(count), count // THIRD_CRASH_EVERY if recovery_hooks else 0):
        third = CrashPoint(3, draw.rng.choice(recovery_hooks))
        entries[at] = replace(entries[at], later=(*entries[at].later, third))
    return entries


def _strike_recoveries(draw: _Draw, points: int, shown: int, recovery_hooks: Sequence[str]) -> None:
    """Strike entries again in their recovery, at hooks of the catalogue, until one in five is.

    Which ones does not depend on what they are, so those that are left with one point are still a fair sample.
    """
    twice = {(entry.first.workload, entry.points) for entry in draw.entries if entry.later}
    single = [at for at, entry in enumerate(draw.entries) if at >= shown and not entry.later]
    missing = min(len(single), max(0, points // RECOVERY_CRASH_EVERY - len(twice)))
    for at in draw.rng.sample(single, missing):
        entry = draw.entries[at]
        seconds = [
            point
            for hook in recovery_hooks
            if (entry.first.workload, (entry.first.point, point := CrashPoint(2, hook))) not in twice
        ]
        if seconds:
            draw.entries[at] = replace(entry, later=(draw.rng.choice(seconds),))
