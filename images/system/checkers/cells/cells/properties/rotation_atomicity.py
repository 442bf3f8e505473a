"""A rotation is visible entirely or not at all: parent closed, child there, summary in it."""

from __future__ import annotations

from verifier.cells.case import Case
from verifier.cells.model import COMPACTED, compare
from verifier.finding import Check

ENOUGH = 50  # acknowledged rotations before the kill


def check(case: Case) -> Check:
    """At every look. Too short a story counts no fact; but what is half is half."""
    check = Check()
    if case.sound(check):
        _no_half(case, check)
        compare(case, check)
    if case.story.before_first_death("rotate") < ENOUGH and check.differs is None:
        return Check()
    return check


def _no_half(case: Case, check: Check) -> None:
    """Whatever the history says: no parent closed by compaction without its child, no child of an open parent."""
    sessions = {name: (parent, closed) for name, parent, closed in case.view("sessions")}
    parents = {parent for parent, _ in sessions.values()}
    for name, (parent, closed) in sessions.items():
        if closed == COMPACTED:
            why = "half a rotation: the parent is closed and nothing continues it"
            check.holds(name in parents, f"sessions[{name}]", "a child that continues it", "none", why)
        if parent is not None:
            there = sessions.get(parent, (None, "no such session"))[1] or "open"
            why = "half a rotation: the child is there and its parent is not closed"
            check.same(f"sessions[{name}].parent.closed", COMPACTED, there, why)
