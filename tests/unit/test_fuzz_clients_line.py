"""The clients' lines as the controller reads them: kept in order, counted by life, never believed blindly."""

from __future__ import annotations

import json

import pytest

from lab.fuzz.clients import MAX_LINE_BYTES, MAX_LINES, History
from lab.model import Json


def lines(*events: Json) -> bytes:
    return b"".join(json.dumps(event).encode() + b"\n" for event in events)


def invoke(ident: int, step: int = 1, life: int = 1) -> Json:
    return {"event": "invoke", "life": life, "id": ident, "step": step, "client": 1, "op": "status", "args": {}}


def begun(life: int = 1) -> History:
    history = History()
    history.begin(life)
    return history


def test_every_event_is_kept_in_order_however_the_bytes_arrive() -> None:
    """A pipe cuts where it likes: planted, and half of a check was the log of the clients."""
    events = [{"event": "up", "life": 1, "at_ms": 2}, invoke(1), {"event": "ok", "id": 1, "result": {"chats": ["ü"]}}]
    whole, bytewise = begun(), begun()
    whole.stdout(lines(*events))
    for byte in lines(*events):
        bytewise.stdout(bytes([byte]))
    assert whole.lines == bytewise.lines == events
    assert (bytewise.invoked, bytewise.answered) == (1, 1)


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
    assert nameless.error == "it did not say what"


def test_a_flood_is_noticed_and_not_kept() -> None:
    """A daemon that answers without an end must not fill the controller's memory."""
    history = begun()
    history.stdout(lines({"event": "still"}) * MAX_LINES)
    assert not history.flooded
    history.stdout(lines({"event": "still"}))
    assert history.flooded
    assert len(history.lines) == MAX_LINES


def test_a_line_without_an_end_is_a_flood() -> None:
    """One check of all chats is far below this."""
    history = begun()
    for _ in range(MAX_LINE_BYTES // 65536):
        history.stdout(b"x" * 65536)
    assert not history.flooded
    history.stdout(b"x")
    assert history.flooded
