"""`intents-resolved`: what recovery does by class, told apart from what it may not do; and no false alarm.

Each story is one call of task 3, cut by a kill, as the log and the ledger would show it.
"""

from __future__ import annotations

from typing import Any

import pytest
from kernel_states import FINISH, State, call, failed, finished, workload

CHARGE = '3/0/charge/{"amount":4}'


def dispatched(kind: str, result: str | None, outcome: str = "ok", reply: str = "none") -> State:
    """Killed with the intent dispatched; its send arrived and was decided as told, or there was none."""
    state = State(workload([call("charge", kind, 4, outcome), FINISH]))
    state.begin(3, 0)
    state.attempt(3, 0, "running", "waiting")
    state.propose(3, 0, call("charge", kind, 4))
    token = state.intent(CHARGE, "proposed", "dispatched")
    if result:
        state.send(CHARGE, kind, token, result, reply)
    state.die()
    return state


def interrupted(state: State) -> None:
    state.attempt(3, 0, "waiting", "interrupted")


def again(state: State, kind: str = "once", result: str = "landed") -> None:
    """Give the dispatch up, as certain not to have landed, and dispatch and send anew."""
    state.intent(CHARGE, "dispatched", "proposed")
    state.send(CHARGE, kind, state.intent(CHARGE, "proposed", "dispatched"), result)


def end(state: State) -> None:
    state.attempt(3, 0, "interrupted", "running")
    state.cursor(3, 0, 1, 2)
    state.attempt(3, 0, "running", "succeeded")


def all_pass(state: State) -> None:
    """Killed, as it stands; recovered; resumed to the end."""
    interrupted(state)
    for look in ("killed", "recovered"):
        assert failed(state.judge(look)) == {}, look
    end(state)
    properties = state.judge("end")
    assert failed(properties) == {}
    assert properties["intents-resolved"]["facts"] > 10


def differs(state: State, look: str = "recovered") -> dict[str, Any]:
    """The fact that `intents-resolved`, and it alone, finds."""
    found = state.judge(look)
    assert list(failed(found)) == ["intents-resolved"]
    return found["intents-resolved"]["differs"]


@pytest.mark.parametrize("result", ["landed", None])
def test_a_once_is_resolved_by_fence_and_receipt_and_sent_again_only_if_there_is_none(result: str | None) -> None:
    """The way of the class, whether or not the first send arrived."""
    state = dispatched("once", result)
    assert failed(state.judge("killed")) == {}
    state.fence(CHARGE)
    state.ask(CHARGE, "found" if result else "none")
    if not result:
        again(state)
    state.resolve(CHARGE)
    all_pass(state)


def test_a_held_request_that_is_decided_behind_the_fence_is_no_second_effect() -> None:
    """False alarm to avoid: the late request of a dead sender, refused by the fence."""
    state = dispatched("once", "held")
    state.fence(CHARGE)
    state.ask(CHARGE, "none")
    state.ledgers[1]["requests"][0]["result"] = "fenced"
    again(state)
    state.resolve(CHARGE)
    all_pass(state)


def test_a_late_request_that_arrives_after_the_fence_is_no_second_send() -> None:
    """False alarm to avoid: a dead process's bytes may be read after the recovery's; its token tells whose they are."""
    state = dispatched("once", None)
    state.fence(CHARGE)
    state.ask(CHARGE, "none")
    state.send(
        CHARGE,
        "once",
        next(n for n, r in enumerate(state.records, 1) if r.get("to") == "dispatched" and r.get("effect") == CHARGE),
        "fenced",
        "none",
    )
    again(state)
    state.resolve(CHARGE)
    all_pass(state)


@pytest.mark.parametrize("cut", ["after fence", "after receipt", "after proposed", "after second dispatch"])
def test_a_recovery_may_be_killed_anywhere_in_a_once_and_begin_again(cut: str) -> None:
    """False alarms to avoid: repeated fences and questions of a recovery that was killed itself."""
    state = dispatched("once", None)
    state.fence(CHARGE)
    if cut != "after fence":
        state.ask(CHARGE, "none")
    if cut in ("after proposed", "after second dispatch"):
        state.intent(CHARGE, "dispatched", "proposed")
    if cut == "after second dispatch":
        state.intent(CHARGE, "proposed", "dispatched")
    state.die()
    assert failed(state.judge("killed")) == {}
    if cut == "after proposed":
        state.send(CHARGE, "once", state.intent(CHARGE, "proposed", "dispatched"), "landed")
    else:
        state.fence(CHARGE)
        state.ask(CHARGE, "none")
        again(state)
    state.resolve(CHARGE)
    all_pass(state)


def test_a_lost_reply_is_handled_live_by_the_way_of_the_class() -> None:
    """False alarm to avoid: fences and re-sends without any crash."""
    once, keyed = (State(workload([call("charge", kind, 4, lose=True), FINISH])) for kind in ("once", "keyed"))
    for state, kind in ((once, "once"), (keyed, "keyed")):
        state.begin(3, 0)
        state.propose(3, 0, call("charge", kind, 4))
        token = state.intent(CHARGE, "proposed", "dispatched")
        state.send(CHARGE, kind, token, "landed", "lost")
        if kind == "once":
            state.fence(CHARGE)
            state.ask(CHARGE, "found")
        else:
            state.send(CHARGE, kind, token, "deduped")
        state.resolve(CHARGE)
        state.cursor(3, 0, 1, 2)
        state.attempt(3, 0, "running", "succeeded")
        assert failed(state.judge("end")) == {}


@pytest.mark.parametrize("kind", ["keyed", "pure"])
def test_keyed_and_pure_are_sent_again(kind: str) -> None:
    """With the same key and the token of the same dispatch."""
    first, second = ("landed", "deduped") if kind == "keyed" else ("computed", "computed")
    state = dispatched(kind, first)
    token = state.ledgers[1]["requests"][0]["token"]
    state.send(CHARGE, kind, token, second)
    state.resolve(CHARGE)
    all_pass(state)


@pytest.mark.parametrize("kind", ["keyed", "pure", "once"])
def test_a_declined_call_is_resolved_failed_by_every_class(kind: str) -> None:
    """Declined before the kill; recovery asks or sends again, and hears the same."""
    state = dispatched(kind, "declined", "declined")
    if kind == "once":
        state.fence(CHARGE)
        state.ask(CHARGE, "declined")
    else:
        state.send(CHARGE, kind, state.ledgers[1]["requests"][0]["token"], "declined")
    state.intent(CHARGE, "dispatched", "resolved_failed")
    all_pass(state)


@pytest.mark.parametrize("kind", ["keyed", "once"])
def test_an_intent_that_recovery_left_dispatched_is_found(kind: str) -> None:
    """Planted bug: dispatched intents dropped."""
    state = dispatched(kind, "landed")
    interrupted(state)
    assert failed(state.judge("killed")) == {}
    assert differs(state)["fact"] == f"intents[{CHARGE}].state"


def test_a_once_that_was_sent_again_without_asking_is_found() -> None:
    """Planted bug: behind the fence or not, nobody asked whether it had landed. Even where luck saved the effect."""
    for fence in (True, False):
        state = dispatched("once", "fenced")
        if fence:
            state.fence(CHARGE)
        again(state)
        state.resolve(CHARGE)
        interrupted(state)
        found = differs(state)
        assert "second send" in found["fact"]
        assert found["found"] == ("a fence, but no receipt question after it that found none" if fence else "no fence")


def test_a_once_that_was_sent_again_under_the_same_dispatch_is_found() -> None:
    """Planted bug: treated as if it were keyed."""
    state = dispatched("once", "held")
    state.send(CHARGE, "once", state.ledgers[1]["requests"][0]["token"], "landed")
    state.resolve(CHARGE)
    interrupted(state)
    assert "second send" in differs(state)["fact"]


def test_a_receipt_asked_without_or_before_the_fence_is_found() -> None:
    """Planted bug: the answer may be old by the time it is used; here it was right only by luck."""
    for fence_after in (True, False):
        state = dispatched("once", None)
        state.ask(CHARGE, "none")
        if fence_after:
            state.fence(CHARGE)
        again(state)
        state.resolve(CHARGE)
        interrupted(state)
        assert "-> proposed" in differs(state)["fact"]


def test_a_once_that_recovery_resolved_on_a_dead_process_s_reply_is_found() -> None:
    """What a dead process was told, nobody knows: the recovery must have asked."""
    state = dispatched("once", "landed")
    state.resolve(CHARGE)
    interrupted(state)
    assert "-> applied" in differs(state)["fact"]


@pytest.mark.parametrize("kind", ["pure", "keyed", "once"])
def test_an_outcome_that_rests_on_nothing_is_found(kind: str) -> None:
    """Planted bug: a dispatched intent is declared failed because nobody knows better."""
    state = dispatched(kind, None, "declined")
    state.intent(CHARGE, "dispatched", "resolved_failed")
    interrupted(state)
    assert "-> resolved_failed" in differs(state)["fact"]


@pytest.mark.parametrize("change", [{"key": "3/0/try-1"}, {"class": "pure"}, {"token": 2}, {"token": 10**9}])
def test_a_send_with_another_key_class_or_token_is_found(change: dict[str, Any]) -> None:
    """Planted bug: key taken from the attempt number."""
    state = finished()
    state.ledgers[1]["requests"][2].update(change)
    for look in ("killed", "recovered", "end"):
        assert differs(state, look)["fact"].startswith("request ")


def test_a_question_about_an_intent_that_is_not_in_the_log_is_found() -> None:
    """Nothing is asked of the outside before the intent is durable."""
    for do, result in (("send", "declined"), ("fence", "raised"), ("receipt", "none")):
        state = finished()
        state.request(do, "3/9/charge/{}", 1, result, **{"class": "once", "key": "3/9/charge/{}"})
        assert differs(state)["found"] == "none"
    state = finished()
    malformed = {"seq": 99, "do": None, "result": "malformed", "why": "no effect", "reply": "sent"}
    state.ledgers[1]["requests"].append(malformed)
    assert differs(state)["found"] == "malformed"


def test_an_intent_that_the_script_does_not_ask_for_is_found() -> None:
    """The kernel may not think of calls by itself."""
    state = State(workload([call("charge", "once", 5), FINISH]))
    state.begin(3, 0)
    state.propose(3, 0, call("charge", "once", 4))
    assert differs(state, "killed")["fact"] == f"intents[{CHARGE}]"


def test_an_intent_that_is_still_proposed_at_the_end_is_found() -> None:
    """Legal after a recovery, which leaves it to the resumed attempt; not after the work."""
    state = State(workload([call("charge", "once", 4, "declined"), FINISH]))
    state.begin(3, 0)
    state.propose(3, 0, call("charge", "once", 4))
    state.cursor(3, 0, 1, 2)
    state.attempt(3, 0, "running", "succeeded")
    assert failed(state.judge("recovered")) == {}
    assert differs(state, "end")["fact"] == f"intents[{CHARGE}].state"
