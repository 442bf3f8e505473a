"""The verifier's properties but the two with files of their own: what is right passes, each fault is found.

The states come from `kernel_states`, which writes the documented format by itself.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest
from kernel_states import FAIL, FINISH, SAY, STEPS, State, call, canonical, failed, finished, frame, workload

LOOKS = ("killed", "recovered", "end")
CHARGE = '3/1/charge/{"amount":4}'


@pytest.mark.parametrize("look", LOOKS)
def test_a_good_state_passes_every_property_with_facts(look: str) -> None:
    """A verifier that compares nothing would pass everything."""
    properties = finished().judge(look)
    assert failed(properties) == {}
    assert all(p["facts"] > 5 for p in properties.values()), properties


def test_the_same_question_has_the_same_answer_and_no_memory() -> None:
    """Caches must not leak from one look, or one trial, into another."""
    good, bad = finished(), finished()
    bad.records[20] = {**bad.records[20], "try": 1}
    first = good.judge("end")
    assert failed(bad.judge("end"))
    assert good.judge("end") == first


# ---- prefix-durable


def test_an_acknowledged_record_that_is_missing_is_found() -> None:
    """Planted bugs: acknowledge before append; buffer flushed at exit."""
    state = finished()
    state.records.pop()
    found = state.judge("killed")
    lsn = len(state.records) + 1
    assert failed(found)["prefix-durable"] == f"log[{lsn}]"
    assert found["prefix-durable"]["differs"]["found"] == "nothing"


def test_an_acknowledged_record_in_the_torn_tail_is_lost_and_is_called_so() -> None:
    """A torn frame is legal only if nobody was told that it is there."""
    state = finished()
    files = state.files()
    active = max(p for p in files if p.endswith(".open"))
    files[active] = files[active][:-1]
    found = state.judge("killed", files)["prefix-durable"]["differs"]
    assert found["found"].startswith("nothing (torn: log/")


def test_another_record_at_an_acknowledged_lsn_is_found() -> None:
    """Content is compared, not only the count."""
    state = finished()
    at = next(i for i, r in enumerate(state.records) if i >= state.base and r["r"] == "cursor")
    state.records[at] = {**state.records[at], "clock": 77}
    assert failed(state.judge("killed"))["prefix-durable"] == f"log[{at + 1}]"


@pytest.mark.parametrize("look", LOOKS)
def test_a_record_that_nobody_invoked_is_found(look: str) -> None:
    """Recovery may not write behind the history's back."""
    state = finished()
    state.records.append(state.records[-1])
    assert failed(state.judge(look))["prefix-durable"] == f"log[{len(state.records)}]"


def test_an_acknowledgement_at_the_wrong_lsn_is_found() -> None:
    """An LSN that is skipped is a hole."""
    state = finished()
    state.history[3]["lsn"] += 1
    assert failed(state.judge("killed"))["prefix-durable"] == "process 1, append 2"


def test_an_answer_without_an_invoke_is_found() -> None:
    """A history is no evidence if answers come from nowhere."""
    state = finished()
    del state.history[0]
    assert failed(state.judge("killed"))["prefix-durable"] == "process 1, append 1"


@pytest.mark.parametrize("written", [True, False])
@pytest.mark.parametrize("again", [True, False])
def test_an_unanswered_append_may_be_there_or_not_and_may_be_made_again(written: bool, again: bool) -> None:
    """False alarm to avoid: the record under way at the kill, kept or lost, and written anew by the recovery."""
    state = State(workload([FINISH]))
    state.begin(3, 0)
    unsure = {"r": "attempt", "task": 3, "try": 0, "from": "running", "to": "interrupted"}
    state.append(unsure, answered=False, written=written)
    state.die()
    assert "prefix-durable" not in failed(state.judge("killed"))
    if again and not written:
        state.append(unsure)
    state.append({"r": "attempt", "task": 3, "try": 0, "from": "interrupted", "to": "running"})
    assert "prefix-durable" not in failed(state.judge("killed"))


def test_a_record_that_was_written_but_then_vanished_shows_by_the_next_lsn() -> None:
    """The set of possible ends shrinks with each acknowledgement, so a later hole is not excused by an earlier kill."""
    state = State(workload([FINISH]))
    state.begin(3, 0)
    unsure = {"r": "attempt", "task": 3, "try": 0, "from": "running", "to": "interrupted"}
    state.append(unsure, answered=False, written=False)
    state.die()
    state.append({"r": "attempt", "task": 3, "try": 0, "from": "interrupted", "to": "running"})
    state.history[-1]["lsn"] += 1
    assert failed(state.judge("killed"))["prefix-durable"] == "process 2, append 1"


def test_a_torn_tail_is_legal_after_the_kill_and_not_after_the_recovery() -> None:
    """Planted bug: torn frame accepted."""
    state = finished()
    files = state.files()
    active = max(p for p in files if p.endswith(".open"))
    files[active] += frame(len(state.records) + 1, b"{}")[:9]
    assert failed(state.judge("killed", files)) == {}
    assert failed(state.judge("recovered", files)) == {"prefix-durable": "torn tail of the log"}


@pytest.mark.parametrize("look", LOOKS)
def test_a_clean_marker_that_is_not_at_the_end_of_the_log_is_found(look: str) -> None:
    """It is removed, durably, before anything else is written."""
    state = finished()
    files = state.files() | {"CLEAN": b'{"lsn":3}'}
    assert failed(state.judge(look, files)) == {"prefix-durable": "CLEAN"}


def test_a_clean_marker_is_there_at_the_end_and_may_be_torn_by_a_kill() -> None:
    """Without it the next `run` would refuse a state that was finished."""
    state = finished()
    assert failed(state.judge("end", state.files())) == {"prefix-durable": "CLEAN"}
    assert failed(state.judge("killed", state.files() | {"CLEAN": b'{"ls'})) == {}


# ---- legal-state


def test_a_finished_attempt_that_is_revived_is_found() -> None:
    """Planted bug."""
    state = finished()
    state.attempt(3, 0, "succeeded", "running")
    found = failed(state.judge("recovered"))
    assert found == {"legal-state": f"log[{len(state.records)}] attempts[3/0]"}


def test_a_transition_from_a_state_that_is_not_the_real_one_is_found() -> None:
    """`from` must be what really was, even where the table knows the pair."""
    state = State(workload([FINISH]))
    state.begin(3, 0)
    state.attempt(3, 0, "waiting", "running")
    assert failed(state.judge("killed")) == {"legal-state": f"log[{len(state.records)}] attempts[3/0]"}


@pytest.mark.parametrize("held", ["running", "waiting"])
def test_a_state_that_only_a_live_owner_may_hold_is_found_after_recovery_only(held: str) -> None:
    """After recovery nobody is left who owns it."""
    state = State(workload([FINISH]))
    state.begin(3, 0)
    if held == "waiting":
        state.attempt(3, 0, "running", "waiting")
    assert failed(state.judge("killed")) == {}
    assert failed(state.judge("recovered")) == {"legal-state": "attempts[3/0].state"}


def _unfinished(state: State) -> None:
    state.begin(3, 0)


def _wrong_end(state: State) -> None:
    state.begin(3, 0)
    state.attempt(3, 0, "running", "cancelled")


@pytest.mark.parametrize("play", [_unfinished, _wrong_end])
def test_a_task_that_is_not_where_the_script_puts_it_is_found_at_the_end(play: Callable[[State], None]) -> None:
    """A recovery that loses a task leaves a state that is legal, but not the one intended."""
    state = State(workload([FINISH]))
    play(state)
    assert "legal-state" in failed(state.judge("end"))


def test_a_try_too_many_and_a_try_too_early_are_found() -> None:
    """A crash consumes no try."""
    state = State(workload([FINISH], [FINISH]))
    state.begin(3, 0)
    state.attempt(3, 1, None, "created")
    assert failed(state.judge("killed")) == {"legal-state": f"log[{len(state.records)}] attempts[3/1] created"}


def test_more_attempts_than_slots_are_found() -> None:
    """`created` to `admitted`: a slot is free."""
    script = workload([FINISH])
    script["tasks"].append({**script["tasks"][0], "task": 4})
    state = State(script)
    state.begin(3, 0)
    state.begin(4, 0)
    assert failed(state.judge("killed")) == {"legal-state": f"log[{len(state.records) - 1}] admitted"}


@pytest.mark.parametrize(("step", "clock"), [(2, 1), (1, 2), (0, 0)])
def test_a_cursor_that_does_not_move_as_the_script_does_is_found(step: int, clock: int) -> None:
    """A crash consumes no tick and repeats no step."""
    state = State(workload([SAY, FINISH]))
    state.begin(3, 0)
    state.cursor(3, 0, step, clock)
    assert failed(state.judge("killed")) == {"legal-state": f"log[{len(state.records)}] cursor[3]"}


def test_retry_timeout_and_cancellation_end_where_the_script_puts_them() -> None:
    """The interpreter of the verifier, on each way that a task can end."""
    retried = State(workload([SAY, FAIL], [FINISH]))
    retried.play_task(retried.workload["tasks"][0])
    late = State(workload([SAY, SAY, FINISH], deadline=1))
    late.begin(3, 0)
    late.cursor(3, 0, 1, 1)
    late.attempt(3, 0, "running", "timed_out")
    cancelled = State(workload([FINISH], cancelled=True))
    cancelled.attempt(3, 0, None, "created")
    cancelled.attempt(3, 0, "created", "cancelled")
    for state in (retried, late, cancelled):
        assert failed(state.judge("end")) == {}


def test_a_call_that_an_earlier_try_made_is_the_same_effect() -> None:
    """Its outcome is reused and nothing is sent: a second send would be a second effect."""
    steps = [call("charge", "once", 4), FAIL]
    state = State(workload(steps, [call("charge", "once", 4), FINISH]))
    state.begin(3, 0)
    state.play_steps(3, 0, steps)
    state.begin(3, 1)
    state.cursor(3, 1, 1, 2)
    state.attempt(3, 1, "running", "succeeded")
    assert failed(state.judge("end")) == {}


# ---- effects-exactly-once


def test_an_effect_twice_is_found() -> None:
    """The sum of all promises to the outside."""
    state = finished()
    ledger = state.ledgers[1]["effects"]
    ledger.append({**ledger[0], "seq": 99, "request": 98})
    for look in LOOKS:
        found = state.judge(look)
        assert failed(found) == {"effects-exactly-once": f"effects[{CHARGE}]"}
        assert found["effects-exactly-once"]["differs"]["found"] == "2 effects: request 1, request 98"


def test_an_effect_that_is_missing_is_found() -> None:
    """An intent resolved ok, and nothing outside."""
    state = finished()
    del state.ledgers[1]["effects"][0]
    for look in LOOKS:
        assert failed(state.judge(look)) == {"effects-exactly-once": f"effects[{CHARGE}]"}


def test_an_effect_that_is_unknown_to_the_log_is_found_at_the_kill() -> None:
    """Planted bug: effect sent before the intent is durable."""
    state = State(workload(STEPS))
    state.begin(3, 0)
    state.send(CHARGE, "once", len(state.records) + 1, "landed")
    found = failed(state.judge("killed"))
    assert set(found) == {"effects-exactly-once", "intents-resolved"}
    assert found["effects-exactly-once"] == f"effects[{CHARGE}]"


def test_other_arguments_and_another_receipt_are_found() -> None:
    """What landed is what was asked for, and the receipt is the outside's."""
    for change in ({"args": {"amount": 400}}, {"receipt": "R-other"}):
        state = finished()
        state.ledgers[1]["effects"][0].update(change)
        assert list(failed(state.judge("recovered"))) == ["effects-exactly-once"]


def test_the_prepared_state_is_judged_as_well() -> None:
    """A recovery that repeats what was finished long ago is the worst of all."""
    state = finished()
    effect = state.ledgers[0]["effects"][0]
    state.ledgers[1]["effects"].append(copy.deepcopy(effect))
    assert list(failed(state.judge("killed"))) == ["effects-exactly-once"]
    short = finished()
    short.records = short.records[:3]
    short.history.clear()
    assert "legal-state" in failed(short.judge("killed"))


def test_a_record_that_is_not_canonical_is_found() -> None:
    """Canonical JSON is part of the format: bit for bit is meant so."""
    state = finished()
    files = state.files()
    active = max(p for p in files if p.endswith(".open"))
    files[active] += frame(len(state.records) + 1, b'{"r": "attempt"}')
    found: dict[str, Any] = state.judge("killed", files)
    assert found["legal-state"]["differs"]["why"] == "not canonical JSON"
    assert canonical({"b": 1, "a": "ä"}) == b'{"a":"\\u00e4","b":1}'
