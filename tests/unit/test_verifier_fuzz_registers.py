"""The fuzz oracle on chats, drafts, watches and settings, each a register, and on how long an answer takes."""

from __future__ import annotations

from pathlib import Path

import pytest
from fuzz_history import LIMITS, NO_SUCH_CHAT, History, chat
from fuzz_mutant import Rule

DISK_FULL = {"code": -32603, "message": "disk full"}
OVER_MS = LIMITS["answer_ms"] + 1


def chatted() -> History:
    return History().ok("chat/new", chat="c1")


def draft(history: History, text: str) -> History:
    return history.ok("draft/set", chat="c1", text=text)


def cut_draft(history: History, text: str) -> History:
    """A draft whose answer the kill cut: it may be there."""
    return history.info("draft/set", "cut", chat="c1", text=text).start()


def read(history: History, **fields: object) -> History:
    return history.ok("chat/read", chat(**fields), client=2, chat="c1")


def slow(ms: float) -> History:
    history = History()
    waiting = history.invoke("status")
    return history.wait(ms).answer(waiting, {"idle": True})


SUPERSEDED = "w.sure and w.begin > write.lands and w.lands < begin"
FAULTS = (
    Rule("an acknowledged chat is not listed", lambda: chatted().restart({}), "chats-durable",
         "chats", 'if request.op == "chat/list" and', 'if request.op == "" and'),
    Rule("an acknowledged chat is not there", lambda: chatted().check({"c1": None}, listed=["c1"]), "chats-durable",
         "chats", 'self._read(request, Key(EXISTS, request.args["chat"]), False)', "pass"),
    Rule("a write finds no such chat", lambda: chatted().fail("draft/set", NO_SUCH_CHAT, chat="c1", text="d2"),
         "chats-durable", "chats", 'self._read(request, Key(EXISTS, request.args["chat"]), False)', "pass"),
    Rule("a chat is listed twice", lambda: chatted().check({"c1": chat()}, listed=["c1", "c1"]), "chats-durable",
         "chats", "same(f\"{request.who} chat={cut(chat)}\", 1, times, why)", "same(\"\", 1, 1, why)"),
    Rule("a chat that nobody asked for is listed", lambda: chatted().check({"c1": chat()}, listed=["c1", "c9"]),
         "chats-durable", "chats", "dict.fromkeys([*asked, *chats])", "asked"),
    Rule("a refused chat is there", lambda: History().fail("chat/new", DISK_FULL, chat="c1").restart({"c1": chat()}),
         "chats-durable", "registers", " and not write.failed and ", " and "),
    Rule("a chat that did not land appears later", lambda: History().info("chat/new", "cut", chat="c1").start().check(
         {}, listed=[]).restart({"c1": chat()}), "chats-durable",
         "registers", "self._readings.append(Reading(value, begin, end))", "pass"),
    Rule("an acknowledged draft is lost", lambda: draft(chatted(), "d2").restart({"c1": chat()}), "drafts-durable",
         "registers", SUPERSEDED, "False"),
    Rule("an older draft comes back", lambda: draft(draft(chatted(), "d2"), "d3").restart({"c1": chat(draft="d2")}),
         "drafts-durable", "registers", SUPERSEDED, "False"),
    Rule("a draft is lost with its chat", lambda: draft(chatted(), "d2").restart({"c1": None}), "drafts-durable",
         "shapes", "return dict(NOT_THERE) if gone else {}", "return {}"),
    Rule("a draft of which nobody knows", lambda: chatted().restart({"c1": chat(draft="d9")}), "drafts-durable",
         "registers", "any(w.value == value for w in possible)", "possible"),
    Rule("a draft is read before it was written", lambda: draft(read(chatted(), draft="d3"), "d3"), "drafts-durable",
         "registers", "return write.begin < end and", "return"),
    Rule("a refused draft is there", lambda: chatted().fail("draft/set", DISK_FULL, chat="c1", text="d2").restart(
         {"c1": chat(draft="d2")}), "drafts-durable", "registers", " and not write.failed and ", " and "),
    Rule("a draft that was shown is lost", lambda: read(cut_draft(chatted(), "d2"), draft="d2").restart({"c1": chat()}),
         "drafts-durable", "registers", "self._readings.append(Reading(value, begin, end))", "pass"),
    Rule("a watch is lost", lambda: chatted().ok("watch/add", chat="c1", path="/w/2").restart({"c1": chat()}),
         "watches-durable", "registers", SUPERSEDED, "False"),
    Rule("a watch comes back", lambda: chatted().ok("watch/add", chat="c1", path="/w/2").ok(
         "watch/rm", chat="c1", path="/w/2").restart({"c1": chat(watches=["/w/2"])}), "watches-durable",
         "registers", SUPERSEDED, "False"),
    Rule("a watch for which nobody asked", lambda: chatted().restart({"c1": chat(watches=["/w/9"])}), "watches-durable",
         "chats", "[*self._details[WATCH, chat], *paths]", "self._details[WATCH, chat]"),
    Rule("a path is watched twice", lambda: chatted().ok("watch/add", chat="c1", path="/w/2").restart(
         {"c1": chat(watches=["/w/2", "/w/2"])}), "watches-durable",
         "chats", "same(f\"{request.who} path={cut(path)}\", 1, times, why)", "same(\"\", 1, 1, why)"),
    Rule("a title is lost", lambda: chatted().ok("chat/rename", chat="c1", title="t2").restart({"c1": chat()}),
         "settings-kept", "chats", "for kind in (TITLE, MODE, UNREAD)", "for kind in (MODE, UNREAD)"),
    Rule("a mode is lost", lambda: chatted().ok("chat/set_mode", chat="c1", mode="o2").restart({"c1": chat()}),
         "settings-kept", "chats", "for kind in (TITLE, MODE, UNREAD)", "for kind in (TITLE, UNREAD)"),
    Rule("an unread mark is lost", lambda: chatted().ok("chat/mark_unread", chat="c1").restart({"c1": chat()}),
         "settings-kept", "chats", "for kind in (TITLE, MODE, UNREAD)", "for kind in (TITLE, MODE)"),
    Rule("a decision is turned round", lambda: chatted().ok("permission/decide", chat="c1", prompt="p2", allow=False)
         .restart({"c1": chat(decisions={"p2": True})}), "settings-kept",
         "chats", 'if "decisions" in fields:', "if False:"),
    Rule("an answer is slow", lambda: slow(OVER_MS), "answers-in-time",
         "waits", "slow = waited_ms > limit_ms and not machine", "slow = False"),
    Rule("the machine stood still, but not for all of it", lambda: slow(OVER_MS + 400).event(
         "still", ms=300, at_ms=1000), "answers-in-time", "waits", "waited_ms - still_ms <= limit_ms", "still_ms"),
    Rule("the machine stood still at another time", lambda: slow(OVER_MS).wait(5000).still(3000), "answers-in-time",
         "waits", "min(s.ended_ms, ended_ms)", "s.ended_ms"),
    Rule("a living daemon closes a connection", lambda: History().info("status", "closed"), "answers-in-time",
         "waits", "if request.outcome == INFO and request.answer == CLOSED:", "if False:"),
)  # fmt: skip


@pytest.mark.parametrize("fault", FAULTS, ids=str)
def test_a_fault_is_seen(fault: Rule) -> None:
    """Each history is what such a daemon leaves."""
    assert fault.seen()


@pytest.mark.parametrize("fault", FAULTS, ids=str)
def test_without_its_rule_a_fault_is_not_seen(fault: Rule, tmp_path: Path) -> None:
    """No rule of the oracle is there for nothing."""
    assert not fault.seen(by=fault.mutant(tmp_path))


def side_by_side() -> History:
    """Two drafts at once: either may be the last, and a reading beside them may see any."""
    history = draft(chatted(), "d2")
    one = history.invoke("draft/set", chat="c1", text="d3")
    two = history.invoke("draft/set", client=2, chat="c1", text="d4")
    three = history.invoke("chat/read", client=3, chat="c1")
    history.answer(two).answer(one).answer(three, chat(draft="d2"))
    return history.restart({"c1": chat(draft="d4")})


def timed_out() -> History:
    """It lands late, over a newer one, in the same life."""
    history = draft(chatted().info("draft/set", "timeout", chat="c1", text="d2"), "d3")
    return read(read(history, draft="d3"), draft="d2").restart({"c1": chat(draft="d2")})


def sent_again() -> History:
    """Whether a prompt that is sent again shows the chat is not said."""
    history = chatted().ok("prompt/send", chat="c1", prompt="p2", text="").ok("chat/mark_unread", chat="c1")
    return history.ok("prompt/send", chat="c1", prompt="p2", text="").restart({"c1": chat(queue=["p2"], unread=True)})


def answered_before_up() -> History:
    history = History()
    history.life = 2  # which is not up yet
    waiting = history.kill().invoke("status")
    history.wait(OVER_MS).answer(waiting, {"idle": True})
    return history.event("up", life=2, at_ms=history.now_ms)


SOUND = {
    "a draft that was cut is there": lambda: cut_draft(chatted(), "d2").check({"c1": chat(draft="d2")}),
    "a draft that was cut is not there": lambda: cut_draft(draft(chatted(), "d2"), "d3").check(
        {"c1": chat(draft="d2")}),
    "drafts side by side": side_by_side,
    "a draft that timed out lands later": timed_out,
    "a chat that was cut is not there": lambda: History().info("chat/new", "cut", chat="c1").start().check(
        {"c1": None}),
    "a chat is asked for twice": lambda: chatted().ok("chat/new", chat="c1").restart({"c1": chat()}),
    "a prompt that is sent again need not show the chat": sent_again,
    "nothing asks for permission": lambda: chatted().fail(
        "permission/decide", {"code": -32002, "message": "nothing asks"}, chat="c1", prompt="p2", allow=True),
    "an answer takes as long as it may": lambda: slow(LIMITS["answer_ms"] - 1),
    "an answer from before it was up": answered_before_up,
}  # fmt: skip


@pytest.mark.parametrize("says", SOUND)
def test_what_a_daemon_may_do_is_no_fault(says: str) -> None:
    """A false alarm costs an evening; each was thought of while the oracle was written."""
    broken = SOUND[says]().broken().keys() - {"work-done"}
    assert broken <= ({"answers-in-time"} if says == "a draft that timed out lands later" else set())


def test_a_stall_of_the_machine_is_one_or_the_other_never_both() -> None:
    """An `invalid` trial that is red as well would be replayed for nothing."""
    history = History()
    waiting = history.invoke("status")
    broken = history.still(OVER_MS).answer(waiting, {"idle": True}).broken()
    assert "machine-kept-up" in broken
    assert "answers-in-time" not in broken


def test_both_properties_of_waiting_look_at_each_wait() -> None:
    """A wait that nobody looked at would be no evidence."""
    history = chatted().restart({"c1": chat()})
    judged = history.judged()
    assert judged["answers-in-time"]["facts"] == judged["machine-kept-up"]["facts"] == 3


def test_a_difference_names_the_write_that_is_missed() -> None:
    """The report prints step and operation from the fact alone; a reading of a check has none of its own."""
    differs = (
        draft(draft(chatted(), "d2"), "d3").restart({"c1": chat(draft="d2")}).judged()["drafts-durable"]["differs"]
    )
    assert differs["fact"].startswith("step=3 op=draft/set chat=c1 ")
    assert (differs["expected"], differs["found"]) == ('"d3"', '"d2"')
