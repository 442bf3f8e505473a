"""A parked hand-off is claimed by exactly one of N racers, and by nobody twice; and no crash leaves it in limbo.

A claim dies with its boot: whoever made it is gone, so the next boot must be able to claim the item again. Whether it
can is seen by the claim that the workload's `resume` makes: a store may reap at its start, or when it is asked.
"""

from __future__ import annotations

from typing import NamedTuple

from verifier.cells.case import Case
from verifier.cells.racing import LOST, WON, exit_codes
from verifier.cells.story import DONE, Op
from verifier.finding import Check

State = tuple[str, str | None]  # as the view has it: state, owner
ABSENT: State = ("absent", None)
PARKED: State = ("parked", None)
FINISHED: State = ("done", None)


class Claim(NamedTuple):
    """One attempt to claim. `won` is None where no answer came."""

    who: str
    by: str
    won: bool | None


def check(case: Case) -> Check:
    """At every look. Without a claim that may have happened there is nothing to see."""
    check = Check()
    if case.sound(check):
        rows = {item: (state, owner) for item, state, owner in case.view("items")}
        exit_codes(case, check)
        for item in sorted({op.do["item"] for op in case.story.named("park", "claim", "finish")}):
            states = _follow(case, check, item)
            found = rows.get(item, ABSENT)
            wanted = " or ".join(sorted(_told(state) for state in states))
            why = "what its claims and finishes were answered"
            check.holds(any(_fits(found, state) for state in states), f"items[{item}]", wanted, _told(found), why)
    claims = [op for op in case.story.named("claim", "race_processes") if op.boot > 0 and op.may_have_happened]
    return check if claims or check.differs is not None else Check()


def _follow(case: Case, check: Check, item: str) -> set[State]:
    """The states that the answers allow in the end, boot by boot: within one, an item is parked, claimed, finished."""
    states: set[State] = {ABSENT}
    for boot in range(case.story.boots + 1):
        if boot > 0:
            states = _orphaned(states)
        ops = [op for op in case.story.ops if op.boot == boot and op.may_have_happened]
        states = _parked([op for op in ops if op.name == "park" and op.do["item"] == item], states)
        claims = [c for op in ops for c in _claims(case, op, item)]
        states = _claimed(check, item, claims, states)
        states = _finished([op for op in ops if op.name == "finish" and op.do["item"] == item], states)
    # Recovery has begun, though nothing has been heard of it yet.
    return _orphaned(states) if case.story.ends_in_death and case.look != "killed" else states


def _orphaned(states: set[State]) -> set[State]:
    """A new boot may take a dead owner's claim away, at its start or later."""
    return states | {PARKED for state, _ in states if state == "claimed"}


def _parked(parks: list[Op], states: set[State]) -> set[State]:
    for op in parks:
        states = {PARKED} if op.answer == DONE else states | {PARKED}
    return states


def _claims(case: Case, op: Op, item: str) -> list[Claim]:
    """The claims of this item that one operation makes: one, or one a racer."""
    if op.name == "claim" and op.do["item"] == item:
        return [Claim(op.who, op.do["by"], bool(op.result["won"]) if op.answer == DONE else None)]
    if op.name == "race_processes" and op.do["do"]["op"] == "claim" and op.do["do"]["item"] == item:
        by, racers = op.do["do"]["by"], range(op.do["racers"])
        codes = op.result["exits"] if op.answer == DONE else [None] * len(racers)
        outcome = {WON: True, LOST: False}
        return [Claim(f"{op.who}, racer {n}", f"{by}-{n}", outcome.get(c)) for n, c in enumerate(codes, start=1)]
    return []


def _claimed(check: Check, item: str, claims: list[Claim], states: set[State]) -> set[State]:
    """Judge the claims of one boot together: which of two racers asked first cannot be known, and does not matter."""
    if not claims:
        return states
    won = [claim for claim in claims if claim.won]
    unknown = [claim for claim in claims if claim.won is None]
    winners = " and ".join(claim.who for claim in won) or "nobody"
    fact, why = f"claims of {item}", "a hand-off is claimed by exactly one"
    check.holds(len(won) <= 1, fact, "one winner", winners, why)
    settled = states <= {ABSENT, FINISHED}
    check.holds(
        not (won and settled), fact, "no winner", winners, "there is nothing to claim: it is done, or not parked"
    )
    for claim in claims:
        if claim.won is False:
            why = "limbo: nobody holds it and it is not done, but it cannot be claimed"
            loser_has_reason = bool(won or unknown or states & {ABSENT, FINISHED})
            check.holds(loser_has_reason, f"claims of {item}: {claim.who}", "won", "lost", why)
    if won:
        return {("claimed", claim.by) for claim in won}
    if unknown:
        return states | ({("claimed", claim.by) for claim in unknown} if not settled else set())
    return states & {ABSENT, FINISHED} or states


def _finished(finishes: list[Op], states: set[State]) -> set[State]:
    for op in finishes:
        states = {FINISHED} if op.answer == DONE else states | {FINISHED}
    return states


def _fits(found: State, state: State) -> bool:
    """Who owned a done or a parked item does not matter, and a view that knows no owner shows null."""
    return found[0] == state[0] and (state[0] != "claimed" or found[1] in (None, state[1]))


def _told(state: State) -> str:
    return f"claimed by {state[1] or 'somebody'}" if state[0] == "claimed" else str(state[0])
