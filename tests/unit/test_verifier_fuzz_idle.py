"""The fuzz oracle on what `status` says of being idle: what a daemon that lies leaves, and what one may rightly say.

Found by planting: a daemon that never said that it is idle passed every trial, and one that always said so was seen
only where its last check came too early.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from fuzz_history import LIMITS, History, chat, logged
from fuzz_mutant import Rule

SETTLE_MS = 1000 * LIMITS["settle_s"]


def prompted() -> History:
    return History().ok("chat/new", chat="c1").ok("prompt/send", chat="c1", prompt="p2", text="reply 1")


def ran(history: History) -> History:
    """It runs agents: p2 is seen in the log."""
    return history.ok("chat/read", chat(log=logged("p2")), chat="c1")


def idle(history: History, said: bool = True) -> History:
    return history.ok("status", {"idle": said})


def queued_behind_idle() -> History:
    return ran(idle(prompted()).ok("queue/list", {"queue": ["p2"]}, chat="c1"))


def running_behind_idle() -> History:
    return ran(idle(prompted()).ok("chat/read", chat(running="p2"), chat="c1"))


def undelivered_behind_idle() -> History:
    return idle(History().ok("outbox/send", message="m1", text="")).kill().ledger().start()


def never_idle(still_ms: float = 0) -> History:
    """All is done, and it does not say so for as long as it may take."""
    history = History().wait(SETTLE_MS - still_ms)
    history = history.still(still_ms) if still_ms else history
    return history.ok("status", {"idle": False}, client=0, step=0).finish({}, idle=False)


FAULTS = (
    Rule("idle, and a prompt waits", queued_behind_idle, "answers-in-time", "idle",
         "if before and seen.place != Place.LOGGED:", "if False:"),
    Rule("idle, and a prompt runs", running_behind_idle, "answers-in-time", "idle",
         "if before and seen.place != Place.LOGGED:", "if False:"),
    Rule("idle, and a message is not delivered", undelivered_behind_idle, "answers-in-time", "idle",
         "if before:\n", "if False:\n"),
    Rule("it never says that it is idle", never_idle, "answers-in-time", "idle",
         "settled.idle or machine", "True"),
    Rule("it never says so, and the machine stood still a little", lambda: never_idle(LIMITS["answer_ms"] - 1),
         "answers-in-time", "idle", "still > limits[\"answer_ms\"]", "still"),
    Rule("the machine had not the time", lambda: never_idle(LIMITS["answer_ms"] + 1), "machine-kept-up", "idle",
         "not machine, fact", "True, fact"),
)  # fmt: skip


@pytest.mark.parametrize("fault", FAULTS, ids=str)
def test_a_fault_is_seen(fault: Rule) -> None:
    """Each history is what such a daemon leaves."""
    assert fault.seen()


@pytest.mark.parametrize("fault", FAULTS, ids=str)
def test_without_its_rule_a_fault_is_not_seen(fault: Rule, tmp_path: Path) -> None:
    """No rule of the oracle is there for nothing."""
    assert not fault.seen(by=fault.mutant(tmp_path))


def sent_beside_status() -> History:
    """Which of the two came first is not known."""
    history = History().ok("chat/new", chat="c1")
    sends = history.invoke("prompt/send", chat="c1", prompt="p2", text="")
    history = history.answer(history.invoke("status", client=2), {"idle": True}).answer(sends)
    return ran(history.ok("queue/list", {"queue": ["p2"]}, chat="c1"))


def delivered_beside_status() -> History:
    history = History().ok("outbox/send", message="m1", text="")
    asks = history.invoke("status")
    return history.ledger().answer(asks, {"idle": True}).kill().ledger("message:m1").start()


SOUND = {
    "a prompt is sent beside the question": sent_beside_status,
    "a prompt waits when it says that it is not idle": lambda: ran(
        idle(prompted(), False).ok("queue/list", {"queue": ["p2"]}, chat="c1")),
    "a prompt is in the log when it is idle": lambda: ran(idle(prompted())),
    "a daemon without agents is idle though prompts wait": lambda: idle(prompted()).ok(
        "queue/list", {"queue": ["p2"]}, chat="c1").finish({"c1": chat(queue=["p2"])}),
    "a message is delivered beside the question": delivered_beside_status,
    "a message of which it was never said to be taken": lambda: idle(
        History().info("outbox/send", "closed", message="m1", text="")).kill().ledger().start(),
    "a prompt waits again after a kill that kept its turn from beginning": lambda: ran(idle(prompted()).restart(
        {"c1": chat(queue=["p2"])})),
    "the machine stood still while it was to get idle": lambda: never_idle(LIMITS["answer_ms"] + 1),
}  # fmt: skip


@pytest.mark.parametrize("says", SOUND)
def test_what_a_daemon_may_say_is_no_fault(says: str) -> None:
    """Only what contradicts it for certain is a difference."""
    broken = SOUND[says]().broken()
    assert "idle" not in broken.get("answers-in-time", ""), broken


def test_a_lie_names_the_status_that_told_it() -> None:
    """A person looks for the request that was answered wrongly, not for the prompt."""
    why = queued_behind_idle().broken()["answers-in-time"]
    assert "by step=3 op=status" in why
    assert "p2 waits after that" in why
