"""What was persisted always loads: every row is whole and of the right kind, and points at what is there.

No half-written state that only fails when somebody loads it.
"""

from __future__ import annotations

import re
from typing import Any

from verifier.cells.case import Case
from verifier.cells.story import expand
from verifier.finding import Check

ITEM_STATES = ("parked", "claimed", "done")
DELIVERY_STATES = ("pending", "attempting", "delivered", "failed", "abandoned")
SURROGATE = re.compile("[\ud800-\udfff]")  # how a byte that is no UTF-8 was read
WHY = "what was persisted always loads"


def check(case: Case) -> Check:
    """At every look."""
    check = Check()
    if not case.sound(check):
        return check
    sessions = _sessions(case, check)
    _messages(case, check, sessions)
    for view, states in (("items", ITEM_STATES), ("deliveries", DELIVERY_STATES)):
        if view in case.views.selects:
            for name, state, *_ in case.view(view):
                check.holds(state in states, f"{view}[{name}].state", " or ".join(states), state, WHY)
                _text(check, f"{view} name", name)
    return check


def _sessions(case: Case, check: Check) -> set[Any]:
    rows = case.view("sessions")
    names = {name for name, _, _ in rows}
    check.same("sessions", len(rows), len(names), "each session is there once")
    for name, parent, closed in rows:
        _text(check, f"sessions[{name}]", name)
        check.holds(parent is None or parent in names, f"sessions[{name}].parent", "a session", parent, WHY)
        check.holds(isinstance(closed or "", str), f"sessions[{name}].closed", "a text", closed, WHY)
    return names


def _messages(case: Case, check: Check, sessions: set[Any]) -> None:
    """A content that nobody wrote is one that was half written."""
    written = _contents(case)
    for session, position, role, content in case.view("messages"):
        fact = f"messages[{session}] at {position}"
        check.holds(session in sessions, fact, "a session that is there", session, WHY)
        check.holds(type(position) is int, f"{fact}: position", "an integer", position, WHY)
        _text(check, f"{fact}: role", role)
        if _text(check, f"{fact}: content", content):
            why = "a content is whole, and one that was asked for"
            check.holds(content in written, f"{fact}: content", "one of the workload's", content, why)


def _contents(case: Case) -> set[str]:
    """Every content that was asked for."""
    ops = [op.do for op in case.story.ops]
    ops += expand([*case.workload["work"], *case.workload["resume"]])
    return {op[key] for op in ops for key in ("content", "summary") if key in op}


def _text(check: Check, fact: str, value: Any) -> bool:
    whole = isinstance(value, str) and not SURROGATE.search(value)
    return check.holds(whole, fact, "a text in UTF-8", ascii(value), WHY)
