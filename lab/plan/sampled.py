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


@dataclass
class _Draw:
    """The entries of one layer while they are drawn; never more than `limit`, and none of them twice."""

    rng: random.Random
    limit: int
    entries: list[Drawn] = field(default_factory=list)

    @property
    def room(self) -> int:
        return self.limit - len(self.entries)

    @property
    def taken(self) -> set[CrashScript]:
        return {entry.script for entry in self.entries}

    def add(self, script: CrashScript, how: str) -> None:
        self.entries.append(Drawn(script, how))


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
        draw.add(failure.first.script(), "cover")
    shown = len(draw.entries)
    _cover(draw, firsts, hooks, coverage, census)
    # Hooks that the plan is sure to kill at: first points, and second points that a census has seen. Those that are
    # drawn from the catalogue below may never be reached.
    covers = tuple(sorted({point.hook for entry in draw.entries for point in entry.script.points}))
    # What a recovery can be struck at: by the catalogue, and as far as a census has seen up to the barrier.
    by_catalogue = {hook.name for hook in hooks if hook.where == "recovery"}
    recovery_hooks = sorted(by_catalogue | {hit.hook for recovery in census.recoveries for hit in recovery.hits})
    behind = _behind_the_barrier(draw, recovery_hooks, census)
    taken = draw.taken
    rest = [first for first in firsts if first.script() not in taken]
    for first in draw.rng.sample(rest, min(len(rest), draw.room - len(behind))):
        draw.add(first.script(), "random")
    _strike_recoveries(draw, shown, recovery_hooks)
    ordered = draw.entries[shown:] + behind
    draw.rng.shuffle(ordered)
    trials = list(laid_out(draw.entries[:shown] + ordered, storages, faults))
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
    ways: dict[str, list[CrashScript]] = {}
    for recovery in census.recoveries:
        for hit in (*recovery.hits, *recovery.work):
            ways.setdefault(hit.hook, []).append(recovery.first.script(CrashPoint(2, hit.hook, hit.n)))
    for hook in hooks:
        if hook.where == "recovery" and hook.name in ways and draw.room:
            draw.add(draw.rng.choice(ways[hook.name]), "cover")
    # Shuffled, so that a plan too small for all of them still touches every area of the subject.
    for hook in draw.rng.sample(list(hooks), len(hooks)):
        if not any(entry.script.points[0].hook == hook.name for entry in draw.entries):
            _cover_one(draw, by_hook.get(hook.name, []))


def _cover_one(draw: _Draw, candidates: Sequence[FirstPoint]) -> None:
    """One of these that is in no entry yet: a coverage window may have taken it for another reason."""
    taken = draw.taken
    free = [script for first in candidates if (script := first.script()) not in taken]
    if free and draw.room:
        draw.add(draw.rng.choice(free), "cover")


def _behind_the_barrier(draw: _Draw, recovery_hooks: Sequence[str], census: Census) -> list[Drawn]:
    """One entry in five, each struck where a census saw the work after a recovery; some again in the next recovery.

    Every hit behind a barrier is as likely as any other. At most half of the room: the rest is for first points.
    """
    taken = draw.taken
    there = (r.first.script(CrashPoint(2, hit.hook, hit.n)) for r in census.recoveries for hit in r.work)
    free = [script for script in there if script not in taken]
    count = min(draw.limit // WORK_CRASH_EVERY, draw.room // 2, len(free))
    scripts = draw.rng.sample(free, count)
    for at in draw.rng.sample(range(count), count // THIRD_CRASH_EVERY if recovery_hooks else 0):
        scripts[at] = _struck_again(scripts[at], CrashPoint(3, draw.rng.choice(recovery_hooks)))
    return [Drawn(script, "random") for script in scripts]


def _strike_recoveries(draw: _Draw, shown: int, recovery_hooks: Sequence[str]) -> None:
    """Strike entries again in their recovery, at hooks of the catalogue, until one in five is.

    Which ones does not depend on what they are, so those that are left with one point are still a fair sample.
    """
    twice = {script for script in draw.taken if len(script.points) > 1}
    single = [at for at, entry in enumerate(draw.entries) if at >= shown and len(entry.script.points) == 1]
    missing = min(len(single), max(0, draw.limit // RECOVERY_CRASH_EVERY - len(twice)))
    for at in draw.rng.sample(single, missing):
        entry = draw.entries[at]
        again = [_struck_again(entry.script, CrashPoint(2, hook)) for hook in recovery_hooks]
        if free := [script for script in again if script not in twice]:
            draw.entries[at] = replace(entry, script=draw.rng.choice(free))


def _struck_again(script: CrashScript, point: CrashPoint) -> CrashScript:
    return replace(script, points=(*script.points, point))
