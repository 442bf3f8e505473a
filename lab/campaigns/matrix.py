"""The matrix campaign: kill at seeded points of a subject's census, on each storage layer, and judge every recovery."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from lab.engine.errors import LabError
from lab.model import Hit
from lab.plan.points import (
    Census,
    FirstPoint,
    Plan,
    bug_plan,
    exhaustive_firsts,
    exhaustive_plan,
    random_plan,
    recovery_candidates,
    unreached,
)
from lab.run.pool import Crew
from lab.trial.life import take_census
from lab.trial.worker import Setting

WORKLOADS = 10  # scripts of a campaign: enough that each hook is met in many neighbourhoods
MAX_RECOVERY_CENSUSES = 120  # first points looked at before a hook that no recovery reaches is called unreached
Say = Callable[[str], None]


@dataclass(frozen=True)
class Options:
    """What the user asked of a matrix."""

    storages: tuple[str, ...]
    points: int
    exhaustive: bool
    bug: str | None


def census(setting: Setting, crew: Crew, options: Options, say: Say) -> Census:
    """Every hit of every workload, taken twice (on the first and on the last layer) and refused if the two differ.

    For a random campaign recoveries are looked at until each hook of the catalogue has been reached; for an
    exhaustive one those of a seeded sample, twice.
    """
    ends = (options.storages[0], options.storages[-1])
    tasks = [(w, storage) for w in range(len(setting.workloads)) for storage in ends]
    say(f"census   {len(setting.workloads)} workloads, each twice")
    taken: dict[int, list[tuple[Hit, ...]]] = {}
    for (workload, _), hits in crew.all(tasks, lambda worker, t: (t, tuple(take_census(setting, worker, *t, None)))):
        taken.setdefault(workload, []).append(hits)
    for workload, pair in taken.items():
        refuse_if_different(f"workload {workload}", pair, ends)
    runs = Census(tuple(taken[w][0] for w in range(len(setting.workloads))))
    if options.exhaustive:
        recoveries = _recoveries_of(exhaustive_firsts(setting.seed, setting.subject.hooks, runs), setting, crew, ends)
    else:
        recoveries = _recoveries_until_reached(setting, crew, runs, ends[0])
    whole = Census(runs.runs, recoveries)
    missing = unreached(setting.subject.hooks, whole)
    if missing:
        names = ", ".join(missing)
        raise LabError(
            f"{len(missing)} of the catalogue's hooks were reached by no run and no recovery: {names}",
            "Take them out of the catalogue, or make a workload that reaches them.",
        )
    return whole


def make_plan(setting: Setting, options: Options, found: Census) -> Plan:
    subject = setting.subject
    if options.bug is not None:
        return bug_plan(setting.seed, options.points, options.storages, subject.bug(options.bug), found)
    if options.exhaustive:
        return exhaustive_plan(setting.seed, options.storages, subject.bugs, found)
    return random_plan(
        setting.seed, options.points, options.storages, subject.hooks, subject.coverage, subject.bugs, found
    )


def refuse_if_different(what: str, pair: list[tuple[Hit, ...]], storages: Sequence[str]) -> None:
    """Two censuses of the same must be equal. `storages` are the layers on which they were taken, in no order."""
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


def _recoveries_until_reached(
    setting: Setting, crew: Crew, runs: Census, storage: str
) -> tuple[tuple[FirstPoint, tuple[Hit, ...]], ...]:
    """Recovery censuses, a batch at a time, until every hook of the catalogue has been reached or there are enough."""
    candidates = list(recovery_candidates(setting.seed, setting.subject.hooks, runs))[:MAX_RECOVERY_CENSUSES]
    found: list[tuple[FirstPoint, tuple[Hit, ...]]] = []
    batch = 2 * crew.size
    while candidates and unreached(setting.subject.hooks, Census(runs.runs, tuple(found))):
        now, candidates = candidates[:batch], candidates[batch:]
        found += _recoveries_of(now, setting, crew, (storage,))
    return tuple(found)


def _recoveries_of(
    firsts: list[FirstPoint], setting: Setting, crew: Crew, storages: tuple[str, ...]
) -> tuple[tuple[FirstPoint, tuple[Hit, ...]], ...]:
    """The recovery census of each first point, in the order given; one a layer, refused if they differ."""
    tasks = [(i, storage) for i in range(len(firsts)) for storage in storages]
    taken: dict[int, list[tuple[Hit, ...]]] = {}
    for i, hits in crew.all(
        tasks,
        lambda worker, t: (
            t[0],
            tuple(take_census(setting, worker, firsts[t[0]].workload, t[1], firsts[t[0]].point)),
        ),
    ):
        taken.setdefault(i, []).append(hits)
    for i, pair in taken.items():
        if len(pair) == 2:
            what = f"the recovery after {firsts[i].point} in workload {firsts[i].workload}"
            refuse_if_different(what, pair, storages)
    return tuple((first, taken[i][0]) for i, first in enumerate(firsts) if i in taken)
