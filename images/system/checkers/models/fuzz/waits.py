"""Every request is answered in time while the daemon is up; and was it the daemon or the machine that stood still?

Properties: `answers-in-time`, `machine-kept-up`. A request that the kill cut has waited until the kill, and one
that timed out until its timeout. One over the limit that would have been within it but for the time that the
machine stood still says nothing of the daemon. A check's own requests count like all others; one from before the
daemon was up does not.
"""

from __future__ import annotations

from verifier.fuzz.history import CLOSED, INFO, NEVER, NONE, Request, Still, Story
from verifier.fuzz.shapes import ANSWERS, MACHINE, Checks


def judge_waits(story: Story, limit_ms: float, checks: Checks) -> None:
    for request in story.requests:
        if request.outcome == NONE or request.begin < story.ups.get(request.life, NEVER):
            continue
        waited_ms = request.ended_ms - request.began_ms
        still_ms = stood_still_ms(request.began_ms, request.ended_ms, story.stills) if waited_ms > limit_ms else 0.0
        told = f"{request.who} waited {waited_ms:.0f} ms ({_ended(request)})"
        machine = waited_ms > limit_ms and waited_ms - still_ms <= limit_ms
        expected, found = f"at most {limit_ms:.0f} ms", f"{waited_ms:.0f} ms"
        why = f"{told}, of which the machine stood still for {still_ms:.0f} ms"
        checks[MACHINE].holds(not machine, f"{request.who} wait", expected, found, why)
        if request.outcome == INFO and request.answer == CLOSED:
            why = f"{request.who} got no answer: the daemon lives, but closed the connection or answered no protocol"
            checks[ANSWERS].holds(False, f"{request.who} answer", "an answer", CLOSED, why)
        else:
            slow = waited_ms > limit_ms and not machine
            checks[ANSWERS].holds(not slow, f"{request.who} wait", expected, found, f"{told}: over {limit_ms:.0f} ms")


def _ended(request: Request) -> str:
    return f"no answer: {request.answer}" if request.outcome == INFO else "answered"


def stood_still_ms(began_ms: float, ended_ms: float, stills: tuple[Still, ...]) -> float:
    """How long the machine stood still between the two."""
    overlaps = (min(s.ended_ms, ended_ms) - max(s.began_ms, began_ms) for s in stills)
    return sum(overlap for overlap in overlaps if overlap > 0)
