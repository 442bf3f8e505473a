"""The rules of the fuzz oracle that are easy to get wrong (docs/fuzz.md), each by the state which a real fault leaves.

Each case is told twice: the oracle reports it (or, for a false alarm, does not), and an oracle with that rule taken out
does the opposite. Rule 7, a home of its own for each daemon, is the controller's.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from fuzz_history import LIMITS, History, chat, logged
from fuzz_mutant import Rule

OVER_MS = LIMITS["answer_ms"] + 500


def prompted() -> History:
    """One prompt waits in c1, acknowledged."""
    return History().ok("chat/new", chat="c1").ok("prompt/send", chat="c1", prompt="p2", text="reply 1")


def drafted() -> History:
    """A draft and a newer one, both acknowledged."""
    history = History().ok("chat/new", chat="c1")
    return history.ok("draft/set", chat="c1", text="d2").ok("draft/set", chat="c1", text="d3")


def remove(history: History, removed: bool) -> History:
    return history.ok("queue/remove", {"removed": removed}, chat="c1", prompt="p2")


def cut_removal() -> History:
    """A removal that the kill cut: it may have landed."""
    return prompted().info("queue/remove", "cut", chat="c1", prompt="p2").start()


def refused_removal_loses_its_prompt() -> History:
    return remove(prompted(), False).restart({"c1": chat()})


def landed_removal_is_undone() -> History:
    return cut_removal().check({"c1": chat()}).restart({"c1": chat(queue=["p2"])})


def removal_that_did_not_land_excuses_a_loss() -> History:
    return cut_removal().check({"c1": chat(queue=["p2"])}).restart({"c1": chat()})


def removed_prompt_is_only_in_the_log() -> History:
    return remove(prompted(), True).restart({"c1": chat(log=logged("p2", outcome="crashed"))})


def removed_prompt_is_only_in_the_ledger() -> History:
    return remove(prompted(), True).restart({"c1": chat()}).ledger("run:p2")


def kill_cuts_a_long_wait() -> History:
    history = History().ok("chat/new", chat="c1")
    waiting = history.invoke("draft/set", chat="c1", text="d2")
    return history.wait(OVER_MS).kill(waiting)


def status_times_out() -> History:
    return History().info("status", "timeout")


def machine_stands_still() -> History:
    history = History()
    waiting = history.invoke("status")
    return history.still(OVER_MS).answer(waiting, {"idle": True})


def no_operation() -> History:
    return History().restart({"c1": chat(draft="d1", queue=["p1"])})


def no_kill() -> History:
    return drafted().finish({"c1": chat(draft="d3")})


def nothing_checked() -> History:
    return History().ok("chat/new", chat="c1").restart({"c1": chat()})


def older_write_lands_after_its_check() -> History:
    history = History().ok("chat/new", chat="c1").ok("draft/set", chat="c1", text="d2")
    history.info("draft/set", "cut", chat="c1", text="d3").start()
    return history.check({"c1": chat(draft="d2")}).restart({"c1": chat(draft="d3")})


def stale_draft_while_another_is_written() -> History:
    return drafted().info("draft/set", "cut", chat="c1", text="d4").start().check({"c1": chat(draft="d2")})


def prompt_shows_an_unread_chat() -> History:
    history = prompted().ok("chat/mark_unread", chat="c1").ok("prompt/send", client=2, chat="c1", prompt="p4", text="")
    return history.restart({"c1": chat(queue=["p2", "p4"], unread=False)})


def removal_lands_without_an_answer() -> History:
    return cut_removal().check({"c1": chat()})


HOLES = (
    Rule("1: removed false excuses nothing", refused_removal_loses_its_prompt, "prompts-once",
         "prompt", " and removed(r) is not False)", ")"),
    Rule("1: a removal that landed is final", landed_removal_is_undone, "removals-final",
         "prompts", "prompt.see_nowhere(request)", "pass"),
    Rule("1: one that did not land excuses nothing later", removal_that_did_not_land_excuses_a_loss, "prompts-once",
         "prompt", "s.begin > removal.lands or ", ""),
    Rule("2: a removed prompt that is logged has run", removed_prompt_is_only_in_the_log, "removals-final",
         "prompts", 'seen[entry["prompt"]].append((Place.LOGGED, entry["outcome"]))', "pass"),
    Rule("2: a removed prompt that the ledger saw has run", removed_prompt_is_only_in_the_ledger, "removals-final",
         "prompts", "self._final.holds(runs == 0,", "self._final.holds(True,"),
    Rule("3: a cut request waits until the kill", kill_cuts_a_long_wait, "answers-in-time",
         "waits", "if request.outcome == NONE or", 'if request.outcome == NONE or request.answer == "cut" or'),
    Rule("3: a timed-out status waits until its timeout", status_times_out, "answers-in-time",
         "waits", "if request.outcome == NONE or", 'if request.outcome == NONE or request.answer == "timeout" or'),
    Rule("3: a stall of the machine is told", machine_stands_still, "machine-kept-up",
         "waits", "waited_ms - still_ms <= limit_ms", "waited_ms <= limit_ms"),
    Rule("4: no operation is no evidence", no_operation, "work-done",
         "__init__", '("operation", asked), ', "", "no operation"),
    Rule("4: no kill is no evidence", no_kill, "work-done",
         "__init__", '("kill", story.kills), ', "", "no kill"),
    Rule("4: no checked prompt or draft is no evidence", nothing_checked, "work-done",
         "__init__", '("checked prompt or draft", checked)', "", "no checked prompt or draft"),
    Rule("5: a check settles what was open", older_write_lands_after_its_check, "drafts-durable",
         "registers", "self._readings.append(Reading(value, begin, end))", "pass"),
    Rule("6: an answer is matched by its number", stale_draft_while_another_is_written, "drafts-durable",
         "registers", "any(w.value == value for w in possible)", "any(w.request and not w.sure for w in possible)"),
)  # fmt: skip

FALSE_ALARMS = (
    Rule("a prompt clears the unread mark", prompt_shows_an_unread_chat, "settings-kept",
         "chats", "self._shows_chat(request, sent)", "pass"),
    Rule("a cut removal may have landed", removal_lands_without_an_answer, "prompts-once",
         "prompt", " and removed(r) is not False)", " and removed(r) is True)"),
    Rule("a stall of the machine is not the daemon's", machine_stands_still, "answers-in-time",
         "waits", "waited_ms > limit_ms and not machine", "waited_ms > limit_ms"),
)  # fmt: skip


@pytest.mark.parametrize("rule", HOLES, ids=str)
def test_a_hole_lets_no_fault_pass(rule: Rule) -> None:
    """Each history is what a real fault left in another fuzzer, which reported nothing."""
    assert rule.seen()


@pytest.mark.parametrize("rule", HOLES, ids=str)
def test_without_its_rule_a_hole_lets_the_fault_pass(rule: Rule, tmp_path: Path) -> None:
    """Else the history shows nothing of the rule."""
    assert not rule.seen(by=rule.mutant(tmp_path))


@pytest.mark.parametrize("rule", FALSE_ALARMS, ids=str)
def test_what_is_rightly_so_is_no_alarm(rule: Rule) -> None:
    """Each history is one that a daemon without a fault leaves."""
    assert not rule.seen()


@pytest.mark.parametrize("rule", FALSE_ALARMS, ids=str)
def test_without_its_rule_there_is_a_false_alarm(rule: Rule, tmp_path: Path) -> None:
    """Else the history shows nothing of the rule."""
    assert rule.seen(by=rule.mutant(tmp_path))


def test_a_trial_without_work_says_so_first() -> None:
    """The report looks for the word."""
    assert all(h().broken()["work-done"].startswith("NO-WORK: ") for h in (no_operation, no_kill, nothing_checked))
