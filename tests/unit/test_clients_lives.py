"""The clients through the lives of a daemon: up, checks, the end of a life and of a trial, and what is no script."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import psutil
import pytest
from clients_process import Clients, Daemon, draft, op, scenario
from kernel_process import Record

NEW = op(1, 1, "chat/new", chat="c1")
LATER = [op(30, 1, "chat/list")]


class Stage:
    """One home of a daemon that forgets, and the clients of one script."""

    def __init__(self, path: Path, stack: ExitStack) -> None:
        self._path = path
        self._stack = stack

    def clients(self, *lives: list[Record]) -> Clients:
        """Without a life they have no script yet."""
        clients = Clients(self._path, scenario(*lives) if lives else None)
        self._stack.callback(clients.close)
        return clients

    def daemon(self, *how: str) -> Daemon:
        daemon = Daemon(self._path, *how)
        self._stack.callback(daemon.kill)
        return daemon

    def second_life(self, *first: Record, ops: tuple[Record, ...] = ()) -> tuple[Clients, Daemon]:
        """Clients that have seen a first life and its kill, and begin a second one, its operations `ops`."""
        clients = self.clients(list(first), list(ops))
        daemon = self.daemon()
        clients.say(do="life", life=1)
        clients.wait_for("done", life=1)
        daemon.kill()
        clients.killed(1)
        clients.say(do="life", life=2)
        return clients, self.daemon()


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[Stage]:
    with ExitStack() as stack:
        yield Stage(tmp_path / "daemon.sock", stack)


# Up


def test_clients_wait_for_a_daemon_that_is_not_there_yet(stage: Stage) -> None:
    """A container takes its time to start, and a dead daemon's socket is still there: neither is a fault."""
    clients = stage.clients([NEW])
    clients.say(do="life", life=1)
    time.sleep(0.1)
    stage.daemon()
    clients.wait_for("up", life=1)
    clients.wait_for("done", life=1)


def test_a_daemon_that_listens_but_does_not_answer_is_not_up(stage: Stage) -> None:
    """Up is the first answer. Connected is not: the controller's deadline must see a start that hangs."""
    clients = stage.clients([NEW])
    clients.say(do="life", life=1)
    began = time.monotonic()
    stage.daemon("500")
    up = clients.wait_for("up", life=1)

    assert time.monotonic() - began > 0.5
    assert clients.lines()[0] == up, "what it is asked before it is up is none of its requests"


def test_a_daemon_killed_before_it_is_up_leaves_nothing_but_gone(stage: Stage) -> None:
    """A kill may hit the recovery: no request was ever sent to that life."""
    clients = stage.clients([NEW], LATER)
    clients.say(do="life", life=1)
    daemon = stage.daemon("60000")
    time.sleep(0.1)
    daemon.kill()
    clients.killed(1)
    assert [line["event"] for line in clients.lines()] == ["gone"]

    stage.daemon()
    clients.say(do="life", life=2)
    clients.wait_for("done", life=2)


# Checks


def test_a_check_reads_each_chat_that_is_listed_or_was_ever_asked_for(stage: Stage) -> None:
    """A lost chat is in no list: only who asks for it by name learns that it is gone."""
    clients, _ = stage.second_life(NEW, op(2, 2, "chat/new", chat="lost"), ops=(op(30, 1, "chat/new", chat="c3"),))
    check = clients.wait_for("check", life=2)
    assert check["observed"] == {"chats": [], "read": {"c1": None, "lost": None}}
    assert check["final"] is False

    clients.wait_for("done", life=2)
    clients.say(do="settle")
    final = clients.wait_for("check", final=True)
    assert final["observed"]["chats"] == ["c3"]
    assert set(final["observed"]["read"]) == {"c3", "c1", "lost"}
    assert final["observed"]["read"]["c3"]["draft"] == ""


def test_the_operations_of_a_life_follow_its_check(stage: Stage) -> None:
    """A check must see what the kill left, before anybody writes on."""
    clients, _ = stage.second_life(NEW, ops=(op(30, 2, "chat/list"),))
    clients.wait_for("done", life=2)

    invoked = [(line["step"], line["client"], line["op"]) for line in clients.lines("invoke", life=2)]
    assert invoked == [(0, 0, "chat/list"), (0, 0, "chat/read"), (30, 2, "chat/list")]
    events = [line["event"] for line in clients.lines()]
    assert events.index("check") < len(events) - 1 - events[::-1].index("invoke")


def test_a_check_that_could_not_read_everything_is_none(stage: Stage) -> None:
    """A chat that did not answer must not look like one that is not there."""
    clients, _ = stage.second_life(NEW, op(2, 1, "chat/new", chat="stuck"), ops=tuple(LATER))
    clients.wait_for("done", life=2)

    failed = clients.wait_for("check-failed", life=2)
    assert failed["why"] == "chat/read of stuck: no answer (timeout)"
    assert clients.lines("check") == []
    assert clients.ending(30)["event"] == "ok", "the daemon lives: its life goes on"


def test_a_kill_in_a_check_ends_it(stage: Stage) -> None:
    """Clients that waited for the rest of the check would wait for ever."""
    clients, daemon = stage.second_life(NEW, op(2, 1, "chat/new", chat="stuck"), ops=tuple(LATER))
    clients.wait_for("invoke", op="chat/read", args={"chat": "stuck"})
    daemon.kill()
    clients.killed(2)

    assert clients.lines("info")[0]["why"] == "cut"
    assert clients.lines("check") == clients.lines("invoke", step=30) == []


# The end of a life


def test_a_kill_ends_a_pause_at_once(stage: Stage) -> None:
    """A client that slept on would send its next operation to the next life."""
    clients = stage.clients([op(1, 1, "pause", ms=60_000), op(2, 1, "chat/list")])
    daemon = stage.daemon()
    clients.say(do="life", life=1)
    clients.wait_for("up", life=1)
    daemon.kill()
    clients.killed(1)

    assert [line["event"] for line in clients.lines()] == ["up", "gone"]


def test_a_kill_after_the_operations_is_answered_by_gone_alone(stage: Stage) -> None:
    """Every life but the last ends with a kill, most of them while nothing waits."""
    clients = stage.clients([NEW])
    daemon = stage.daemon()
    clients.say(do="life", life=1)
    clients.wait_for("done", life=1)
    before = len(clients.lines())
    daemon.kill()
    clients.killed(1)

    assert clients.lines()[before:] == [{"event": "gone", "life": 1}]


def test_a_daemon_that_never_gets_idle_is_checked_all_the_same(stage: Stage) -> None:
    """Work that never ends is for the oracle to judge; the clients must not wait for it for ever."""
    clients = stage.clients([op(1, 1, "chat/new", chat="busy")])
    stage.daemon()
    clients.say(do="life", life=1)
    clients.wait_for("done", life=1)
    clients.say(do="settle")
    clients.wait_for("check", final=True)

    assert clients.lines("settled") == [{"event": "settled", "idle": False}]
    asked = clients.lines("invoke", op="status")
    assert len(asked) > 2
    assert asked[-1]["at_ms"] - asked[0]["at_ms"] < 2000


def test_the_end_of_the_input_ends_the_clients_and_their_heartbeat(stage: Stage) -> None:
    """A controller that died must leave nobody behind who holds the pipe."""
    clients = stage.clients([draft(1, 1, "hang")])
    stage.daemon()
    clients.say(do="life", life=1)
    clients.wait_for("invoke", step=1)
    (heartbeat,) = psutil.Process(clients.process.pid).children()

    assert clients.end() == 0
    until = time.monotonic() + 5
    while heartbeat.is_running() and heartbeat.status() != psutil.STATUS_ZOMBIE:  # whose reaping is not ours
        assert time.monotonic() < until, "the heartbeat goes on"
        time.sleep(0.01)


# The machine


def test_a_machine_that_stood_still_is_told_by_a_heartbeat_of_its_own(stage: Stage) -> None:
    """A request that waited for the machine must not be held against the daemon."""
    clients = stage.clients([NEW])
    stage.daemon()
    clients.say(do="life", life=1)
    clients.wait_for("done", life=1)
    (heartbeat,) = psutil.Process(clients.process.pid).children()
    os.kill(heartbeat.pid, signal.SIGSTOP)
    time.sleep(0.4)
    os.kill(heartbeat.pid, signal.SIGCONT)
    clients.wait_for("still")
    clients.killed(1)

    longest = max(line["ms"] for line in clients.lines("still"))
    assert 300 < longest < 5000


def test_a_controller_that_does_not_read_does_not_stop_the_clients(stage: Stage) -> None:
    """Clients that stood still at a full pipe would take their own wait for the daemon's."""
    reads = [op(step, 1, "chat/read", chat="heavy") for step in range(3, 33)]
    began = time.monotonic()
    clients = stage.clients([op(1, 1, "chat/new", chat="heavy"), *reads])
    stage.daemon()
    clients.say(do="life", life=1)
    time.sleep(1)  # more than twice what the pipe holds is written meanwhile
    unread_ms = (time.monotonic() - began) * 1000
    clients.wait_for("done", life=1)

    written = clients.lines("invoke", "ok")
    assert len(written) == 2 * 31
    assert written[-1]["at_ms"] < unread_ms


# What is no script

BAD = {
    "format": scenario([NEW], format=1),
    "adapter": scenario([NEW], adapter="carrier-pigeon"),
    "carrier_pigeon": scenario([NEW], adapter="carrier_pigeon"),
    "no operation 'chat/burn'": scenario([op(1, 1, "chat/burn")]),
    "no adapter 'redis'": scenario([NEW], adapter="redis"),  # that of a subject, in an image of its own
    "client of step 1 is 4": scenario([op(1, 4, "chat/list")]),
    "clients is 65": scenario([NEW], clients=65),
    "ms of step 1 is -1": scenario([op(1, 1, "pause", ms=-1)]),
    "KeyError: 'lives'": {name: part for name, part in scenario([NEW]).items() if name != "lives"},
}


@pytest.mark.parametrize("part", BAD)
def test_a_script_that_is_not_understood_is_refused_whole(stage: Stage, part: str) -> None:
    """Half a script would be a trial that tests something else than it says."""
    clients = stage.clients()
    clients.say(do="script", scenario=BAD[part])

    assert part in clients.wait_for("error")["what"]
    assert clients.process.wait(5) == 64


@pytest.mark.parametrize("line", [b"no JSON", b"{}", b'{"do": "life", "life": 3}', b'{"do": "killed", "life": 1}',
                                  b'{"do": "settle"}', b'{"do": "script", "scenario": {}}'])  # fmt: skip
def test_a_command_out_of_place_is_an_error(stage: Stage, line: bytes) -> None:
    """The controller and the clients must agree on which life runs."""
    clients = stage.clients([NEW])
    clients.say_line(line)

    assert clients.wait_for("error")["what"]
    assert clients.process.wait(5) == 64


def test_a_life_begins_only_after_the_one_before_was_killed(stage: Stage) -> None:
    """Two lives at once would mix their requests."""
    clients = stage.clients([NEW], LATER)
    clients.say(do="life", life=1)
    clients.say(do="life", life=2)

    assert "life 2 begins before life 1 was killed" in clients.wait_for("error")["what"]


def test_a_fault_of_the_clients_own_is_in_the_history(stage: Stage) -> None:
    """Clients that just ended would look like a daemon that was asked for little."""
    clients = stage.clients([op(1, 1, "chat/new")])
    stage.daemon()
    clients.say(do="life", life=1)

    assert "KeyError: 'chat'" in clients.wait_for("error")["what"]
    assert clients.process.wait(5) == 70
