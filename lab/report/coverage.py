"""What a campaign covered: hooks killed at, windows by tag, canaries caught, and what is missing for a green run.

Pure functions of a stored run. Only trials whose chain of evidence is whole count: a trial that hung, or that has
a link missing, proves no coverage.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, fields

from lab.model import ANSWER, Kind, LedgerCounts, Result, Trial, Word, catches
from lab.report import legs
from lab.report.data import BugInfo, HookInfo, RunData
from lab.report.text import plural


@dataclass(frozen=True)
class Cell:
    """One hook on one layer: how often something was killed at it, and what became of those trials."""

    kills: int = 0
    words: tuple[tuple[Word, int], ...] = ()


@dataclass(frozen=True)
class Canary:
    """One planted bug on one layer. It may have several tries; one that catches it is enough."""

    bug: BugInfo
    storage: str
    tries: tuple[Result, ...]
    caught_by: Result | None


def hook_table(data: RunData) -> dict[str, dict[str, Cell]]:
    """Place -> layer -> cell, for every place of `places`; a second kill inside a recovery counts as well."""
    kills: Counter[tuple[str, str]] = Counter()
    words: dict[tuple[str, str], Counter[Word]] = {}
    for result in data.judged():
        for hit in result.hits:
            kills[hit.hook, result.trial.storage] += 1
        for hook in {hit.hook for hit in result.hits}:
            words.setdefault((hook, result.trial.storage), Counter())[result.verdict.word] += 1
    order = list(Word)
    return {
        hook.name: {
            storage: Cell(
                kills[hook.name, storage],
                tuple(sorted(words.get((hook.name, storage), {}).items(), key=lambda w: order.index(w[0]))),
            )
            for storage in data.storages
        }
        for hook in places(data)
    }


def places(data: RunData) -> tuple[HookInfo, ...]:
    """The hooks of the catalogue, and the moments if the plan has some."""
    if not any(point.is_moment for trial in data.trials for point in trial.points):
        return data.hooks
    return (*data.hooks, HookInfo(ANSWER, "a moment: soon after the n-th acknowledgement was seen", "run"))


def uncovered(data: RunData, storage: str) -> tuple[str, ...]:
    """Hooks of the catalogue that nothing was killed at on this layer."""
    killed = {hit.hook for result in data.judged(storage) for hit in result.hits}
    return tuple(hook.name for hook in data.hooks if hook.name not in killed)


def covered_everywhere(data: RunData) -> int:
    """How many hooks of the catalogue something was killed at on every layer."""
    missing = {hook for storage in data.storages for hook in uncovered(data, storage)}
    return len(data.hooks) - len(missing) if data.storages else 0


def owed(data: RunData, storage: str) -> frozenset[str]:
    """Hooks that must be killed at on this layer: what the plan means to reach; all, if it draws from all of them."""
    if data.is_shard or data.is_of_a_bug:
        return frozenset()
    if data.draws_from_every_hook and data.planned(storage) >= data.expected_hooks:
        return frozenset(hook.name for hook in data.hooks)
    return frozenset(data.covers)


def missed(data: RunData, storage: str) -> tuple[str, ...]:
    """Hooks that are owed on this layer and were not killed at."""
    must = owed(data, storage)
    return tuple(hook for hook in uncovered(data, storage) if hook in must)


def window_table(data: RunData) -> dict[str, dict[str, int]]:
    """Window -> value of the tag -> kills on all layers together."""
    asked = data.coverage
    kills = Counter(
        (hit.hook, hit.tags.get(asked.by, "")) for result in data.judged() for hit in result.hits if asked.windows
    )
    return {window: {v: kills[window, v] for v in asked.values} for window in asked.windows}


def ledger_totals(data: RunData) -> dict[str, int]:
    """The effect ledger's own counts, over all trials that count."""
    judged = data.judged()
    return {f.name: sum(getattr(r.counts, f.name) for r in judged) for f in fields(LedgerCounts)}


def facts(data: RunData) -> dict[str, int]:
    """Facts that were compared, per property; a property that was asked for and never checked has 0."""
    totals = Counter(dict.fromkeys(data.asked(), 0))
    for result in data.judged():
        totals.update(result.verdict.facts)
    return dict(totals)


def canaries(data: RunData) -> tuple[Canary, ...]:
    """Every (bug, layer) that the plan plants, or that its catalogue says every campaign plants."""
    owes = not (data.is_shard or data.is_of_a_bug)
    catalogue = {bug.name: bug for bug in data.bugs}
    pairs = {(t.bug or "", t.storage) for t in data.trials if t.kind is Kind.CANARY}
    pairs |= {(bug.name, storage) for bug in data.bugs if bug.canary and owes for storage in data.storages}
    tries: dict[tuple[str, str], list[Result]] = {}
    for result in data.ordered:
        if result.trial.kind is Kind.CANARY:
            tries.setdefault((result.trial.bug or "", result.trial.storage), []).append(result)
    found = []
    for name, storage in sorted(pairs, key=lambda pair: (pair[0], _position(data, pair[1]))):
        bug = catalogue.get(name, BugInfo(name, "", "not in the catalogue"))
        caught = next(
            (r for r in tries.get((name, storage), ()) if bug.property and catches(r.verdict, bug.property)), None
        )
        found.append(Canary(bug, storage, tuple(tries.get((name, storage), ())), caught))
    return tuple(found)


def unfinished(data: RunData) -> tuple[Trial, ...]:
    """Trials of the plan that are still to run. Further tries of a canary that was caught are not."""
    done = {r.trial.ident for r in data.results}
    caught = {(c.bug.name, c.storage) for c in canaries(data) if c.caught_by}
    return tuple(t for t in data.trials if t.ident not in done and (t.bug, t.storage) not in caught)


def _position(data: RunData, storage: str) -> int:
    return data.storages.index(storage) if storage in data.storages else len(data.storages)


def gaps(data: RunData) -> tuple[str, ...]:
    """Why a run without a failure would still prove too little (`NO-WORK`), one line a reason; empty if it does not."""
    if not any(t.kind is Kind.POINT for t in data.trials):
        return ("the plan has no crash point: nothing was tried",)
    if not any(r.hits for r in data.judged()):
        return ("nothing was killed: no trial has a whole chain of evidence", *_unfinished(data))
    lacking = (_unfinished, _idle_layers, legs.idle, _dead_checks, _missed_hooks, _missed_coverage)
    return tuple(reason for of in lacking for reason in of(data))


def _unfinished(data: RunData) -> list[str]:
    left = len(unfinished(data))
    return [f"{left:,} of {plural(left + len(data.results), 'trial')} did not run"] if left else []


def _idle_layers(data: RunData) -> list[str]:
    idle = []
    for storage in data.storages:
        if not data.planned(storage):
            idle.append(f"no trial on {storage}")
        elif not any(r.hits for r in data.judged(storage)):
            idle.append(f"no kill on {storage}")
    return idle


def _dead_checks(data: RunData) -> list[str]:
    names = data.audits if data.legs else data.asked()  # a cell is asked leg by leg: `legs.idle`
    return [f"{name} checked no fact in the whole campaign" for name in names if not facts(data)[name]]


def _missed_hooks(data: RunData) -> list[str]:
    reasons = []
    if len(data.hooks) != data.expected_hooks:
        reasons.append(f"the catalogue lists {plural(len(data.hooks), 'hook')}, {data.expected_hooks:,} are expected")
    layers: dict[tuple[str, ...], list[str]] = {}
    for storage in data.storages:
        if data.planned(storage):
            layers.setdefault(missed(data, storage), []).append(storage)
    for hooks, storages in layers.items():
        shown = ", ".join(hooks[:5]) + (f" and {len(hooks) - 5} more" if len(hooks) > 5 else "")
        if hooks:
            count = f"{len(hooks)} of {plural(len(data.hooks), 'hook')}"
            reasons.append(f"{count} not killed at on {', '.join(storages)}: {shown}")
    return reasons


def _missed_coverage(data: RunData) -> list[str]:
    if data.is_shard or data.is_of_a_bug:
        return []
    reasons = [
        f"window {window} was never killed with {data.coverage.by} {tag}"
        for window, kills in window_table(data).items()
        for tag, count in kills.items()
        if not count
    ]
    totals = ledger_totals(data)
    reasons += [f"the effect ledger counted no {name}" for name in data.coverage.ledger if not totals.get(name)]
    return reasons
