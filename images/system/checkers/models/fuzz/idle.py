"""What `status` says of being idle, held against what else was seen: "nothing is queued, running or undelivered".

Property: `answers-in-time`, which promises `status`. Only what contradicts it for certain is a difference: a prompt
that had been accepted before, and waits or runs later in the same life; a message that was acknowledged before, and
is not in a later snapshot of the ledger. And a daemon that never says it, though it had its time, keeps whoever
waits for it waiting for ever.
"""

from __future__ import annotations

from collections.abc import Iterable

from verifier.fuzz.history import CHECK, OK, Request, Story, cut
from verifier.fuzz.messages import MESSAGE
from verifier.fuzz.prompt import TOLD, Place, Prompt
from verifier.fuzz.shapes import ANSWERS, MACHINE, Checks
from verifier.fuzz.waits import stood_still_ms


def judge_idle(story: Story, prompts: Iterable[Prompt], limits: dict[str, float], checks: Checks) -> None:
    """`prompts` are those of a daemon that runs agents: of another they wait for ever, and it is idle all the same."""
    said = [r for r in story.answered if r.op == "status" and r.outcome == OK and _idle(r) is True]
    for prompt in prompts:
        _judge_prompt(prompt, said, checks)
    _judge_messages(story, said, checks)
    _judge_end(story, limits, checks)


def _idle(status: Request) -> object:
    return status.answer.get("idle") if isinstance(status.answer, dict) else None


def _judge_prompt(prompt: Prompt, said: list[Request], checks: Checks) -> None:
    """What only goes up, from waiting to the log, and is not there yet, was not there before."""
    for seen in prompt.sightings:
        before = [r for r in said if r.life == seen.life and prompt.landed < r.begin and r.end < seen.begin]
        if before and seen.place != Place.LOGGED:
            why = f"{before[-1].where} it said that it is idle, but {prompt.called} {TOLD[seen.place]} after that"
            checks[ANSWERS].holds(False, f"{before[-1].who} idle", "false", "true", why)
            return


def _judge_messages(story: Story, said: list[Request], checks: Checks) -> None:
    for send in story.requests:
        if send.op != "outbox/send" or send.outcome != OK:
            continue
        name = send.args["message"]
        first = story.first_seen(MESSAGE + name)
        missing = [ledger.place for ledger in story.ledgers if ledger.place < first]
        before = [r for r in said if missing and send.end < r.begin and r.end < missing[-1]]
        if before:
            why = f"{before[0].where} it said that it is idle, but {cut(name)} was not delivered by then"
            checks[ANSWERS].holds(False, f"{before[0].who} idle", "false", "true", why)


def _judge_end(story: Story, limits: dict[str, float], checks: Checks) -> None:
    """It had `settle_s` to get idle; a machine that stood still for longer than an answer may take had not."""
    settled = story.settled
    if settled is None:
        return
    asked = [r for r in story.requests if r.op == "status" and r.step == CHECK and r.end < settled.place]
    limit_ms = 1000 * limits["settle_s"]
    ended_ms = asked[-1].ended_ms if asked else 0.0
    still = stood_still_ms(ended_ms - limit_ms, ended_ms, story.stills)
    machine = not settled.idle and still > limits["answer_ms"]
    fact, found = f"step={CHECK} op=status idle", "true" if settled.idle else "false"
    expected = f"true within {limit_ms:.0f} ms"
    why = f"it never said that it is idle, for {limit_ms:.0f} ms after the last operation"
    checks[MACHINE].holds(
        not machine, fact, expected, found, f"{why}, of which the machine stood still for {still:.0f} ms"
    )
    checks[ANSWERS].holds(settled.idle or machine, fact, expected, found, why)
