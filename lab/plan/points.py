"""From seed and census to trials. Pure: the same seed and the same census give the same plan, byte for byte."""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from lab.model import CrashPoint, Hit, Kind, Trial
from lab.subject.load import Bug, CoverageTable, Hook, hooks_of

SECOND_CRASH_EVERY = 5  # one trial in five is struck again in its recovery
CANARY_TRIES = 4  # points at which a planted bug may show, tried until it is caught
EXHAUSTIVE_FIRST_POINTS = 24  # first points whose recovery is killed at every hit: about every second area of hooks


@dataclass(frozen=True)
class FirstPoint:
    """A crash point of process 1 in one workload, with the tags of its hit."""

    workload: int
    hit: Hit

    @property
    def point(self) -> CrashPoint:
        return CrashPoint(1, self.hit.hook, self.hit.n)


@dataclass(frozen=True)
class Census:
    """What can be reached: every hit of every workload, and of the recoveries that were looked at."""

    runs: tuple[tuple[Hit, ...], ...]  # per workload, in order
    recoveries: tuple[tuple[FirstPoint, tuple[Hit, ...]], ...] = ()

    def first_points(self) -> list[FirstPoint]:
        return [FirstPoint(w, hit) for w, hits in enumerate(self.runs) for hit in hits]


@dataclass(frozen=True)
class Plan:
    """The trials, and what they are expected to cover."""

    trials: tuple[Trial, ...]
    points_known: int  # crash points per layer in the census
    covers: tuple[str, ...]  # hooks that some trial of each layer is planned to be killed at
    canaries: tuple[str, ...] = ()  # planted bugs, once on each layer
    whole: int = 0  # trials of the whole plan, of which this may be a shard


@dataclass
class _Draw:
    """The points of one layer while they are drawn: (first, second or None, how it was drawn)."""

    rng: random.Random
    points: list[tuple[FirstPoint, CrashPoint | None, str]] = field(default_factory=list)
    taken: set[tuple[int, str]] = field(default_factory=set)

    def add(self, first: FirstPoint, second: CrashPoint | None, drawn: str) -> None:
        self.points.append((first, second, drawn))
        self.taken.add((first.workload, str(first.point)))


def random_plan(
    seed: int,
    points: int,
    storages: Sequence[str],
    hooks: Sequence[Hook],
    coverage: CoverageTable,
    bugs: Sequence[Bug],
    census: Census,
) -> Plan:
    """`points` crash points, the same on each layer: what must be covered, then random ones, none of them twice.

    With fewer points than there are hooks, as many as fit are covered, the coverage windows first.
    """
    draw = _Draw(random.Random(f"{seed}/points"))
    firsts = census.first_points()
    _cover(draw, points, firsts, hooks, coverage, census)
    rest = [f for f in firsts if (f.workload, str(f.point)) not in draw.taken]
    for first in draw.rng.sample(rest, min(len(rest), max(0, points - len(draw.points)))):
        draw.add(first, None, "random")
    covers = _covered(draw)
    _second_crashes(draw, points, hooks, census)
    draw.rng.shuffle(draw.points)
    trials = list(_on_each_layer(draw.points, storages, start=1))
    trials += _canaries(seed, bugs, storages, census, start=len(trials) + 1)
    canaries = tuple(b.name for b in bugs if b.canary)
    return Plan(tuple(trials), len(firsts), covers, canaries, len(trials))


def exhaustive_plan(
    seed: int,
    storages: Sequence[str],
    bugs: Sequence[Bug],
    census: Census,
) -> Plan:
    """Every first crash point; one probe more for each hook of a workload; every hit of each recovery in the census."""
    points: list[tuple[FirstPoint, CrashPoint | None, str]] = [(f, None, "all") for f in census.first_points()]
    for first, recovery in census.recoveries:
        points += [(first, CrashPoint(2, hit.hook, hit.n), "all") for hit in recovery]
    trials = list(_on_each_layer(points, storages, start=1))
    for workload, hits in enumerate(census.runs):
        last: dict[str, int] = {}
        for hit in hits:
            last[hit.hook] = max(hit.n, last.get(hit.hook, 0))
        for hook, n in sorted(last.items()):
            point = CrashPoint(1, hook, n + 1)
            for storage in storages:
                trials.append(Trial(len(trials) + 1, Kind.PROBE, storage, workload, (point,), drawn="all"))
    trials += _canaries(seed, bugs, storages, census, start=len(trials) + 1)
    covers = {f.hit.hook for f, _, _ in points} | {s.hook for _, s, _ in points if s is not None}
    canaries = tuple(b.name for b in bugs if b.canary)
    return Plan(tuple(trials), len(census.first_points()), tuple(sorted(covers)), canaries, len(trials))


def bug_plan(seed: int, points: int, storages: Sequence[str], bug: Bug, census: Census) -> Plan:
    """At most `points` trials a layer of the subject with a planted bug, at the points where it may show."""
    tries = list(bug_points(seed, bug, census))[:points]
    trials = [
        Trial(number, Kind.POINT, storage, workload, hits, bug=bug.name, drawn="cover")
        for number, (workload, hits, storage) in enumerate(((w, h, s) for w, h in tries for s in storages), 1)
    ]
    return Plan(tuple(trials), len(census.first_points()), (), whole=len(trials))


def shard(plan: Plan, index: int, of: int) -> Plan:
    """Part `index` (from 1) of `of` of a plan, with every layer of a point; canaries are in the first."""
    layers = len({t.storage for t in plan.trials}) or 1

    def mine(trial: Trial) -> bool:
        return index == 1 if trial.kind is Kind.CANARY else (trial.ident - 1) // layers % of == index - 1

    return replace(plan, trials=tuple(t for t in plan.trials if mine(t)))


def recovery_candidates(seed: int, hooks: Sequence[Hook], census: Census) -> Iterator[FirstPoint]:
    """First points whose recovery is worth a census, the most telling ones first.

    Those that the catalogue names as leading to a recovery hook come first, each with all its tags; then one of every
    hook, shuffled. The caller stops when it has seen enough.
    """
    rng = random.Random(f"{seed}/recoveries")
    firsts = census.first_points()
    rng.shuffle(firsts)
    hinted = {name for hook in hooks for name in hook.after}
    seen: set[tuple[str, tuple[tuple[str, str], ...]]] = set()
    for wanted in (True, False):
        for first in firsts:
            kind = (first.hit.hook, tuple(sorted(first.hit.tags.items())))
            if (first.hit.hook in hinted) == wanted and kind not in seen:
                seen.add(kind)
                yield first


def exhaustive_firsts(seed: int, hooks: Sequence[Hook], census: Census) -> list[FirstPoint]:
    """The seeded sample of first points whose recovery is killed at every hit."""
    found = list(recovery_candidates(seed, hooks, census))
    return found[:EXHAUSTIVE_FIRST_POINTS]


def _cover(
    draw: _Draw,
    points: int,
    firsts: Sequence[FirstPoint],
    hooks: Sequence[Hook],
    coverage: CoverageTable,
    census: Census,
) -> None:
    """Add what must be covered, as far as `points` reach: windows by tag, recovery hooks, then every hook of a run."""
    by_hook: dict[str, list[FirstPoint]] = {}
    for first in firsts:
        by_hook.setdefault(first.hit.hook, []).append(first)
    for window in coverage.windows:
        for value in coverage.values:
            tagged = [f for f in by_hook.get(window, []) if f.hit.tags.get(coverage.by) == value]
            _add_one(draw, points, tagged)
    ways: dict[str, list[tuple[FirstPoint, CrashPoint]]] = {}
    for first, recovery in census.recoveries:
        for hit in recovery:
            ways.setdefault(hit.hook, []).append((first, CrashPoint(2, hit.hook, hit.n)))
    for hook in hooks:
        if hook.where == "recovery" and hook.name in ways and len(draw.points) < points:
            first, second = draw.rng.choice(ways[hook.name])
            draw.add(first, second, "cover")
    # Shuffled, so that a plan too small for all of them still touches every area of the subject.
    for hook in draw.rng.sample(list(hooks), len(hooks)):
        if not any(f.hit.hook == hook.name for f, _, _ in draw.points):
            _add_one(draw, points, by_hook.get(hook.name, []))


def _add_one(draw: _Draw, points: int, candidates: Sequence[FirstPoint]) -> None:
    if candidates and len(draw.points) < points:
        draw.add(draw.rng.choice(candidates), None, "cover")


def _second_crashes(draw: _Draw, points: int, hooks: Sequence[Hook], census: Census) -> None:
    """Give trials a second crash, drawn from the hooks that a recovery can reach, until one in five has one."""
    reachable = sorted(
        {h.name for h in hooks if h.where == "recovery"} | {h.hook for _, r in census.recoveries for h in r}
    )
    if not reachable:
        return
    twice = [(first, second) for first, second, _ in draw.points if second is not None]
    single = [i for i, (_, second, _) in enumerate(draw.points) if second is None]
    missing = points // SECOND_CRASH_EVERY - len(twice)
    for i in draw.rng.sample(single, max(0, min(missing, len(single)))):
        first, _, drawn = draw.points[i]
        seconds = [point for hook in reachable if (first, point := CrashPoint(2, hook, 1)) not in twice]
        if seconds:
            draw.points[i] = (first, draw.rng.choice(seconds), drawn)


def _on_each_layer(
    points: Iterable[tuple[FirstPoint, CrashPoint | None, str]], storages: Sequence[str], start: int
) -> Iterator[Trial]:
    ident = start
    for first, second, drawn in points:
        both = (first.point,) if second is None else (first.point, second)
        for storage in storages:
            yield Trial(ident, Kind.POINT, storage, first.workload, both, drawn=drawn)
            ident += 1


def _covered(draw: _Draw) -> tuple[str, ...]:
    """Hooks that the plan is sure to kill at: all first points, and the second points so far, which a census has seen.

    The second points that are drawn later, from the catalogue, may never be reached.
    """
    firsts = {first.hit.hook for first, _, _ in draw.points}
    seconds = {second.hook for _, second, _ in draw.points if second is not None}
    return tuple(sorted(firsts | seconds))


def _canaries(seed: int, bugs: Sequence[Bug], storages: Sequence[str], census: Census, start: int) -> Iterator[Trial]:
    """For each canary and layer a few tries, one after the other; the run stops at the first that is caught."""
    ident = start
    for bug in bugs:
        if not bug.canary:
            continue
        tries = list(bug_points(seed, bug, census))[:CANARY_TRIES]
        for storage in storages:
            for workload, points in tries:
                yield Trial(ident, Kind.CANARY, storage, workload, points, bug=bug.name, drawn="cover")
                ident += 1


def bug_points(seed: int, bug: Bug, census: Census) -> Iterator[tuple[int, tuple[CrashPoint, ...]]]:
    """Workload and crash points at which a planted bug may show: its hooks in turn, occurrences drawn by the seed."""
    rng = random.Random(f"{seed}/bugs/{bug.name}")
    pools: list[list[tuple[int, tuple[CrashPoint, ...]]]] = []
    for text in bug.points:
        first_hook, *seconds = hooks_of(text)
        second = tuple(CrashPoint(2, hook, 1) for hook in seconds)
        pool = [
            (f.workload, (f.point, *second))
            for f in census.first_points()
            if f.hit.hook == first_hook and all(f.hit.tags.get(k) == v for k, v in bug.tags.items())
        ]
        rng.shuffle(pool)
        pools.append(pool)
    for nth in range(max((len(pool) for pool in pools), default=0)):
        for pool in pools:
            if nth < len(pool):
                yield pool[nth]


def unreached(hooks: Sequence[Hook], census: Census) -> Mapping[str, str]:
    """Hooks of the catalogue that no census reached (name -> meaning)."""
    seen = {hit.hook for hits in census.runs for hit in hits} | {h.hook for _, r in census.recoveries for h in r}
    return {hook.name: hook.meaning for hook in hooks if hook.name not in seen}
