"""Two independent recovery passes over the same state see the same: byte-identical transcripts.

A transcript is the canonical JSON of all views. The verifier's own SQLite makes two passes over copies of its own, at
each look; and what the store's recovery left is compared with what an earlier look of the trial saw, if nothing was
asked of the store between them. What a start may change is the state of hand-offs and deliveries, never a session or a
message.
"""

from __future__ import annotations

from verifier.cells.case import Case, Earlier
from verifier.cells.views import Store, read
from verifier.finding import Check

LASTING = ("sessions", "messages")  # what no start may change


def check(case: Case) -> Check:
    """At every look. Raises ValueError if an earlier look is missing, for then half of this was not checked."""
    check = Check()
    if not case.sound(check):
        return check
    views = tuple(case.views.selects)
    # The second copy is recovered twice: what a recovery leaves is recovered to the same.
    again = read(case.files, case.views, recoveries=2)
    _same(check, "a second recovery of the same copy", case.store, again, views)
    if case.look != "killed" and case.story.died and not case.earlier:
        raise ValueError("the looks before this one are missing: recovery-determinism compares with them")
    for number, earlier in enumerate(case.earlier, start=1):
        if _nothing_asked_since(case, earlier):
            if earlier.files is None:
                raise ValueError(f"look {number} was too large to be kept: recovery-determinism compares with it")
            both_recovered = earlier.look == case.look == "recovered"
            name = f"look {number} ({earlier.look})"
            before = read(earlier.files, case.views)
            _same(check, name, before, case.store, views if both_recovered else _present(case, LASTING))
    return check


def _present(case: Case, views: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(view for view in views if view in case.views.selects)


def _nothing_asked_since(case: Case, earlier: Earlier) -> bool:
    """Between the two looks nothing but starts and deaths; an answer that was still open then is none any more."""
    since = case.history[earlier.history :]
    return all(event.get("died") or event.get("op") == "open" for event in since)


def _same(check: Check, name: str, before: Store, after: Store, views: tuple[str, ...]) -> None:
    """Compare the rows, one fact each, and then the bytes."""
    why = f"{name} and this one saw the same store, and nothing was asked of it in between"
    for view in views:
        rows, others = before.rows.get(view, ()), after.rows.get(view, ())
        for at in range(max(len(rows), len(others))):
            row = list(rows[at]) if at < len(rows) else "no row"
            other = list(others[at]) if at < len(others) else "no row"
            check.same(f"{view}[{at}]", row, other, why)
    same = before.transcript(views) == after.transcript(views)
    check.holds(same, "transcript", f"the bytes of {name}", "others", why)
