"""After a rewind or an edit, exactly the chosen prefix is there, and the abandoned branch does not come back."""

from __future__ import annotations

from itertools import pairwise

from verifier.cells.case import Case
from verifier.cells.model import compare
from verifier.finding import Check


def check(case: Case) -> Check:
    """At every look. Without a fork that may have happened there is nothing to see."""
    check = Check()
    if case.sound(check):
        _ordered(case, check)
        compare(case, check)
    forks = [op for op in case.story.named("rewind", "edit") if op.boot > 0 and op.may_have_happened]
    return check if forks or check.differs is not None else Check()


def _ordered(case: Case, check: Check) -> None:
    """Positions only grow within a session: two rows in one place are two branches at once."""
    places = [(session, position) for session, position, _, _ in case.view("messages")]
    for (session, before), (other, position) in pairwise(places):
        if session == other:
            fact, why = f"messages[{session}] position", "one place of a session holds one active message"
            check.holds(position > before, fact, f"more than {before}", position, why)
