"""The effect ledger as a real process over real sockets: it is the only witness of what really happened."""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

LEDGER = Path(__file__).parents[2] / "images" / "system" / "ledger" / "ledger"
DEADLINE_S = 10.0


class Ledger:
    """The service and its controller's end."""

    def __init__(self, folder: Path) -> None:
        (folder / "sockets").mkdir(exist_ok=True)
        environment = {**os.environ, "LEDGER_SOCKETS": str(folder / "sockets"), "LEDGER_STORE": str(folder)}
        self.process = subprocess.Popen(
            [sys.executable, "-I", "-S", "-B", str(LEDGER)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment,
        )  # fmt: skip
        self.ident = 0

    def ask(self, do: str, trial: str = "t1", **more: Any) -> dict[str, Any]:
        self.ident += 1
        answer = self.raw(json.dumps({"id": self.ident, "do": do, "trial": trial, **more}).encode() + b"\n")
        assert answer["id"] == self.ident
        return answer

    def raw(self, line: bytes) -> dict[str, Any]:
        assert self.process.stdin and self.process.stdout
        self.process.stdin.write(line)
        self.process.stdin.flush()
        ready, _, _ = select.select([self.process.stdout], [], [], DEADLINE_S)
        assert ready, "the ledger says nothing"
        return json.loads(self.process.stdout.readline())

    def open(self, trial: str = "t1", **rules: list[Any]) -> str:
        return self.ask("open", trial, rules=rules)["socket"]

    def snapshot(self, trial: str = "t1") -> dict[str, Any]:
        return self.ask("snapshot", trial)["ledger"]

    def results(self, trial: str = "t1") -> list[str]:
        return [request["result"] for request in self.snapshot(trial)["requests"]]

    def await_requests(self, count: int, trial: str = "t1") -> list[dict[str, Any]]:
        """The trial's requests, once there are `count`: a sender that gets no answer cannot say that it was heard."""
        until = time.monotonic() + DEADLINE_S
        while time.monotonic() < until:
            if len(found := self.snapshot(trial)["requests"]) >= count:
                return found
            time.sleep(0.005)
        raise AssertionError(f"no {count} requests in time")

    def kill(self) -> None:
        self.process.send_signal(signal.SIGKILL)
        self.process.wait(DEADLINE_S)

    def end(self) -> None:
        for pipe in (self.process.stdin, self.process.stdout):
            assert pipe
            with contextlib.suppress(BrokenPipeError):
                pipe.close()
        try:
            self.process.wait(DEADLINE_S)
        finally:
            self.process.kill()


class Sender:
    """A subject's connection."""

    def __init__(self, path: str) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(DEADLINE_S)
        self.sock.connect(path)
        self.answers = self.sock.makefile("rb")

    def write(self, data: bytes) -> None:
        self.sock.sendall(data)

    def read(self) -> dict[str, Any] | None:
        try:
            line = self.answers.readline()
        except ConnectionResetError:
            return None
        return json.loads(line) if line else None

    def ask(self, **request: Any) -> dict[str, Any] | None:
        self.write(line(**request))
        return self.read()

    def die(self) -> None:
        self.answers.close()
        self.sock.close()


def line(**request: Any) -> bytes:
    return json.dumps(request).encode() + b"\n"


def nested(depth: int) -> list[Any]:
    """A list in a list in a list."""
    found: list[Any] = []
    for _ in range(depth - 1):
        found = [found]
    return found


def send(effect: str, klass: str = "once", token: int = 1, key: str | None = None, **more: Any) -> dict[str, Any]:
    return {"do": "send", "effect": effect, "class": klass, "key": key or effect, "token": token,
            "tool": "charge", "args": {"amount": 17}, **more}  # fmt: skip


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[Ledger]:
    service = Ledger(tmp_path)
    yield service
    service.end()


def test_only_keyed_effects_are_deduped_and_pure_ones_never_land(ledger: Ledger) -> None:
    """A ledger that deduped `once` would hide every double effect that a subject makes."""
    sender = Sender(ledger.open())
    keyed = [sender.ask(**send("k", "keyed")) for _ in range(2)]
    once = [sender.ask(**send("o", key="k")) for _ in range(2)]  # a key of a keyed effect means nothing here
    pure = [sender.ask(**send("p", "pure")) for _ in range(2)]
    assert keyed[0] == keyed[1]
    assert once[0] != once[1]
    assert pure[0] == pure[1] and pure[0]["receipt"]
    seen = ledger.snapshot()
    assert [r["result"] for r in seen["requests"]] == ["landed", "deduped", "landed", "landed", "computed", "computed"]
    assert [(e["effect"], e["request"]) for e in seen["effects"]] == [("k", 1), ("o", 4), ("o", 6)]
    assert [e["receipt"] for e in seen["effects"]] == [keyed[0]["receipt"], once[0]["receipt"], once[1]["receipt"]]
    assert sorted(x["seq"] for x in seen["requests"] + seen["effects"]) == list(range(1, 10))


def test_a_snapshot_has_exactly_the_documented_shape(ledger: Ledger) -> None:
    """The verifier, which shares no code with this service, reads these keys."""
    sender = Sender(ledger.open())
    receipt = sender.ask(**send("e", "keyed", 3))["receipt"]
    sender.ask(do="fence", effect="e", token=5)
    sender.ask(do="receipt", effect="e")
    assert ledger.snapshot() == {
        "requests": [
            {"seq": 1, "do": "send", "effect": "e", "class": "keyed", "key": "e", "token": 3,
             "result": "landed", "reply": "sent"},
            {"seq": 3, "do": "fence", "effect": "e", "token": 5, "result": "raised", "reply": "sent"},
            {"seq": 4, "do": "receipt", "effect": "e", "result": "found", "reply": "sent"},
        ],
        "effects": [
            {"seq": 2, "effect": "e", "key": "e", "class": "keyed", "tool": "charge", "args": {"amount": 17},
             "request": 1, "receipt": receipt},
        ],
    }  # fmt: skip


def test_a_fence_refuses_lower_tokens_and_never_sinks(ledger: Ledger) -> None:
    """A recovery that is itself killed raises its fence again, perhaps with an older token."""
    sender = Sender(ledger.open())
    sender.ask(do="fence", effect="e", token=5)
    sender.ask(do="fence", effect="e", token=2)
    assert sender.ask(**send("e", token=4)) == {"ok": False, "why": "fenced"}
    assert sender.ask(**send("other", token=4))["ok"]
    assert sender.ask(**send("e", token=5))["ok"]
    assert ledger.results() == ["raised", "raised", "fenced", "landed", "landed"]


def test_a_receipt_question_tells_landed_from_declined_from_never_seen(ledger: Ledger) -> None:
    """A recovery that takes "declined" for "never seen" sends again what the outside has refused."""
    sender = Sender(ledger.open(decline=["d"]))
    assert sender.ask(do="receipt", effect="d") == {"ok": True, "receipt": None, "declined": False}
    assert sender.ask(**send("d")) == {"ok": False, "why": "declined"}
    assert sender.ask(do="receipt", effect="d") == {"ok": True, "receipt": None, "declined": True}
    landed = sender.ask(**send("e"))["receipt"]
    assert sender.ask(do="receipt", effect="e") == {"ok": True, "receipt": landed, "declined": False}
    assert ledger.results() == ["none", "declined", "declined", "landed", "found"]


def test_a_lost_reply_is_done_and_only_the_first_is_lost(ledger: Ledger) -> None:
    """The classic: it happened, and the one who asked does not know."""
    path = ledger.open(lose_reply=["e"])
    assert Sender(path).ask(**send("e", "keyed")) is None
    assert Sender(path).ask(**send("e", "keyed"))["ok"]
    seen = ledger.snapshot()
    assert [(r["result"], r["reply"]) for r in seen["requests"]] == [("landed", "lost"), ("deduped", "sent")]
    assert len(seen["effects"]) == 1


def test_without_a_fence_the_held_request_lands_right_after_the_answer_that_it_had_not(ledger: Ledger) -> None:
    """The planted bug "receipt asked without a fence": the late request and the second one both land."""
    path = ledger.open(hold=[1])
    first = Sender(path)
    first.write(line(**send("e", token=1)))
    assert ledger.await_requests(1)[0]["result"] == "held"
    first.die()
    second = Sender(path)
    second.write(line(do="receipt", effect="e") + line(**send("e", token=2)))  # at once: nothing may come between
    assert second.read() == {"ok": True, "receipt": None, "declined": False}
    assert second.read()["ok"]
    seen = ledger.snapshot()
    assert [(r["seq"], r["result"], r["reply"]) for r in seen["requests"]] == [
        (1, "landed", "none"), (2, "none", "sent"), (4, "landed", "sent")]  # fmt: skip
    assert [(e["seq"], e["request"]) for e in seen["effects"]] == [(3, 1), (5, 4)]


def test_with_a_fence_the_held_request_loses_the_race(ledger: Ledger) -> None:
    """The good recovery: fence, receipt, send; exactly one effect."""
    path = ledger.open(hold=[1])
    first = Sender(path)
    first.write(line(**send("e", token=1)))
    ledger.await_requests(1)
    first.die()
    second = Sender(path)
    second.ask(do="fence", effect="e", token=2)
    assert second.ask(do="receipt", effect="e")["receipt"] is None
    assert second.ask(**send("e", token=2))["ok"]
    assert ledger.results() == ["fenced", "raised", "none", "landed"]
    assert len(ledger.snapshot()["effects"]) == 1


def test_a_held_request_waits_for_its_own_effect_and_for_its_senders_death(ledger: Ledger) -> None:
    """A question about something else, or while the sender lives, decides nothing."""
    path = ledger.open(hold=[2])
    first, second = Sender(path), Sender(path)
    first.ask(**send("a"))
    first.write(line(**send("b")) + line(**send("c")))  # `c` stands behind `b`: answers come in order
    ledger.await_requests(2)
    second.ask(do="receipt", effect="b")
    assert ledger.results() == ["landed", "held", "none"]
    first.die()
    second.ask(do="receipt", effect="a")
    assert ledger.results() == ["landed", "held", "none", "found"]
    second.ask(do="receipt", effect="b")
    assert ledger.results() == ["landed", "landed", "none", "found", "none", "landed"]


def test_a_drain_decides_what_is_held_and_reads_what_was_sent(ledger: Ledger) -> None:
    """An effect that lands after the last look would be seen by nobody."""
    path = ledger.open(hold=[1])
    alive, dead = Sender(path), Sender(path)
    alive.write(line(**send("a")))
    ledger.await_requests(1)
    dead.write(line(**send("b")))
    dead.die()
    drained = ledger.ask("drain")["ledger"]
    assert {e["effect"] for e in drained["effects"]} == {"a", "b"}
    assert {r["result"] for r in drained["requests"]} == {"landed"}
    assert alive.read()["ok"]


def test_a_complete_line_of_a_dead_sender_is_executed_and_an_incomplete_one_is_not(ledger: Ledger) -> None:
    """A sender killed in the middle of a write asked for nothing; one killed after it did."""
    path = ledger.open()
    sender = Sender(path)
    sender.write(line(**send("whole")) + line(**send("torn"))[:-1])
    sender.die()
    drained = ledger.ask("drain")["ledger"]
    assert [(r["effect"], r["result"]) for r in drained["requests"]] == [("whole", "landed")]


def test_a_kill_of_the_ledger_loses_nothing_that_was_answered(tmp_path: Path) -> None:
    """Commit before reply: the judge of crashes has to survive one."""
    first = Ledger(tmp_path)
    path = first.open(hold=[3])
    sender = Sender(path)
    answers = [sender.ask(**send(name))["receipt"] for name in ("a", "b")]
    sender.write(line(**send("c")))
    first.await_requests(3)
    first.kill()
    first.end()
    second = Ledger(tmp_path)
    try:
        assert second.open() == path
        seen = second.snapshot()
        assert [(e["effect"], e["receipt"]) for e in seen["effects"]] == list(zip(["a", "b"], answers, strict=True))
        assert [r["result"] for r in seen["requests"]] == ["landed", "landed", "held"]
        assert Sender(path).ask(do="receipt", effect="c")["receipt"] is None
        assert second.results() == ["landed", "landed", "landed", "none"]
    finally:
        second.end()


def test_trials_see_nothing_of_each_other_and_close_leaves_nothing(ledger: Ledger) -> None:
    """The same effect, key and token in two trials are two effects; a closed trial can be opened anew, empty."""
    one, two = ledger.open("one"), ledger.open("two", decline=["x"])
    assert Sender(one).ask(**send("k", "keyed"))["ok"]
    assert [path.name for path in Path(one).parent.iterdir()] == ["socket"], "a folder of its own, with no other socket"
    assert Sender(two).ask(do="receipt", effect="k")["receipt"] is None
    assert Sender(two).ask(**send("k", "keyed"))["ok"]
    assert Sender(one).ask(**send("x"))["ok"]
    assert ledger.results("two") == ["none", "landed"]
    assert ledger.ask("close", "one") == {"id": ledger.ident, "ok": True}
    assert not Path(one).parent.exists()
    assert ledger.results("two") == ["none", "landed"]
    ledger.open("one")
    assert ledger.snapshot("one") == {"requests": [], "effects": []}


@pytest.mark.parametrize(
    "bad",
    [
        b"\n", b"nonsense\n", b"\xff\xfe\n", b"[]\n", b"[" * 50_000 + b"\n", b'{"do":"delete"}\n',
        line(do="send", effect="e", token=1), line(**send("e", "twice")), line(**send("", "once")),
        line(**{**send("e", "keyed"), "key": None}), line(**send("e", token="1")), line(**send("e", token=True)),
        line(**send("e", args="DEEP")).replace(b'"DEEP"', b"[" * 980 + b"]" * 980),
        line(**send("e", args={"a": nested(40)})), line(**send("e", args=1e999)),
        line(**send("e", args=[{"x": float("nan")}])), line(do="fence", effect="e", token=1, more=nested(40)),
        line(**send("e", token=2**70)), line(**send("\ud800")), line(**send("e" * 10_000)),
        line(do="fence", effect="e"),
    ],
)  # fmt: skip
def test_a_malformed_request_is_answered_recorded_and_changes_nothing(ledger: Ledger, bad: bytes) -> None:
    """A subject's bug is the subject's: the ledger says what is wrong and stays."""
    sender = Sender(ledger.open())
    sender.write(bad)
    answer = sender.read()
    assert answer and not answer["ok"] and answer["why"].startswith("malformed: ")
    assert sender.ask(**send("good"))["ok"]
    seen = ledger.snapshot()
    assert [r["result"] for r in seen["requests"]] == ["malformed", "landed"]
    assert [e["effect"] for e in seen["effects"]] == ["good"]


def test_a_line_without_end_and_a_crowd_of_connections_are_bounded(ledger: Ledger) -> None:
    """One broken subject may not take the memory or the descriptors of all the others."""
    path = ledger.open()
    sender = Sender(path)
    with contextlib.suppress(BrokenPipeError, ConnectionResetError):
        for _ in range(64):
            sender.write(b"x" * 65_536)
    assert "longer than" in sender.read()["why"]
    crowd = [Sender(path) for _ in range(25)]
    assert "connections" in crowd[-1].read()["why"]
    assert crowd[0].ask(**send("still"))["ok"]
    assert ledger.results() == ["malformed", "malformed", "landed"]


def test_arguments_as_deep_as_is_allowed_come_back_as_they_were(ledger: Ledger) -> None:
    """The bound counts the request itself: an honest sender's arguments may be nested 31 deep."""
    sender = Sender(ledger.open())
    assert sender.ask(**send("e", args=nested(31)))["ok"]
    assert "nested more than 32 deep" in sender.ask(**send("f", args=nested(32)))["why"]
    assert ledger.snapshot()["effects"][0]["args"] == nested(31)


@pytest.mark.parametrize(
    ("request_line", "recorded"),
    [(b"[]\n", 10_001), (line(**send("e", "pure", args="x" * 100_000)), 168)],
    ids=["many", "large"],
)
def test_a_flood_of_requests_is_refused_and_recorded_once(ledger: Ledger, request_line: bytes, recorded: int) -> None:
    """Planted: no bound on a trial's requests; its snapshot then outgrows the service's memory."""
    path = ledger.open()
    sender = Sender(path)
    for _ in range(recorded):
        sender.write(request_line)
        answer = sender.read()
        assert answer
    assert "more than 10000 requests" in answer["why"]
    assert sender.read() is None
    for _ in range(3):
        late = Sender(path)
        late.write(line(**send("late")))
        assert late.read() is None
    assert len(ledger.results()) == recorded
    assert Sender(ledger.open("other")).ask(**send("e"))["ok"]


def test_a_sender_that_never_reads_its_answers_stops_nobody(ledger: Ledger) -> None:
    """The loop has one thread: a full socket buffer must not block it."""
    path = ledger.open()
    deaf = Sender(path)
    deaf.sock.settimeout(0.2)
    with contextlib.suppress(TimeoutError, BrokenPipeError, ConnectionResetError):
        for _ in range(4_000):
            deaf.write(b"\n" * 64)
    assert Sender(path).ask(**send("e"))["ok"]


@pytest.mark.parametrize(
    ("bad", "says"),
    [
        (b"nonsense\n", "not a control request"),
        (b'{"id":7,"do":"open","trial":"../up"}\n', "letters"),
        (b'{"id":7,"do":"dance","trial":"t1"}\n', "none of"),
        (b'{"id":7,"do":"snapshot","trial":"never"}\n', "not open"),
        (b'{"id":7,"do":"open","trial":"t1","rules":{"hold":[0]}}\n', "hold"),
        (b'{"id":7,"do":"open","trial":"t1","rules":{"declin":["e"]}}\n', "unknown rules: declin"),
    ],
)
def test_a_bad_control_line_is_answered_with_an_error(ledger: Ledger, bad: bytes, says: str) -> None:
    """A mistyped rule that was ignored would make a test that cannot fail."""
    answer = ledger.raw(bad)
    assert not answer["ok"] and says in answer["error"]
    assert ledger.ask("open", "other")["ok"]


def test_open_trials_are_bounded_and_a_name_is_open_once(ledger: Ledger) -> None:
    """A controller that forgets to close its trials is told so."""
    for n in range(32):
        ledger.open(f"n{n}")
    assert "already open" in ledger.ask("open", "n0")["error"]
    assert "close one" in ledger.ask("open", "n32")["error"]


@pytest.mark.parametrize("do", ["close", "drain"])
def test_a_connection_closed_while_it_has_something_to_say_ends_nothing_but_itself(ledger: Ledger, do: str) -> None:
    """A run of the fuzz campaign ended with it: a trial was closed in the moment in which its daemon's agent died."""
    sender = Sender(ledger.open("t1"))
    assert sender.ask(**send("e1"))
    assert ledger.process.stdin and ledger.process.stdout
    ledger.process.send_signal(signal.SIGSTOP)  # so that both are there when it looks, the controller's first
    ledger.process.stdin.write(json.dumps({"id": 9, "do": do, "trial": "t1"}).encode() + b"\n")
    ledger.process.stdin.flush()
    sender.die()
    ledger.process.send_signal(signal.SIGCONT)
    assert select.select([ledger.process.stdout], [], [], DEADLINE_S)[0]
    assert json.loads(ledger.process.stdout.readline())["ok"]
    assert Sender(ledger.open("t2")).ask(**send("e2"))


def test_it_ends_by_itself_and_clean_when_its_controller_is_gone(tmp_path: Path) -> None:
    """A `kill -9` of the lab may not leave services behind."""
    service = Ledger(tmp_path)
    path = service.open(hold=[1])
    Sender(path).write(line(**send("e")))
    service.await_requests(1)
    service.end()
    assert service.process.returncode == 0
    assert not Path(path).exists()
