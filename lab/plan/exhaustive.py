"""An exhaustive plan: every first point of the census, and what follows a sample of them. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from lab.model import CrashPoint, CrashScript, Hit, Kind
from lab.plan.census import Census
from lab.plan.points import Drawn, Plan, canaries, laid_out
from lab.subject.spec import Bug


def exhaustive_plan(
    seed: int, storages: Sequence[str], faults: Sequence[str], bugs: Sequence[Bug], census: Census
) -> Plan:
    """Every first point; every hit of each recovery in the census; behind its barrier the first hit of every hook.

    Not every hit there: the work after a recovery is about as long as a run, so all of it would be a campaign of its
    own for each of the sampled first points. The first hit of a hook is where a state that only a recovery leaves is
    met for the first time; the catalogue's length bounds their number. Probes, which strike nothing, are planned once.
    """
    firsts = census.first_points()
    failed = [failure.first for failure in census.failed]
    draws = [Drawn(first.script(), "cover") for first in failed]
    draws += [Drawn(first.script(), "all") for first in firsts if first not in failed]
    for recovery in census.recoveries:
        first_of_each: dict[str, Hit] = {}
        for hit in recovery.work:
            first_of_each.setdefault(hit.hook, hit)
        for hit in (*recovery.hits, *first_of_each.values()):
            draws.append(Drawn(recovery.first.script(CrashPoint(2, hit.hook, hit.n)), "all"))
    trials = list(laid_out(draws, storages, faults))
    trials += laid_out(_probes(census), storages, faults[:1], len(trials) + 1)
    trials += laid_out(canaries(seed, bugs, census), storages, faults, len(trials) + 1)
    covers = sorted({point.hook for draw in draws for point in draw.script.points})
    names = tuple(bug.name for bug in bugs if bug.canary)
    return Plan(tuple(trials), len(firsts), tuple(covers), names, len(trials))


def _probes(census: Census) -> Iterator[Drawn]:
    """One for each hook of a workload: an occurrence more than the census has."""
    for workload, hits in enumerate(census.runs):
        last: dict[str, int] = {}
        for hit in hits:
            last[hit.hook] = max(hit.n, last.get(hit.hook, 0))
        for hook, n in sorted(last.items()):
            yield Drawn(CrashScript(workload, (CrashPoint(1, hook, n + 1),)), "all", Kind.PROBE)
