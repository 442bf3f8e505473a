"""A register: one thing that is written and read back, and the set of values that may be there.

Every answer is evidence. A write may explain a reading if it was invoked before the reading ended, was not answered
with an error, and has not been *superseded*: by a write that was acknowledged before the reading began and invoked
after this one had landed; or by an earlier reading of another value that began after this one had landed. So a
reading weighs as much as an acknowledged write, and a check after a kill, which comes after everything of the life
before has landed or never will, settles what was left open there: an older write without an answer can explain
nothing any more.

A write that timed out may land at any time until its life ends. Values carry the number of their step, so a reading
is matched to its write by value, never by time.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from verifier.fuzz.history import OK, Request

BEFORE = -1  # a place before every line


class Write(NamedTuple):
    """One write. `request` is None for the value that was there before any."""

    value: Any
    request: Request | None
    begin: float
    lands: float  # place by which it has taken effect, if it ever does
    sure: bool  # it was acknowledged
    failed: bool


class Reading(NamedTuple):
    value: Any
    begin: float
    end: float


class Mismatch(NamedTuple):
    """Why a reading cannot be: what may be there instead, the write that is missed, and a sentence for people."""

    expected: list[Any]
    missed: Request | None
    why: str


class Register:
    """All writes are told first; then readings are judged in the order in which they ended."""

    def __init__(self, initial: Any) -> None:
        self._writes = [Write(initial, None, BEFORE, BEFORE, sure=True, failed=False)]
        self._readings: list[Reading] = []

    def write(self, value: Any, request: Request) -> None:
        """This request writes this value, if it is carried out."""
        sure = request.outcome == OK
        self._writes.append(Write(value, request, request.begin, request.lands, sure, request.failed))

    def may_write(self, value: Any, request: Request) -> None:
        """This request may write this value, and need not, even where it was acknowledged."""
        self._writes.append(Write(value, request, request.begin, request.lands, sure=False, failed=request.failed))

    def written(self, before: float) -> bool:
        """Has a write been invoked before this place that may have landed?"""
        return any(w.begin < before and not w.failed for w in self._writes[1:])

    def read(self, value: Any, begin: float, end: float) -> Mismatch | None:
        """Judge one reading: None if a write explains it. One that none does settles nothing."""
        possible = [w for w in self._writes if self._possible(w, begin, end)]
        if any(w.value == value for w in possible):
            self._readings.append(Reading(value, begin, end))
            return None
        missed = max((w for w in possible if w.request is not None), key=lambda w: w.begin, default=None)
        expected = list(dict.fromkeys(w.value for w in possible))
        return Mismatch(expected, missed.request if missed else None, self._why(value, end))

    def _possible(self, write: Write, begin: float, end: float) -> bool:
        """May a reading from `begin` to `end` see this write?"""
        return write.begin < end and not write.failed and not self._superseded(write, begin)

    def _superseded(self, write: Write, begin: float) -> bool:
        return any(w.sure and w.begin > write.lands and w.lands < begin for w in self._writes) or any(
            r.value != write.value and r.begin > write.lands and r.end < begin for r in self._readings
        )

    def _why(self, value: Any, end: float) -> str:
        """What the value that was found is, as far as the writes tell."""
        same = [w for w in self._writes if w.value == value and w.begin < end]
        tried = [w.request for w in same if w.request is not None]
        if not same:
            return "nobody has written it"
        if all(w.failed for w in same) and tried:
            return f"{tried[-1].who} wrote it and was answered that it did not happen"
        if tried:
            return f"it is older: {tried[-1].who} wrote it, and what came after it is known to have landed"
        return "it is as it was before anything was written"
