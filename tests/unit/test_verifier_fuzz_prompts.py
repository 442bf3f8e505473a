"""The fuzz oracle on prompts, removals and messages: what each fault leaves, and what a daemon may rightly do."""

from __future__ import annotations

from pathlib import Path

import pytest
from fuzz_history import NO_SUCH_CHAT, History, Json, chat, logged
from fuzz_mutant import Rule


def chatted() -> History:
    return History().ok("chat/new", chat="c1")


def send(history: History, prompt: str = "p2", name: str = "c1") -> History:
    return history.ok("prompt/send", chat=name, prompt=prompt, text="reply 1")


def prompted() -> History:
    return send(chatted())


def cut_send() -> History:
    """A prompt whose send the kill cut: it may be there."""
    return chatted().info("prompt/send", "cut", chat="c1", prompt="p2", text="").start()


def remove(history: History, removed: bool = True) -> History:
    return history.ok("queue/remove", {"removed": removed}, chat="c1", prompt="p2")


def cut_removal(history: History) -> History:
    """A removal that the kill cut: it may have landed."""
    return history.info("queue/remove", "cut", chat="c1", prompt="p2").start()


def read(history: History, **fields: object) -> History:
    return history.ok("chat/read", chat(**fields), client=2, chat="c1")


def settled(*effects: str, idle: bool = True, **fields: object) -> History:
    return prompted().restart({"c1": chat(queue=["p2"])}).finish({"c1": chat(**fields)}, *effects, idle=idle)


DONE: list[Json] = logged("p2")
UNKNOWN: list[Json] = logged("p2", outcome="unknown")

FAULTS = (
    Rule("an accepted prompt is lost", lambda: prompted().restart({"c1": chat()}), "prompts-once",
         "prompts", "prompt.landed < request.begin and excuse is None", "False", "was accepted"),
    Rule("an accepted prompt is lost with its chat", lambda: prompted().restart({"c1": None}), "prompts-once",
         "shapes", "return dict(NOT_THERE) if gone else {}", "return {}", "was accepted"),
    Rule("a prompt that was seen is lost", lambda: cut_send().check({"c1": chat(queue=["p2"])}).restart({"c1": chat()}),
         "prompts-once", "prompt", "*(s.end for s in self.sightings), ", ""),
    Rule("a prompt that ran is not in the log", lambda: cut_send().ledger("run:p2").check({"c1": chat()}),
         "prompts-once", "prompt", ", self._first_run]", "]", "was accepted"),
    Rule("it is queued twice", lambda: prompted().restart({"c1": chat(queue=["p2", "p2"])}), "prompts-once",
         "prompts", "holds(len(places) == 1", "holds(True", "2 times"),
    Rule("it waits and has run", lambda: prompted().restart({"c1": chat(queue=["p2"], log=UNKNOWN)}), "prompts-once",
         "prompts", "holds(len(places) == 1", "holds(True", "2 times"),
    Rule("it ran twice", lambda: settled("run:p2", "run:p2", log=DONE), "prompts-once",
         "prompts", "holds(runs <= 1", "holds(True"),
    Rule("a prompt that nobody sent is queued", lambda: prompted().restart({"c1": chat(queue=["p2", "p9"])}),
         "prompts-once", "prompt", "return any(not r.failed for r in self.sent(end)) and", "return"),
    Rule("a prompt is in another chat", lambda: send(chatted().ok("chat/new", chat="c2"), "p3", "c2").restart(
         {"c1": chat(queue=["p3"]), "c2": chat(queue=["p3"])}), "prompts-once",
         "prompt", "return any(not r.failed for r in self.sent(end)) and", "return"),
    Rule("a prompt that nobody sent ran", lambda: prompted().ledger("run:p9"), "prompts-once",
         "prompts", "for name in sorted(self._runs.keys() - known):", "for name in ():"),
    Rule("a refused send is queued", lambda: chatted().fail(
         "prompt/send", {"code": -32603, "message": "disk full"}, chat="c1", prompt="p2", text="").restart(
         {"c1": chat(queue=["p2"])}), "prompts-once", "prompt", "any(not r.failed for r", "any(True for r"),
    Rule("a send that did not land lands later", lambda: cut_send().check({"c1": chat()}).restart(
         {"c1": chat(queue=["p2"])}), "prompts-once", "prompts", "prompt.see_nowhere(request)", "pass"),
    Rule("a send that did not land has run", lambda: cut_send().check({"c1": chat()}).ledger("run:p2"), "prompts-once",
         "prompts", "holds(not (runs and lost)", "holds(True"),
    Rule("what was logged waits again", lambda: read(prompted(), log=DONE).restart({"c1": chat(queue=["p2"])}),
         "prompts-once", "prompt", "if seen.place == Place.LOGGED and place != Place.LOGGED:", "if False:"),
    Rule("what ran waits again, without a kill", lambda: read(read(prompted(), running="p2"), queue=["p2"]),
         "prompts-once", "prompt", "if seen.place == Place.RUNS and place == Place.WAITS", "if False"),
    Rule("what waited no more waits again", lambda: read(prompted().ok("queue/list", chat="c1"), queue=["p2"]),
         "prompts-once", "prompts", "                prompt.see_not_waiting(request)", "                pass"),
    Rule("what a removal did not find waits", lambda: read(prompted().ok("queue/remove", {"removed": False}, chat="c1",
         prompt="p2"), queue=["p2"]), "prompts-once", "prompts",
         "            prompt.see_not_waiting(request)\n            return", "            return"),
    Rule("its outcome changes", lambda: read(prompted(), log=DONE).restart({"c1": chat(log=UNKNOWN)}), "prompts-once",
         "prompt", "if seen.place == place == Place.LOGGED", "if False"),
    Rule("its outcome is unknown without a kill", lambda: read(prompted(), log=UNKNOWN), "prompts-once",
         "prompt", 'if outcome == "unknown"', "if False", "no kill"),
    Rule("one kill cuts two turns of a chat", lambda: send(prompted(), "p3").restart(
         {"c1": chat(log=logged("p2", "p3", outcome="unknown"))}), "prompts-once",
         "prompts", "holds(len(unknown) <= kills", "holds(True"),
    Rule("done, and nobody saw it run", lambda: settled(log=DONE), "prompts-once",
         "prompts", "self._once.holds(runs > 0", "self._once.holds(True"),
    Rule("it waits, but all is said to be done", lambda: send(prompted(), "p3").finish(
         {"c1": chat(queue=["p2"], log=logged("p3"))}, "run:p3"), "prompts-once",
         "prompts", "holds(place == Place.LOGGED", "holds(True", "it is idle"),
    Rule("it never ends", lambda: settled("run:p2", running="p2", idle=False), "prompts-once",
         "prompts", "holds(place == Place.LOGGED", "holds(True", "never got idle"),
    Rule("a removed prompt is queued", lambda: remove(prompted()).restart({"c1": chat(queue=["p2"])}), "removals-final",
         "prompt", "(removal.end < request.begin or ran)", "ran"),
    Rule("a prompt is removed that had run", lambda: remove(read(prompted(), log=DONE)), "removals-final",
         "prompt", "(removal.end < request.begin or ran)", "removal.end < request.begin"),
    Rule("a prompt is removed twice", lambda: remove(remove(prompted())), "removals-final",
         "prompts", "self._final.holds(not others", "self._final.holds(True", "twice"),
    Rule("sent again, a removed prompt comes back", lambda: read(send(remove(prompted())), queue=["p2"]),
         "removals-final", "prompt", "(removal.end < request.begin or ran)", "ran"),
    Rule("sent again, a prompt comes back that a cut removal took", lambda: read(send(cut_removal(prompted()).check(
         {"c1": chat()})), queue=["p2"]), "removals-final", "prompt", "self.landed < absent or ", ""),
    Rule("a removal excuses the loss of what had run", lambda: cut_removal(read(prompted(), log=DONE)).check(
         {"c1": chat()}), "prompts-once", "prompt", "s.place == Place.LOGGED or ", "", "no answer"),
    Rule("a removal excuses the loss of what ran", lambda: cut_removal(read(prompted(), running="p2")).check(
         {"c1": chat()}), "prompts-once", "prompt", "(s.place == Place.RUNS and s.life >= removal.life)", "False"),
    Rule("a message is delivered twice", lambda: chatted().ok("outbox/send", message="m2", text="").ledger(
         "message:m2", "message:m2"), "outbox-once", "messages", "holds(times <= 1", "holds(True"),
    Rule("a message is never delivered", lambda: chatted().ok("outbox/send", message="m2", text="").finish(
         {"c1": chat()}), "outbox-once", "messages", "holds(times >= 1", "holds(True"),
    Rule("a refused message is delivered", lambda: chatted().fail(
         "outbox/send", {"code": -32603, "message": "disk full"}, message="m2", text="").ledger("message:m2"),
         "outbox-once", "messages", "holds(times == 0", "holds(True"),
    Rule("a message that nobody sent is delivered", lambda: chatted().ledger("message:m2"), "outbox-once",
         "messages", "sorted(deliveries.keys() - sends.keys())", "()"),
    Rule("an effect for which nobody asked", lambda: chatted().ledger("mail:m2"), "outbox-once",
         "messages", "in story.other_effects(RUN, MESSAGE)", "in ()"),
)  # fmt: skip


@pytest.mark.parametrize("fault", FAULTS, ids=str)
def test_a_fault_is_seen(fault: Rule) -> None:
    """Each history is what such a daemon leaves."""
    assert fault.seen()


@pytest.mark.parametrize("fault", FAULTS, ids=str)
def test_without_its_rule_a_fault_is_not_seen(fault: Rule, tmp_path: Path) -> None:
    """No rule of the oracle is there for nothing."""
    assert not fault.seen(by=fault.mutant(tmp_path))


def timed_out_removal_lands_late() -> History:
    history = prompted().info("queue/remove", "timeout", chat="c1", prompt="p2")
    return read(read(history, queue=["p2"])).restart({"c1": chat()})


def side_by_side() -> History:
    """A reading beside the removal may still show the prompt, and one beside the send need not."""
    history = chatted()
    sending = history.invoke("prompt/send", chat="c1", prompt="p2", text="")
    early = history.invoke("chat/read", client=2, chat="c1")
    history.answer(sending).answer(early, chat())
    removing = history.invoke("queue/remove", chat="c1", prompt="p2")
    late = history.invoke("chat/read", client=2, chat="c1")
    return history.answer(removing, {"removed": True}).answer(late, chat(queue=["p2"])).restart({"c1": chat()})


def late_send() -> History:
    """It timed out, and lands behind the final check's question whether all is done."""
    history = chatted().info("prompt/send", "timeout", chat="c1", prompt="p2", text="")
    return history.finish({"c1": chat(queue=["p2"])})


SOUND = {
    "it runs to its end": lambda: settled("run:p2", log=DONE),
    "a kill cuts its turn": lambda: settled("run:p2", log=UNKNOWN),
    "a kill cuts its turn before anybody saw it": lambda: settled(log=UNKNOWN),
    "its turn had not begun at the kill, and it waits again": lambda: read(prompted(), running="p2").restart(
        {"c1": chat(queue=["p2"])}),
    "a daemon without agents": lambda: settled(queue=["p2"]),
    "a cut send did not land": lambda: cut_send().check({"c1": chat()}).restart({"c1": chat()}),
    "a cut send did not land, and it is sent again": lambda: read(send(cut_send().check({"c1": chat()})), queue=["p2"]),
    "a send and its chat were cut": lambda: cut_send().check({"c1": chat(queue=["p2"])}),
    "a removal of what nobody sent": lambda: remove(chatted(), removed=False).restart({"c1": chat()}),
    "a removal comes too late": lambda: read(remove(prompted(), removed=False), running="p2"),
    "a removal without a chat": lambda: History().fail("queue/remove", NO_SUCH_CHAT, chat="c1", prompt="p2"),
    "a removal that timed out lands later": timed_out_removal_lands_late,
    "requests side by side": side_by_side,
    "a send lands after all was said to be done": late_send,
    "a message that was cut is delivered": lambda: chatted().info("outbox/send", "cut", message="m2", text="").ledger(
        "message:m2"),
    "a message that was cut is not delivered": lambda: chatted().info(
        "outbox/send", "cut", message="m2", text="").start().finish({"c1": chat()}),
}  # fmt: skip


@pytest.mark.parametrize("says", SOUND)
def test_what_a_daemon_may_do_is_no_fault(says: str) -> None:
    """A false alarm costs an evening; each was thought of while the oracle was written."""
    broken = SOUND[says]().broken()
    assert not {"prompts-once", "removals-final", "outbox-once"} & broken.keys()


def test_a_difference_names_its_operation() -> None:
    """The report prints step, operation and prompt from the fact alone."""
    fact = remove(prompted()).restart({"c1": chat(queue=["p2"])}).judged()["removals-final"]["differs"]["fact"]
    assert fact.startswith("step=3 op=queue/remove chat=c1 prompt=p2")


def test_messages_without_a_last_look_at_the_ledger_are_the_labs_fault() -> None:
    """A pass would be one that nobody has looked at."""
    history = chatted().ok("outbox/send", message="m2", text="").event("settled", idle=True)
    with pytest.raises(ValueError, match="no snapshot of the ledger"):
        history.judged()
