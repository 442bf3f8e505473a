"""Every acknowledged append survives: each session is a contiguous prefix, in order, no hole, no duplicate.

At most one unanswered append a process may be there besides, whole.
"""

from __future__ import annotations

from verifier.cells.case import Case
from verifier.cells.model import compare
from verifier.finding import Check

ENOUGH = 200  # acknowledged appends before the kill: fewer could all lie in one page or one checkpoint


def check(case: Case) -> Check:
    """At every look. Too short a story shows nothing, and counts no fact; but what it lost is lost."""
    check = Check()
    if case.sound(check):
        compare(case, check)
    if case.story.before_first_death("append") < ENOUGH and check.differs is None:
        return Check()
    return check
