"""What a run covered: hooks, points, windows, facts, canaries; and what is missing for a green one.

Pure functions of a stored run. Only trials whose chain of evidence is whole count: one that hung, or that has a link
missing, proves no coverage. A campaign lists those of the functions from `nothing_tried` on that it owes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields

from lab.model import ANSWER, END, INVOKE, MOMENTS, START, Kind, LedgerCounts, Result, Trial, Word, catches
from lab.plan.points import is_draw
from lab.report import statistics
from lab.report.statistics import Bound
from lab.report.text import plural, some
from lab.run.data import BugInfo, HookInfo, RunData, workload_of

MEANINGS = {
    ANSWER: "a moment: soon after the n-th acknowledgement was seen",
    INVOKE: "a moment: inside the n-th request",
    START: "a moment: so many ms after a start",
    END: "a moment: after the operations of a life",
}


def bound(data: RunData, storage: str) -> Bound | None:
    """The highest of the faults on one layer; None if one of them has none.

    Per layer and fault, since the same points are tried with each: together they are no independent draws.
    """
    ended = {r.trial.ident: r.verdict.word for r in data.points(storage)}
    draws: dict[str, list[int]] = {}
    for trial in data.trials:
        if trial.storage == storage and is_draw(trial):
            draws.setdefault(trial.faults, []).append(trial.ident)
    return _highest(
        statistics.bound(data.population, len(drawn), [ended[ident] for ident in drawn if ident in ended])
        for drawn in draws.values()
    )


def highest_bound(data: RunData) -> Bound | None:
    """That of the layer where it is highest; None if a layer has none."""
    return _highest(bound(data, storage) for storage in data.storages)


def _highest(bounds: Iterable[Bound | None]) -> Bound | None:
    found = list(bounds)
    known = [each for each in found if each]
    return max(known, key=lambda each: each.upper) if known and len(known) == len(found) else None


# What was killed, and where.


def kills(data: RunData, storage: str | None = None) -> int:
    return sum(len(r.hits) for r in data.judged(storage))


def second_crashes(data: RunData, storage: str | None = None) -> int:
    """Trials that were struck again in a later life."""
    return sum(len(r.hits) > 1 for r in data.judged(storage))


def kills_at(data: RunData, storage: str | None = None) -> Counter[str]:
    """Hook or moment -> kills at it."""
    return Counter(hit.hook for r in data.judged(storage) for hit in r.hits)


def kinds(data: RunData) -> dict[str, int]:
    """`hook` or the moment -> kills, most first."""
    at = (hit.hook for r in data.judged() for hit in r.hits)
    return dict(Counter(name if name in MOMENTS else "hook" for name in at).most_common())


def words_at(data: RunData, hook: str, storage: str) -> Counter[Word]:
    """What became of the trials that were killed there."""
    return Counter(r.verdict.word for r in data.judged(storage) if any(hit.hook == hook for hit in r.hits))


def places(data: RunData) -> tuple[HookInfo, ...]:
    """The hooks of the catalogue, and the moments that something was struck at."""
    at = kills_at(data)
    return (*data.hooks, *(HookInfo(name, MEANINGS[name], "moment") for name in MOMENTS if at[name]))


def uncovered(data: RunData, storage: str | None = None) -> tuple[str, ...]:
    """Hooks of the catalogue that nothing was killed at, on one layer or anywhere."""
    at = kills_at(data, storage)
    return tuple(hook.name for hook in data.hooks if not at[hook.name])


def covered(data: RunData, storage: str | None = None) -> int:
    return len(data.hooks) - len(uncovered(data, storage))


def covered_everywhere(data: RunData) -> int:
    """How many hooks of the catalogue something was killed at on every layer."""
    missing = {hook for storage in data.storages for hook in uncovered(data, storage)}
    return len(data.hooks) - len(missing) if data.storages else 0


def first_points(data: RunData, storage: str) -> int:
    """Different crash points of a first life, of the `points_known` of the census."""
    return len({(workload_of(r.trial), r.trial.kills[0]) for r in data.judged(storage) if r.trial.kills})


def window_table(data: RunData) -> dict[str, dict[str, int]]:
    """Window -> value of the tag -> kills on all layers together."""
    asked = data.coverage
    found = Counter((hit.hook, hit.tags.get(asked.by, "")) for result in data.judged() for hit in result.hits)
    return {window: {v: found[window, v] for v in asked.values} for window in asked.windows}


def ledger_totals(data: RunData) -> dict[str, int]:
    """The effect ledger's own counts, over all trials that count."""
    return {f.name: sum(getattr(r.counts, f.name) for r in data.judged()) for f in fields(LedgerCounts)}


def asked(data: RunData) -> tuple[str, ...]:
    """Properties that must have compared facts: cells of the legs that are tried; without legs, all promised."""
    if not data.legs:
        return (*sorted(data.promises), *data.audits)
    tried = {workload_of(t) for t in data.trials if t.kind is Kind.POINT}
    return (*dict.fromkeys(leg.cell for leg in data.legs if leg.workload in tried), *data.audits)


def facts(data: RunData) -> dict[str, int]:
    """Facts that were compared, per property; a property that was asked for and never checked has 0."""
    totals = Counter(dict.fromkeys(asked(data), 0))
    for result in data.judged():
        totals.update(result.verdict.facts)
    return dict(totals)


def unfinished(data: RunData) -> tuple[Trial, ...]:
    """Trials of the plan that are still to run. Further tries of a canary that was caught are not."""
    done = {r.trial.ident for r in data.results}
    caught = {(c.bug.name, c.storage) for c in canaries(data) if c.caught_by}
    return tuple(t for t in data.trials if t.ident not in done and (t.bug, t.storage) not in caught)


# Planted bugs.


@dataclass(frozen=True)
class Canary:
    """One planted bug, on one layer or, where `storage` is None, on any. One try that catches it is enough."""

    bug: BugInfo
    storage: str | None
    tries: tuple[Result, ...]

    @property
    def caught_by(self) -> Result | None:
        return next((r for r in self.tries if self.bug.property and catches(r.verdict, self.bug.property)), None)

    @property
    def name(self) -> str:
        return f"{self.bug.name} on {self.storage}" if self.storage else self.bug.name


def canaries(data: RunData) -> tuple[Canary, ...]:
    """What the run plants, or what the catalogue says that every run plants."""
    if data.bounds:
        planted = [b for b in data.bugs if (b.name == data.bug if data.bug else b.canary)]
        return tuple(Canary(b, None, tuple(r for r in data.ordered if r.trial.bug == b.name)) for b in planted)
    catalogue = {bug.name: bug for bug in data.bugs}
    tried = (t for t in data.trials if t.kind is Kind.CANARY)
    tries: dict[tuple[str, str], list[Result]] = {(t.bug or "", t.storage): [] for t in tried}
    if not (data.is_shard or data.is_of_a_bug):
        tries |= {(bug.name, storage): [] for bug in data.bugs if bug.canary for storage in data.storages}
    for result in data.ordered:
        key = (result.trial.bug or "", result.trial.storage)
        if result.trial.kind is Kind.CANARY and key in tries:
            tries[key].append(result)
    order = [*dict.fromkeys((*data.storages, *(storage for _, storage in tries)))]
    return tuple(
        Canary(catalogue.get(name, BugInfo(name, "", "not in the catalogue")), storage, tuple(tries[name, storage]))
        for name, storage in sorted(tries, key=lambda key: (key[0], order.index(key[1])))
    )


def missed_canaries(data: RunData) -> tuple[Canary, ...]:
    """Bugs that went by. An interrupted run has not had its chance yet."""
    return () if data.interrupted else tuple(c for c in canaries(data) if c.caught_by is None)


# What a green run owes: each returns the reasons why it proves too little.


def nothing_tried(data: RunData) -> Sequence[str]:
    """No trial, no kill, or not all of the plan."""
    if not data.bounds and not data.planned():
        return ["the plan has no crash point: nothing was tried"]
    if data.is_of_a_bug and all(trial.bug != data.bug for trial in data.trials or [r.trial for r in data.results]):
        return [f"no trial is of the planted bug {data.bug}"]
    reasons = [] if kills(data) else ["nothing was killed: no trial has a whole chain of evidence"]
    left = len(unfinished(data))
    return reasons + ([f"{left:,} of {plural(left + len(data.results), 'trial')} did not run"] if left else [])


def nothing_asked(data: RunData) -> Sequence[str]:
    return [] if any(r.operations for r in data.points()) else ["no operation was sent"]


def idle_layers(data: RunData) -> Sequence[str]:
    idle = []
    for storage in data.storages if kills(data) else ():
        if not data.planned(storage):
            idle.append(f"no trial on {storage}")
        elif not kills(data, storage):
            idle.append(f"no kill on {storage}")
    return idle


def dead_checks(data: RunData) -> Sequence[str]:
    """Promised properties, and audits, that compared nothing; or no promise at all."""
    return nothing_promised(data) or _unchecked(
        data, [n for n in asked(data) if n in data.audits or data.promises.get(n)]
    )


def nothing_promised(data: RunData) -> Sequence[str]:
    """Every loss would be a note: `[]`, or promises after other faults than this run's."""
    return (
        []
        if _promised(data)
        else [f"no property is promised after {' or '.join(data.faults)}: nothing could be broken"]
    )


def _promised(data: RunData) -> list[str]:
    """Properties that are promised after one of this run's faults, or chains of them."""
    struck = [{*spelled.split(">")} for spelled in data.faults]
    return [name for name, faults in data.promises.items() if faults and any(used <= {*faults} for used in struck)]


def dead_audits(data: RunData) -> Sequence[str]:
    """Audits alone: where there are legs, each is asked for its own cell."""
    return _unchecked(data, data.audits)


def dead_promises(data: RunData) -> Sequence[str]:
    """Audits, and properties promised after a fault of this run; none in one of a bug, which ends when it is caught."""
    promised = _promised(data)
    return [] if data.is_of_a_bug else nothing_promised(data) or _unchecked(data, [*promised, *data.audits])


def _unchecked(data: RunData, names: Sequence[str]) -> list[str]:
    found = facts(data)
    return [f"{name} checked no fact in the whole run" for name in names if kills(data) and not found.get(name)]


def every_hook(data: RunData) -> Sequence[str]:
    """All hooks of the catalogue, of a plan that has room for them; of a smaller one those it was drawn for."""
    enough = {s for s in data.storages if data.planned(s) >= data.expected_hooks}
    return _missed_hooks(data, {s: [h.name for h in data.hooks] if s in enough else data.covers for s in data.storages})


def drawn_hooks(data: RunData) -> Sequence[str]:
    """The hooks that the plan was drawn for."""
    return _missed_hooks(data, dict.fromkeys(data.storages, data.covers))


def _missed_hooks(data: RunData, owed: dict[str, Sequence[str]]) -> list[str]:
    reasons = []
    if len(data.hooks) != data.expected_hooks:
        reasons.append(f"the catalogue lists {plural(len(data.hooks), 'hook')}, {data.expected_hooks:,} are expected")
    if data.is_shard or data.is_of_a_bug or not kills(data):
        return reasons
    layers: dict[tuple[str, ...], list[str]] = {}
    for storage in filter(data.planned, data.storages):
        missed = tuple(hook for hook in uncovered(data, storage) if hook in owed[storage])
        layers.setdefault(missed, []).append(storage)
    for hooks, storages in layers.items():
        if hooks:
            count = f"{len(hooks)} of {plural(len(data.hooks), 'hook')}"
            reasons.append(f"{count} not killed at on {', '.join(storages)}: {some(hooks, 5)}")
    return reasons


def asked_coverage(data: RunData) -> Sequence[str]:
    """The windows and ledger counts that the subject's `[coverage]` asks for."""
    if data.is_shard or data.is_of_a_bug or not kills(data):
        return []
    reasons = [
        f"window {window} was never killed with {data.coverage.by} {tag}"
        for window, found in window_table(data).items()
        for tag, count in found.items()
        if not count
    ]
    totals = ledger_totals(data)
    return reasons + [f"the effect ledger counted no {name}" for name in data.coverage.ledger if not totals.get(name)]


def some_hooks(data: RunData) -> str:
    """`13 of 85 hooks` if a plan that was asked to be small does not owe them all; empty otherwise."""
    small = any(data.planned(s) < data.expected_hooks for s in data.storages)
    covered = covered_everywhere(data)
    if not small or data.is_shard or data.is_of_a_bug or covered >= data.expected_hooks:
        return ""
    return f"{covered:,} of {plural(data.expected_hooks, 'hook')}"
