"""What the clients write down of a request: answered, refused, or why nobody knows."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from clients_process import LIMITS, Clients, Daemon, draft, op, scenario
from kernel_process import Record

Start = Callable[..., tuple[Clients, Daemon]]
NEW = op(1, 1, "chat/new", chat="c1")
THEN = op(9, 1, "chat/list")


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Clients and a daemon, with the operations of a first life under way."""
    with ExitStack() as stack:

        def start(*ops: Record, **limits: int) -> tuple[Clients, Daemon]:
            daemon = Daemon(tmp_path / "daemon.sock")
            stack.callback(daemon.kill)
            clients = Clients(tmp_path / "daemon.sock", scenario(list(ops), limits=LIMITS | limits))
            stack.callback(clients.close)
            clients.say(do="life", life=1)
            return clients, daemon

        yield start


def test_a_request_is_written_before_it_is_sent_and_again_when_it_is_answered(start: Start) -> None:
    """The oracle orders requests by their lines: an answer without a line before it would have no place in time."""
    clients, _ = start(NEW, draft(2, 1, "d2"))
    clients.wait_for("done", life=1)

    assert [line["event"] for line in clients.lines()] == ["up", "invoke", "ok", "invoke", "ok", "done"]
    invoke, ok = clients.of_step(2)
    assert invoke == {
        "event": "invoke", "life": 1, "id": 2, "step": 2, "client": 1, "op": "draft/set",
        "args": {"chat": "c1", "text": "d2"}, "at_ms": invoke["at_ms"],
    }  # fmt: skip
    assert ok == {"event": "ok", "id": 2, "result": {}, "at_ms": ok["at_ms"]}
    assert 0 < invoke["at_ms"] <= ok["at_ms"]


def test_a_refusal_is_a_fail_with_its_code(start: Start) -> None:
    """What was refused was not done; taken for an unknown outcome it could explain anything later."""
    clients, _ = start(draft(1, 1, "d1", chat="c7"))
    fail = clients.ending(1)

    assert fail["event"] == "fail"
    assert fail["error"] == {"code": -32001, "message": "no such chat: 'c7'"}


def test_clients_work_side_by_side_and_each_waits_for_its_own_answers(start: Start) -> None:
    """Requests of several clients must be in flight together: that is what the campaign is about."""
    clients, _ = start(NEW, op(2, 2, "pause", ms=200), draft(3, 2, "delay 400"), draft(4, 2, "d4"),
                       op(5, 3, "pause", ms=250), op(6, 3, "chat/list"), timeout_ms=5000)  # fmt: skip
    clients.wait_for("done", life=1)

    order = [(line["event"], line.get("step")) for line in clients.lines("invoke")]
    assert order == [("invoke", 1), ("invoke", 3), ("invoke", 6), ("invoke", 4)]
    assert clients.ending(6)["at_ms"] < clients.ending(3)["at_ms"] <= clients.of_step(4)[0]["at_ms"]


def test_a_request_in_flight_at_the_death_is_cut_and_its_client_sends_no_more(start: Start) -> None:
    """A cut request may have landed. Whoever sends on would write down operations that never had a daemon."""
    clients, daemon = start(NEW, draft(2, 1, "hang"), THEN)
    clients.wait_for("invoke", step=2)
    daemon.kill()
    cut = clients.ending(2)
    clients.wait_for("done", life=1)
    clients.killed()

    assert (cut["event"], cut["why"]) == ("info", "cut")
    assert clients.lines("invoke", step=9) == []
    assert [line["event"] for line in clients.lines()][-2:] == ["done", "gone"]


def test_a_torn_answer_is_no_answer(start: Start) -> None:
    """A daemon that dies inside its answer has not given it."""
    clients, daemon = start(NEW, draft(2, 1, "torn"))
    daemon.wait()

    assert clients.ending(2)["why"] == "cut"


def test_an_answer_that_came_before_the_death_counts_however_late_it_is_read(start: Start) -> None:
    """The clients may hear of the kill first: a promise given just before it must not be lost, it is the best one."""
    clients, daemon = start(
        NEW, draft(2, 1, "hang"), op(3, 2, "pause", ms=200), draft(4, 2, "last-words"), timeout_ms=9000
    )
    daemon.until_heard()
    clients.stop()
    clients.say(do="killed", life=1)
    daemon.speak()
    clients.go_on()
    clients.wait_for("gone", life=1)

    assert clients.ending(4)["event"] == "ok"
    assert clients.ending(2)["why"] == "cut"


def test_a_late_answer_is_a_timeout_and_the_client_goes_on_over_a_new_connection(start: Start) -> None:
    """The old connection may bring the late answer yet, which would be taken for that of the next request."""
    clients, _ = start(NEW, draft(2, 1, "delay 400"), THEN)
    late = clients.ending(2)

    assert (late["event"], late["why"]) == ("info", "timeout")
    assert late["at_ms"] - clients.of_step(2)[0]["at_ms"] >= 300
    assert clients.ending(9)["event"] == "ok"


def test_a_connection_closed_by_a_living_daemon_is_told_from_a_death(start: Start) -> None:
    """Both end the connection; one of them is a fault of the daemon."""
    clients, _ = start(NEW, draft(2, 1, "close"), THEN)

    assert clients.ending(2)["why"] == "closed"
    assert clients.ending(9)["event"] == "ok"


def test_a_cut_is_dated_when_the_connection_ended_not_when_it_was_understood(start: Start) -> None:
    """A request that a kill cut has waited until the kill: a second more could pass for a stall."""
    clients, _ = start(NEW, draft(2, 1, "close-and-mute"), THEN)
    invoke = clients.wait_for("invoke", step=2)
    time.sleep(0.5)
    clients.killed()

    assert clients.ending(2)["why"] == "cut"
    assert clients.ending(2)["at_ms"] - invoke["at_ms"] < 400


def test_a_daemon_that_closes_and_answers_nobody_else_counts_as_dead_after_a_second(start: Start) -> None:
    """Nothing may wait for ever for a daemon that is neither alive nor gone."""
    clients, _ = start(NEW, draft(2, 1, "close-and-mute"), THEN)

    assert clients.ending(2)["why"] == "cut"
    assert clients.ending(2)["at_ms"] - clients.of_step(2)[0]["at_ms"] < 900, "it is dated when the connection ended"
    clients.wait_for("done", life=1)


@pytest.mark.parametrize("said", ["no JSON", "[]", '{"id": 99, "result": {}}', '{"id": 2}'])
def test_what_is_no_answer_is_written_down_and_the_connection_given_up(start: Start, said: str) -> None:
    """A daemon whose answers cannot be told apart answers nothing: it must not pass for a request that was answered."""
    clients, _ = start(NEW, draft(2, 1, f"say {said}"), THEN)
    end = clients.ending(2)

    assert (end["event"], end["why"]) == ("info", "closed")
    assert "not" in end["what"]
    assert clients.ending(9)["event"] == "ok"


def test_a_notification_is_no_answer_and_no_fault(start: Start) -> None:
    """JSON-RPC lets a daemon say more than it was asked."""
    clients, _ = start(NEW, draft(2, 1, "notify"))

    assert clients.ending(2)["event"] == "ok"
