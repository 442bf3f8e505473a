"""The census: every hit that a subject's runs and recoveries reach, which is where crash points can lie.

How one census is taken, and on which workers, is the campaign's: it passes a function (`TakeAll`). What is asked for,
what must agree and what is refused is decided here.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from lab.engine.errors import LabError
from lab.model import CrashPoint, CrashScript, Hit
from lab.subject.spec import Hook

MAX_RECOVERIES = 120  # looked at before a hook that no recovery reaches is called unreached
EXHAUSTIVE_FIRST_POINTS = 24  # first points with every hit of what follows: about every second area of hooks


@dataclass(frozen=True)
class FirstPoint:
    """A crash point of life 1 in one workload, with the tags of its hit."""

    workload: int
    hit: Hit

    @property
    def point(self) -> CrashPoint:
        return CrashPoint(1, self.hit.hook, self.hit.n)

    def script(self, *later: CrashPoint) -> CrashScript:
        """Struck there, and in the lives that follow at these."""
        return CrashScript(self.workload, (self.point, *later))

    def __str__(self) -> str:
        return f"{self.point} in workload {self.workload}"


@dataclass(frozen=True)
class Recovery:
    """What life 2 hits after a first point, in order: up to the barrier, and in the work behind it."""

    first: FirstPoint
    hits: tuple[Hit, ...]  # the last one is the barrier's
    work: tuple[Hit, ...] = ()


@dataclass(frozen=True)
class FailedRecovery:
    """A recovery that did not come to the end of its work. Its first point becomes a trial, which shows it whole."""

    first: FirstPoint
    storage: str
    what: str  # one line for a person

    def __str__(self) -> str:
        return f"the recovery after {self.first} failed on {self.storage}: {self.what}"


@dataclass(frozen=True)
class Census:
    """What can be reached: every hit of every workload, and of the recoveries that were looked at."""

    runs: tuple[tuple[Hit, ...], ...]  # per workload, in order
    recoveries: tuple[Recovery, ...] = ()
    failed: tuple[FailedRecovery, ...] = ()  # at most one for each first point

    def first_points(self) -> list[FirstPoint]:
        return [FirstPoint(w, hit) for w, hits in enumerate(self.runs) for hit in hits]


@dataclass(frozen=True)
class Wanted:
    """One census to take: of the run of a workload, or of what life 2 does after a first point."""

    workload: int
    storage: str
    first: FirstPoint | None = None


@dataclass(frozen=True)
class Taken:
    """Every hit in order; or why there is none, in one line for a person."""

    hits: tuple[Hit, ...]
    failure: str | None = None


TakeAll = Callable[[Sequence[Wanted]], Sequence[Taken]]  # answers in the order asked


def census_of_runs(take_all: TakeAll, workloads: int, storages: Sequence[str], hooks: Sequence[Hook]) -> Census:
    """Every hit of every workload, on the first and on the last layer.

    Raises LabError if a run fails, if the two layers differ, if a hook is hit that the catalogue does not list, or if
    one with `where = "run"` is never hit: it could not be covered, and the campaign would find out at its end.
    """
    wanted = [Wanted(workload, storage) for workload in range(workloads) for storage in _ends(storages)]
    runs = []
    for pair in _pairs(wanted, take_all(wanted)):
        for asked, taken in pair:
            if taken.failure is not None:
                raise LabError(f"the census of workload {asked.workload} on {asked.storage} failed: {taken.failure}")
        runs.append(_agreed(f"workload {pair[0][0].workload}", pair))
    found = Census(tuple(runs))
    _refuse_unlisted(hooks, found)
    reached = _reached(found)
    missing = [hook.name for hook in hooks if hook.where == "run" and hook.name not in reached]
    if missing:
        raise LabError(
            f'{len(missing)} of the catalogue\'s hooks with where = "run" were reached by no run: {", ".join(missing)}',
            'Make a workload that reaches them; where = "recovery" is for hooks that only a recovery reaches.',
        )
    return found


def census_for_random(
    take_all: TakeAll,
    seed: int,
    runs: Census,
    storage: str,
    hooks: Sequence[Hook],
    barrier: str,
    *,
    least: int,
    batch: int,
) -> Census:
    """Recoveries until every hook has been reached and `least` were seen, `batch` at a time.

    Ends at the first batch with a failure: the run is red then, and shows it.
    """
    candidates = list(recovery_candidates(seed, hooks, runs))[:MAX_RECOVERIES]
    found = runs
    while candidates and not found.failed and (unreached(hooks, found) or len(found.recoveries) < least):
        now, candidates = candidates[:batch], candidates[batch:]
        more = _recoveries(take_all, now, (storage,), barrier)
        found = Census(found.runs, found.recoveries + more.recoveries, more.failed)
    _refuse_unlisted(hooks, found)
    return found


def census_for_exhaustive(
    take_all: TakeAll, seed: int, runs: Census, storages: Sequence[str], hooks: Sequence[Hook], barrier: str
) -> Census:
    """The recoveries of a seeded sample of first points, on the first and on the last layer, which must agree."""
    firsts = list(recovery_candidates(seed, hooks, runs))[:EXHAUSTIVE_FIRST_POINTS]
    more = _recoveries(take_all, firsts, _ends(storages), barrier)
    found = Census(runs.runs, more.recoveries, more.failed)
    _refuse_unlisted(hooks, found)
    return found


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


def unreached(hooks: Sequence[Hook], census: Census) -> dict[str, str]:
    """Hooks of the catalogue that no census reached (name -> meaning)."""
    seen = _reached(census)
    return {hook.name: hook.meaning for hook in hooks if hook.name not in seen}


def _reached(census: Census) -> set[str]:
    recovered = (hit for recovery in census.recoveries for hit in (*recovery.hits, *recovery.work))
    return {hit.hook for hit in itertools.chain(*census.runs, recovered)}


def refuse_if_different(what: str, pair: Sequence[tuple[Hit, ...]], storages: Sequence[str]) -> None:
    """Raises LabError if two censuses of the same differ. `storages` are the layers on which they were taken."""
    first, second = pair
    if first != second:
        at = next(
            (i for i, (a, b) in enumerate(zip(first, second, strict=False)) if a != b), min(len(first), len(second))
        )
        shown = [str(hits[at]) if at < len(hits) else "the end" for hits in pair]
        raise LabError(
            f"the census of {what}, taken twice ({' and '.join(storages)}), differs: hit {at + 1} is {shown[0]} in one "
            f"and {shown[1]} in the other",
            "A crash point could not be found again. Take clocks, randomness and races out of the subject.",
        )


Pair = Sequence[tuple[Wanted, Taken]]  # censuses of the same


def _recoveries(take_all: TakeAll, firsts: Sequence[FirstPoint], storages: Sequence[str], barrier: str) -> Census:
    """The recovery of each first point, in the order given, or the first of its failures."""
    wanted = [Wanted(first.workload, storage, first) for first in firsts for storage in storages]
    recoveries, failed = [], []
    for first, pair in zip(firsts, _pairs(wanted, take_all(wanted), len(storages)), strict=True):
        failures = [(asked.storage, taken.failure) for asked, taken in pair if taken.failure is not None]
        if failures:
            failed.append(FailedRecovery(first, *failures[0]))
            continue
        hits = _agreed(f"the recovery after {first}", pair)
        behind = next((at for at, hit in enumerate(hits, 1) if hit.hook == barrier), None)
        if behind is None:
            failed.append(FailedRecovery(first, storages[0], f"it never hit {barrier}"))
        else:
            recoveries.append(Recovery(first, hits[:behind], hits[behind:]))
    return Census((), tuple(recoveries), tuple(failed))


def _pairs(wanted: Sequence[Wanted], taken: Sequence[Taken], size: int = 2) -> list[Pair]:
    both = list(zip(wanted, taken, strict=True))
    return [both[at : at + size] for at in range(0, len(both), size)]


def _agreed(what: str, pair: Pair) -> tuple[Hit, ...]:
    """What all of them say: two, or one that was taken alone."""
    if len(pair) == 2:
        refuse_if_different(what, [taken.hits for _, taken in pair], [asked.storage for asked, _ in pair])
    return pair[0][1].hits


def _ends(storages: Sequence[str]) -> tuple[str, ...]:
    """The first and the last layer, which is one if there is only one: but a census is always taken twice."""
    return (storages[0], storages[-1])


def _refuse_unlisted(hooks: Sequence[Hook], found: Census) -> None:
    """A hook that is in the program alone would be killed at, and counted nowhere: "8 of 8" of nine."""
    unlisted = sorted(_reached(found) - {hook.name for hook in hooks})
    if unlisted:
        raise LabError(
            f"hooks were hit that the catalogue does not list: {', '.join(unlisted)}",
            "List what the program has in hooks.toml, and raise `expected` in subject.toml.",
        )
