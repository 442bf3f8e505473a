"""From a scenario that broke a promise to a short one that still breaks it: delta debugging (Zeller, Hildebrandt 2002).

Pure: whoever calls it runs the candidates, says which still fails, and decides how often each is tried, since the same
scenario need not end the same way twice. What is known to hold is not tried again. A kill costs about half a second of
a trial and an operation some milliseconds, so a life that can go goes before the operations.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations, islice, pairwise

from lab.codec import to_json
from lab.model import END, PAUSE, CrashPoint, Life, Op, Scenario

SHORT = 12  # operations: a script of more is no short one, and its fault is most likely one of timing
AT_ONCE = 4  # candidates handed over together: few, so that the deadline is kept, and enough for every worker

Thing = tuple[str, str]  # an argument and its value, as JSON: operations that share it have to do with one another
Fails = Callable[[Sequence[Scenario]], int | None]


@dataclass(frozen=True)
class How:
    """How a shorter scenario was found, in numbers."""

    before: int  # operations, pauses not counted
    after: int
    tried: int  # candidates that were handed over
    serial: bool  # it fails one operation at a time, by one client
    finished: bool  # false: the budget or the time ended first, and a shorter one may be there

    @property
    def shorter(self) -> bool:
        """Whether anything was left out: "160 to 160 operations" is no result."""
        return self.after < self.before

    @property
    def timing(self) -> bool:
        """Nothing was left to try, yet it needs clients side by side or many operations: a fault of timing."""
        return self.finished and (not self.serial or self.after > SHORT)


@dataclass(frozen=True)
class Shrunk:
    """The shortest scenario found. Its steps keep their numbers: the values carry them."""

    scenario: Scenario
    how: How


def shrink(
    scenario: Scenario,
    fails: Fails,
    budget: int,
    *,
    about: int | None = None,
    showed: int | None = None,
    order: Sequence[int] = (),
    expired: Callable[[], bool] = lambda: False,
    at_once: int = AT_ONCE,
) -> Shrunk:
    """Make a scenario that fails as short as it gets with at most `budget` candidates.

    `fails` runs some candidates and returns the index of the first that still breaks the same property. `about` is the
    step that the break names; `showed` the life (from 1) whose check saw it; `order` the steps as they were invoked, of
    which it may lack some. Guesses come first, a few candidates that would save many.
    """
    search = _Search(scenario, fails, budget, at_once, expired)
    if showed is not None:
        search.improve(_cut_off(scenario, showed))
    search.improve(_killed_at_the_end(search.best))
    search.improve(_one_at_a_time(search.best, order))
    if about is not None:
        search.improve(_concerning(search.best, about))
    before = None
    while search.best != before:  # each pass may open a way for one before it
        before = search.best
        _greedily(search, _fewer_lives)
        _greedily(search, _idle_lives)
        _fewer_operations(search)
        _greedily(search, _fewer_clients)
        _greedily(search, _simpler_kills)
    best = search.best
    serial = len({op.client for life in best.lives for op in life.ops}) <= 1
    how = How(len(scenario.operations), len(best.operations), search.tried, serial, finished=not search.exhausted)
    return Shrunk(best, how)


class _Search:
    """The shortest failing scenario so far, and what is known of the others."""

    def __init__(
        self, scenario: Scenario, fails: Fails, budget: int, at_once: int, expired: Callable[[], bool]
    ) -> None:
        self.best = scenario
        self.tried = 0
        self.exhausted = False
        self._fails, self._budget, self._at_once, self._expired = fails, budget, at_once, expired
        self._known = {_canonical(scenario)}  # no use trying: they hold, or were the best once

    def improve(self, candidates: Iterable[Scenario]) -> bool:
        """Take the first candidate that still fails as the best. False if none does, or the search has to end."""
        fresh = self._fresh(candidates)
        while batch := list(islice(fresh, self._at_once)):
            batch = batch[: self._budget - self.tried]
            if not batch or self._expired():
                self.exhausted = True
                return False
            self.tried += len(batch)
            failed = self._fails(batch)
            # Those behind the one that failed may not have been run to their end.
            self._known.update(map(_canonical, batch if failed is None else batch[: failed + 1]))
            if failed is not None:
                self.best = batch[failed]
                return True
        return False

    def _fresh(self, candidates: Iterable[Scenario]) -> Iterator[Scenario]:
        offered = set()
        for candidate in candidates:
            key = _canonical(candidate)
            if key not in self._known and key not in offered:
                offered.add(key)
                yield candidate


def _canonical(scenario: Scenario) -> str:
    return json.dumps(to_json(scenario), sort_keys=True, separators=(",", ":"))


def _greedily(search: _Search, candidates: Callable[[Scenario], Iterable[Scenario]]) -> None:
    """Go on from each success, until no candidate is one."""
    while not search.exhausted and search.improve(candidates(search.best)):
        pass


# Lives and kills.


def _cut_off(scenario: Scenario, showed: int) -> Iterator[Scenario]:
    """Without what came after the check that saw it; that check is the first thing of its life."""
    lives = scenario.lives[:showed]
    last = lives[-1]
    if last.kill is not None:  # the final check comes after the operations of the last life, and needs them
        yield replace(scenario, lives=(*lives[:-1], Life((), None)))
    yield replace(scenario, lives=(*lives[:-1], Life(last.ops, None)))


def _fewer_lives(scenario: Scenario) -> Iterator[Scenario]:
    """One kill less: two neighbouring lives become one, which ends as the second did."""
    lives = scenario.lives
    for n, (life, after) in enumerate(pairwise(lives)):
        yield replace(scenario, lives=(*lives[:n], Life(life.ops + after.ops, after.kill), *lives[n + 2 :]))


def _idle_lives(scenario: Scenario) -> Iterator[Scenario]:
    """A life in which nothing is sent, the last first: what comes after the break has no part in it."""
    for n in reversed(range(len(scenario.lives))):
        if scenario.lives[n].ops:
            yield _with_life(scenario, n, Life((), scenario.lives[n].kill))


def _killed_at_the_end(scenario: Scenario) -> Iterator[Scenario]:
    """Every kill after its life's operations: it then strikes at the same place however few are left."""
    lives = (Life(life.ops, _at_the_end(life.kill) if life.kill else None) for life in scenario.lives)
    yield replace(scenario, lives=tuple(lives))


def _simpler_kills(scenario: Scenario) -> Iterator[Scenario]:
    for n, life in enumerate(scenario.lives):
        for kill in _simpler(life.kill) if life.kill else ():
            yield _with_life(scenario, n, Life(life.ops, kill))


def _at_the_end(kill: CrashPoint) -> CrashPoint:
    return CrashPoint(kill.life, END, fault=kill.fault)


def _simpler(kill: CrashPoint) -> Iterator[CrashPoint]:
    """The simplest first: after the operations, at the first hit, without a delay."""
    if kill.hook != END:
        yield _at_the_end(kill)
    if kill.occurrence > 1:
        yield replace(kill, occurrence=1)
    if kill.after_ms:
        yield replace(kill, after_ms=0)


# Clients.


def _one_at_a_time(scenario: Scenario, order: Sequence[int]) -> Iterator[Scenario]:
    """All operations by client 1: as they were invoked, with and without the pauses, and as the script has them."""
    invoked = {step: n for n, step in enumerate(order)}
    recorded = replace(scenario, lives=tuple(Life(_in_order(life.ops, invoked), life.kill) for life in scenario.lives))
    for ordered in (recorded, scenario):
        alone = _renumbered(scenario, ordered.lives, dict.fromkeys(range(1, scenario.clients + 1), 1))
        yield _only(alone, {op.step for op in alone.operations})
        yield alone


def _in_order(ops: tuple[Op, ...], invoked: dict[int, int]) -> tuple[Op, ...]:
    """By the order of invocation. What never was invoked, a pause too, goes where its client's next one is."""
    places: dict[int, int] = {}
    next_of: dict[int, int] = {}
    for op in reversed(ops):
        next_of[op.client] = invoked.get(op.step, next_of.get(op.client, len(invoked)))
        places[op.step] = next_of[op.client]
    return tuple(sorted(ops, key=lambda op: places[op.step]))


def _fewer_clients(scenario: Scenario) -> Iterator[Scenario]:
    """All operations by one client; those of two by one; and no client that does nothing."""
    used = sorted({op.client for life in scenario.lives for op in life.ops})
    yield _renumbered(scenario, scenario.lives, dict.fromkeys(used, 1))
    for taker, given in combinations(used, 2):
        yield _renumbered(scenario, scenario.lives, {given: taker})
    yield _renumbered(scenario, scenario.lives, {})


def _renumbered(scenario: Scenario, lives: Sequence[Life], instead: Mapping[int, int]) -> Scenario:
    """The operations of a client by the one that is named instead of it; those that are left are counted from 1."""
    clients = {op.client: instead.get(op.client, op.client) for life in lives for op in life.ops}
    number = {client: n for n, client in enumerate(sorted(set(clients.values())), 1)}
    moved = tuple(Life(tuple(replace(op, client=number[clients[op.client]]) for op in li.ops), li.kill) for li in lives)
    return replace(scenario, clients=max(1, len(number)), lives=moved)


# Operations.


def _concerning(scenario: Scenario, about: int) -> Iterator[Scenario]:
    """What has to do with one operation: the same thing, also what was created beside it, also all that it names."""
    operation = next((op for op in scenario.operations if op.step == about), None)
    if operation is None:
        return
    ops, makers = scenario.operations, _makers(scenario)
    mentioned = Counter(thing for op in ops for thing in _things(op))
    shared = {thing for thing in _things(operation) if mentioned[thing] > 1}
    # The one that the fewest mention says most.
    narrowest = {min(shared, key=lambda thing: (mentioned[thing], thing))} if shared else set()
    alike = operation.op if len(shared) < 2 else None

    def same_thing(op: Op) -> bool:
        return bool(narrowest & _things(op)) and alike in (op.op, None)

    def beside_it(op: Op) -> bool:
        return same_thing(op) or (bool(shared & _things(op)) and bool(_made(op, makers)))

    def all_named(op: Op) -> bool:
        return bool(shared & _things(op))

    for kept in (same_thing, beside_it, all_named):
        steps = {op.step for op in ops if kept(op) or op.step == about}
        needed = {thing for op in ops if op.step in steps for thing in _things(op)}
        steps |= {op.step for op in ops if _made(op, makers) & needed}
        yield _only(scenario, steps)


def _fewer_operations(search: _Search) -> None:
    """ddmin: leave out ever smaller parts, at last each operation alone, until none can be left out.

    Only complements are tried. A part alone hardly ever holds both the operation that a fault needs and the one that
    shows it, and with two parts each is the other's complement.
    """
    parts = 2
    while not search.exhausted and (steps := [op.step for life in search.best.lives for op in life.ops]):
        parts = min(parts, len(steps))
        chunks = _split(steps, parts)
        if search.improve(c for chunk in chunks for c in _without(search.best, set(chunk))):
            parts = max(parts - 1, 2)
        elif parts == len(steps):
            return
        else:
            parts *= 2


def _split(steps: Sequence[int], parts: int) -> list[Sequence[int]]:
    """Into so many parts of about the same size, none empty."""
    bounds = [len(steps) * n // parts for n in range(parts + 1)]
    return [steps[a:b] for a, b in pairwise(bounds)]


def _without(scenario: Scenario, gone: set[int]) -> Iterator[Scenario]:
    """Without these steps and what makes no sense without them; then, should it fail only so, without these alone.

    A kill that counts strikes elsewhere if fewer operations come before it, so each is offered with a lower count too.
    """
    orphans = _orphans(scenario, gone) - _orphans(scenario, set())
    steps = {op.step for life in scenario.lives for op in life.ops}
    for kept in (steps - gone - orphans, steps - gone):
        less = _only(scenario, kept)
        yield less
        fewer = zip(scenario.lives, less.lives, strict=True)
        yield replace(less, lives=tuple(Life(now.ops, _lowered(then, now)) for then, now in fewer))


def _lowered(then: Life, now: Life) -> CrashPoint | None:
    """The kill at a count in proportion to the operations that are left."""
    if now.kill is None or now.kill.occurrence <= 1 or len(now.ops) == len(then.ops):
        return now.kill
    return replace(now.kill, occurrence=max(1, now.kill.occurrence * len(now.ops) // len(then.ops)))


def _orphans(scenario: Scenario, gone: set[int]) -> set[int]:
    """Steps that speak of a thing that no life up to theirs creates, if `gone` are left out."""
    makers = _makers(scenario)
    created: set[Thing] = set()
    found = set()
    for life in scenario.lives:
        ops = [op for op in life.ops if op.step not in gone]
        # By any client at any time in the life: the clients run side by side. What is made within a thing needs it.
        before = None
        while before != created:
            before = set(created)
            created |= {thing for op in ops for thing in _made(op, makers) if _things(op) - _made(op, makers) <= before}
        found |= {op.step for op in ops if not _things(op) <= created}
    return found


def _makers(scenario: Scenario) -> dict[Thing, str]:
    """Of each thing the operation that creates it: the script itself tells, by what the first to name it is."""
    makers: dict[Thing, str] = {}
    for op in sorted(scenario.operations, key=lambda op: op.step):
        for thing in _things(op):
            makers.setdefault(thing, op.op)
    return makers


def _things(op: Op) -> set[Thing]:
    """What it names."""
    return {(key, json.dumps(value)) for key, value in op.args.items()} if op.op != PAUSE else set()


def _made(op: Op, makers: Mapping[Thing, str]) -> set[Thing]:
    return {thing for thing in _things(op) if makers[thing] == op.op}


def _only(scenario: Scenario, steps: set[int]) -> Scenario:
    """The operations of these steps."""
    lives = (Life(tuple(op for op in life.ops if op.step in steps), life.kill) for life in scenario.lives)
    return replace(scenario, lives=tuple(lives))


def _with_life(scenario: Scenario, n: int, life: Life) -> Scenario:
    return replace(scenario, lives=(*scenario.lives[:n], life, *scenario.lives[n + 1 :]))
