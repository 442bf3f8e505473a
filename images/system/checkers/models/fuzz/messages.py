"""Each acknowledged message is delivered exactly once, and none twice: by the ledger, the only one who saw it.

Property: `outbox-once`. A message without an answer is delivered once or not; one that was refused never is. At the
final check, whether the daemon got idle or not, each that was acknowledged must have been delivered.
"""

from __future__ import annotations

from collections import defaultdict

from verifier.fuzz.history import CHECK, OK, Request, Story
from verifier.fuzz.prompts import RUN
from verifier.fuzz.shapes import OUTBOX, Checks, brief

MESSAGE = "message:"  # the ledger's effect of a delivery


def judge_messages(story: Story, checks: Checks) -> None:
    """Raises ValueError if the lab took no snapshot of the ledger after the operations had ended."""
    check = checks[OUTBOX]
    deliveries = story.effects(MESSAGE)
    sends: defaultdict[str, list[Request]] = defaultdict(list)
    for request in story.requests:
        if request.op == "outbox/send":
            sends[request.args["message"]].append(request)
    ended = story.settled is not None
    if sends and story.settled is not None and story.last_ledger < story.settled.place:
        raise ValueError("the history has no snapshot of the ledger after the operations had ended")
    for name, sent in sends.items():
        times, fact = deliveries.get(name, 0), f"{sent[0].who} deliveries"
        check.holds(times <= 1, fact, "at most 1", times, f"{name} was delivered {times} times")
        if all(r.failed for r in sent):
            why = f"{name} was delivered, but {sent[-1].who} was answered that it did not happen"
            check.holds(times == 0, fact, 0, times, why)
        if ended and any(r.outcome == OK for r in sent):
            check.holds(times >= 1, fact, 1, times, f"{name} was acknowledged, but at the end it was not delivered")
    for name in sorted(deliveries.keys() - sends.keys()):
        fact = f"step={CHECK} op=outbox/send {brief(name)} deliveries"
        check.holds(False, fact, 0, deliveries[name], f"{brief(name)} was delivered, and nobody sent it")
    for effect in story.other_effects(RUN, MESSAGE):
        fact, why = f"step={CHECK} op=outbox/send effect", f"the ledger saw {brief(effect)}, for which nobody asked"
        check.holds(False, fact, "turns and deliveries", brief(effect), why)
