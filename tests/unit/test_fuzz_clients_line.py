"""The clients' lines as the controller reads them: kept in order, counted by life, never believed blindly."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, cast

import pytest

from lab.engine.errors import DeadlinePassed
from lab.model import Json
from lab.trial import clients
from lab.trial.clients import MAX_LINE_BYTES, MAX_LINES, Clients, History

LEAST: Json = {  # of what an event carries beside what a test is about
    "invoke": {"at_ms": 1.0},
    "ok": {"at_ms": 2.0},
    "fail": {"at_ms": 2.0},
    "info": {"at_ms": 2.0},
    "check": {"final": False, "observed": {}},
    "check-failed": {"why": "no answer"},
    "still": {"ms": 3.0, "at_ms": 4.0},
}


def whole(event: Json) -> Json:
    return {**LEAST.get(event["event"], {}), **event}


def lines(*events: Json) -> bytes:
    return b"".join(json.dumps(whole(event), separators=(",", ":")).encode() + b"\n" for event in events)


def invoke(ident: int, step: int = 1, life: int = 1) -> Json:
    return {"event": "invoke", "life": life, "id": ident, "step": step, "client": 1, "op": "status", "args": {}}


def begun(life: int = 1) -> History:
    history = History()
    history.begin(life)
    return history


def test_every_event_is_kept_in_order_however_the_bytes_arrive() -> None:
    """A pipe cuts where it likes: planted, and half of a check was the log of the clients."""
    said = ({"event": "up", "life": 1, "at_ms": 2}, invoke(1), {"event": "ok", "id": 1, "result": {"chats": ["ü"]}})
    events = list(map(whole, said))
    at_once, bytewise = begun(), begun()
    at_once.stdout(lines(*events))
    for byte in lines(*events):
        bytewise.stdout(bytes([byte]))
    assert at_once.lines == bytewise.lines == events
    assert (bytewise.invoked, bytewise.answered) == (1, 1)


BAD_LINES: dict[str, list[Json]] = {
    "lacks: at_ms": [{"event": "invoke", "life": 1, "id": 1, "step": 1, "client": 1, "op": "status", "args": {}}],
    "is a text": [{**whole(invoke(1)), "id": "1"}],
    "was never sent": [{"event": "ok", "id": 7, "result": {}, "at_ms": 1}],
    "half a character": [{"event": "check-failed", "life": 1, "why": "\ud800"}],
    "completed twice": [whole(invoke(1)), *[{"event": "info", "id": 1, "why": "cut", "at_ms": 1}] * 2],
}


@pytest.mark.parametrize("name", BAD_LINES)
def test_a_line_that_is_none_of_a_history_is_the_clients_error(name: str) -> None:
    """Planted: an answer to nothing; it was a KeyError of the judge's, after the trial."""
    history = begun()
    history.stdout(b"".join(json.dumps(line, separators=(",", ":")).encode() + b"\n" for line in BAD_LINES[name]))
    assert history.error.startswith(f"their line {len(BAD_LINES[name])} is none of a history: ")
    assert len(history.lines) == len(BAD_LINES[name]) - 1


def test_a_kill_waits_for_operations_and_not_for_the_requests_of_a_check() -> None:
    """Planted: `answer#3` struck inside the check of nearly every life, and no operation was ever cut."""
    history = begun(2)
    history.stdout(lines(invoke(1, step=0, life=2), {"event": "ok", "id": 1, "result": {}}))
    assert (history.invoked, history.answered) == (0, 0)
    history.stdout(lines(invoke(2, step=7, life=2), invoke(3, step=8, life=2)))
    assert (history.invoked, history.answered) == (2, 0)
    history.stdout(lines({"event": "fail", "id": 3, "error": {}}, {"event": "info", "id": 2, "why": "timeout"}))
    assert (history.invoked, history.answered) == (2, 1)  # what got no answer is none


def test_each_life_counts_from_nothing_and_keeps_all_lines() -> None:
    """Its kills are counted within it; the oracle is told the whole history."""
    history = begun()
    history.stdout(lines({"event": "up", "life": 1}, invoke(1), invoke(2), {"event": "ok", "id": 1, "result": {}}))
    history.begin(2)
    assert (history.invoked, history.answered, history.seen, history.up_s) == (0, 0, set(), None)
    history.stdout(lines({"event": "ok", "id": 2, "result": {}}))
    assert history.answered == 0  # an answer that was read late is of the life that asked
    assert len(history.lines) == 5


@pytest.mark.parametrize("kind", ["up", "done", "gone", "check", "check-failed"])
def test_what_an_earlier_life_says_late_is_not_said_by_this_one(kind: str) -> None:
    """Planted: the `done` of a killed life ends the operations of the next before they begin."""
    history = begun(2)
    history.stdout(lines({"event": kind, "life": 1}))
    assert history.seen == set()
    history.stdout(lines({"event": kind, "life": 2}))
    assert history.seen == {kind}
    assert (history.up_s is not None) == (kind == "up")


def test_settled_is_of_the_life_that_runs() -> None:
    """It names none."""
    history = begun(3)
    history.stdout(lines({"event": "settled", "idle": False}))
    assert history.seen == {"settled"}


@pytest.mark.parametrize(
    "junk", [b"Traceback (most recent call last):", b"[]", b"3", b'{"life": 1}', b"{", b"\xff\xfe", b"[" * 100_000]
)
def test_what_is_no_event_is_log(junk: bytes) -> None:
    """A library that prints must not end the thread that reads, nor look like an answer."""
    history = begun()
    history.stdout(junk + b"\n" + lines(invoke(1)))
    assert [line["event"] for line in history.lines] == ["invoke"]
    assert history.log.text().startswith(junk[:20].decode("utf-8", "replace"))


def test_standard_error_and_a_torn_last_line_are_log() -> None:
    """Their last words, for the person who reads that they ended."""
    history = begun()
    history.stderr(b"out of memory\n")
    history.stdout(b'{"event": "ok", "id"')
    history.ended()
    assert history.log.text() == 'out of memory\n{"event": "ok", "id"'
    assert history.lines == []


def test_the_clients_own_fault_is_kept_in_their_words() -> None:
    """Such a trial is an error, never the daemon's."""
    history = begun()
    history.stdout(lines({"event": "error", "what": "no adapter 'jsonrp'"}))
    assert history.error == "no adapter 'jsonrp'"
    nameless = begun()
    nameless.stdout(lines({"event": "error"}))
    assert nameless.error.startswith("their line 1 is none of a history: what: ")


def test_a_flood_is_noticed_and_not_kept() -> None:
    """A daemon that answers without an end must not fill the controller's memory."""
    history = begun()
    history.stdout(lines({"event": "still"}) * MAX_LINES)
    assert not history.flooded
    history.stdout(lines({"event": "still"}))
    assert history.flooded
    assert len(history.lines) == MAX_LINES


class Stream:
    """A container's stream whose every wait is over at once if it may be."""

    def __init__(self) -> None:
        self.ended = False
        self.sent: list[Json] = []

    def send_line(self, line: bytes) -> None:
        self.sent.append(json.loads(line))

    def wait(self, done: Callable[[], bool], timeout_s: float, what: str) -> bool:
        if not (done() or self.ended):
            raise DeadlinePassed(f"{what}: not within {timeout_s:g} s")
        return done()


@pytest.fixture
def stream(monkeypatch: pytest.MonkeyPatch) -> Stream:
    made = Stream()
    container = SimpleNamespace(stream=made, start=lambda: None)
    monkeypatch.setattr(clients, "Container", lambda *_: container)
    return made


def connected() -> Clients:
    return Clients(cast(Any, None), cast(Any, None), threading.Event(), threading.Condition(), History())


def test_a_wait_ends_with_the_clients_or_their_fault_and_never_says_that_it_was_done(stream: Stream) -> None:
    """Planted: a minute of waiting for clients that had said what was wrong; or clients that died, taken for done."""
    waiting = connected()
    with pytest.raises(DeadlinePassed):
        waiting.wait(lambda: False, 1.0, "their operations")
    assert waiting.wait(lambda: True, 1.0, "their operations")
    waiting.history.error = "no adapter"
    assert not waiting.wait(lambda: False, 1.0, "their operations")
    flooded = connected()
    flooded.history.flooded = True
    assert not flooded.wait(lambda: False, 1.0, "their operations")
    stream.ended = True
    assert not connected().wait(lambda: False, 1.0, "their operations")


def test_what_is_wrong_with_the_clients_is_told_in_words(stream: Stream) -> None:
    """Their own word first, then what they did, then how they ended."""
    troubled = connected()
    assert troubled.trouble() == ""
    stream.ended = True
    assert troubled.trouble() == "the clients ended: they printed nothing"
    troubled.history.stderr(b"MemoryError\n")
    assert troubled.trouble() == "the clients ended: MemoryError"
    troubled.history.flooded = True
    assert troubled.trouble() == "the clients wrote more than 50,000 lines, or one longer than 1 MiB"
    troubled.history.error = "no adapter"
    assert troubled.trouble() == "the clients: no adapter"


def test_a_kill_is_told_and_is_over_when_nothing_waits_any_more(stream: Stream) -> None:
    """The controller's own line stands in the history where the daemon was seen gone."""
    told = connected()
    told.begin(2)
    told.history.stdout(lines(invoke(1, life=2), {"event": "gone", "life": 2}))
    assert told.killed(2, "chat.synced#4", 1.0)
    assert stream.sent == [{"do": "life", "life": 2}, {"do": "killed", "life": 2}]
    assert told.history.lines[-1] == {"event": "killed", "life": 2, "at": "chat.synced#4"}
    told.begin(3)
    stream.ended = True
    assert not told.killed(3, "end#1", 1.0)


def test_a_line_without_an_end_is_a_flood() -> None:
    """One check of all chats is far below this."""
    history = begun()
    for _ in range(MAX_LINE_BYTES // 65536):
        history.stdout(b"x" * 65536)
    assert not history.flooded
    history.stdout(b"x")
    assert history.flooded
