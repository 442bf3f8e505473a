"""One prompt: what was asked about it, where it was seen, and so what may still become of it.

A prompt waits, then runs, then is in the log; or it is taken away while it waits, and then is nowhere, for good. An
answer says where it was at one instant between its request and itself.

A turn that was about to begin at a kill may wait again after it, if it has not begun: the ledger tells whether it ran
twice. Nothing else goes back.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Any, NamedTuple

from verifier.fuzz.history import FAIL, NEVER, OK, Request, cut


class Place(IntEnum):
    """Where a prompt is; it only goes up."""

    WAITS = 1
    RUNS = 2
    LOGGED = 3


TOLD = {Place.WAITS: "waits", Place.RUNS: "runs", Place.LOGGED: "is in the log"}


class Sighting(NamedTuple):
    """An answer that showed the prompt."""

    begin: float
    end: float
    life: int
    place: Place
    outcome: str  # as logged, else ""


class Prompt:
    """All sends and removals are told first; then what was seen, in the order in which it was answered."""

    def __init__(self, chat: str, name: str, first_run: float) -> None:
        """`first_run` is the place of the first ledger that has its run, or NEVER."""
        self.chat = chat
        self.name = name
        self.sends: list[Request] = []
        self.removals: list[Request] = []
        self.sightings: list[Sighting] = []
        self._first_run = first_run
        self._absences: list[tuple[float, float]] = []  # begin and end of answers by which it was nowhere
        self._not_waiting: list[tuple[float, int]] = []  # end and life of answers by which it ran, or had run

    @property
    def called(self) -> str:
        """Its name, for a finding."""
        return cut(self.name)

    def told(self, request: Request) -> str:
        """As a finding calls it: by its send, or by the answer that shows it if nobody sent it."""
        return self.sends[0].who if self.sends else f"{request.who} {self.called}"

    @property
    def landed(self) -> float:
        """Place by which it is known to have been accepted."""
        acknowledged = (r.end for r in self.sends if r.outcome == OK)
        return min([*acknowledged, *(s.end for s in self.sightings), self._first_run], default=NEVER)

    def sent(self, before: float) -> list[Request]:
        """The sends that were invoked before this place."""
        return [r for r in self.sends if r.begin < before]

    def explained(self, begin: float, end: float) -> bool:
        """Can a send have put it where an answer from `begin` to `end` shows it?"""
        return any(not r.failed for r in self.sent(end)) and not self._forgotten(begin, end)

    def _forgotten(self, begin: float, end: float) -> bool:
        """An earlier answer showed that it is nowhere, for good.

        It had landed by then, and is gone; or it had not, and all that was sent before `end` had landed or never will.
        """
        sent = self.sent(end)
        return any(
            self.landed < absent or all(r.failed or r.lands < absent for r in sent)
            for absent, until in self._absences
            if until < begin
        )

    def certain_removals(self) -> list[Request]:
        """Those that were answered `removed: true`: it waited, and from then on it must be nowhere."""
        return [r for r in self.removals if removed(r) is True]

    def excuse(self, end: float) -> Request | None:
        """A removal by which it may be nowhere in an answer that ended there.

        `removed: false` and an error excuse nothing, and neither does one without an answer once it is known that
        it did not land: the prompt was seen after the end of its life, or it ran.
        """
        may_be = (r for r in self.removals if r.begin < end and removed(r) is not False)
        return next((r for r in may_be if not self._did_not_land(r)), None)

    def _did_not_land(self, removal: Request) -> bool:
        return any(
            s.begin > removal.lands or s.place == Place.LOGGED or (s.place == Place.RUNS and s.life >= removal.life)
            for s in self.sightings
        )

    def see(self, request: Request, place: Place, outcome: str = "") -> None:
        self.sightings.append(Sighting(request.begin, request.end, request.life, place, outcome))

    def see_nowhere(self, request: Request) -> None:
        self._absences.append((request.begin, request.end))

    def see_not_waiting(self, request: Request) -> None:
        """It is not in the queue: if it had landed, and no removal may have taken it, its turn has begun."""
        if self.landed < request.begin and self.excuse(request.end) is None:
            self._not_waiting.append((request.end, request.life))

    def taken_away(self, request: Request, place: Place) -> Request | None:
        """The removal by which it cannot be there any more.

        What was taken away while it waited has never run before either: but for a turn that a kill kept from
        beginning.
        """
        for removal in self.certain_removals():
            ran = place == Place.LOGGED or (place == Place.RUNS and request.life >= removal.life)
            if removal is not request and (removal.end < request.begin or ran):
                return removal
        return self.excuse(request.begin) if self._forgotten(request.begin, request.end) else None

    def taken_away_at_last(self) -> Request | None:
        """The removal by which it never runs."""
        certain = self.certain_removals()
        if certain:
            return certain[0]
        return self.excuse(NEVER) if self._forgotten(NEVER, NEVER) else None

    def out_of_order(self, request: Request, place: Place, outcome: str) -> str:
        """Why it cannot be there, by where it has been before; empty if it can."""
        for seen in self.sightings:
            if seen.end < request.begin:
                if seen.place == Place.LOGGED and place != Place.LOGGED:
                    return f"it {TOLD[place]}, but its turn had ended before: it was logged as {seen.outcome}"
                if seen.place == Place.RUNS and place == Place.WAITS and seen.life == request.life:
                    return "it waits, but its turn had begun before in this life"
            if seen.place == place == Place.LOGGED and seen.outcome != outcome:
                return f"it is logged as {outcome}, but was logged as {seen.outcome} before"
        if place == Place.WAITS and any(e < request.begin and life == request.life for e, life in self._not_waiting):
            return "it waits, but an answer before said that it does not, in this life"
        if outcome == "unknown" and all(r.failed or r.life >= request.life for r in self.sends):
            return "its outcome is unknown, but no kill can have cut its turn: it was sent after the last one"
        return ""


def removed(request: Request) -> Any:
    """What is known of a removal: True, False, or None if it may have landed."""
    if request.outcome == FAIL:
        return False
    answer = request.answer.get("removed") if request.outcome == OK and isinstance(request.answer, dict) else None
    return answer if isinstance(answer, bool) else None
