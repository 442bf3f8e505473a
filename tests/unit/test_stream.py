"""What a container says, taken apart: no cut of its bytes, no flood and no nonsense may change what was seen."""

from __future__ import annotations

import contextlib
import json
import socket
import struct
import threading
import time
from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lab.engine import stream as stream_module
from lab.engine.errors import DeadlinePassed, Interrupted, ServiceFailed
from lab.engine.stream import LOG_HEAD_BYTES, LOG_TAIL_BYTES, RECORD_BYTES, BoundedLog, LineParser, RecordParser, Stream
from lab.model import Hit

NONCE = "c0ffee"


def record(**fields: object) -> bytes:
    """A record of this trial."""
    return b"\x1e" + json.dumps({"lab": NONCE, **fields}).encode() + b"\n"


def padded(size_bytes: int) -> bytes:
    """A record of just so many bytes, its mark and LF included."""
    empty = len(record(op="append", type="ok", pad=""))
    return record(op="append", type="ok", pad="x" * (size_bytes - empty))


def parsed(*pieces: bytes) -> RecordParser:
    """A parser that was given these pieces, and then the end."""
    parser = RecordParser(NONCE)
    for piece in pieces:
        parser.stdout(piece)
    parser.ended()
    return parser


OUTPUT = (
    b"a line\n"
    + record(hit="log.synced", n=3, tags={"class": "once"})
    + b"an unterminated line"
    + record(op="append", type="invoke", id=1)
    + b"\x1e{}\n\x1e\n\xff\xfe\x00"
    + record(hit="recovery.done", n=1, barrier=True)
    + "größer\n".encode()
)


def test_records_are_whole_wherever_the_bytes_are_cut() -> None:
    """A pipe cuts where it likes: a parser that reads by chunk loses the record that lies across one."""
    for at in range(len(OUTPUT)):
        parser = parsed(OUTPUT[:at], OUTPUT[at:])
        assert parser.hits == [Hit("log.synced", 3, {"class": "once"}), Hit("recovery.done", 1, barrier=True)]
        assert parser.history == [{"op": "append", "type": "invoke", "id": 1}]
        assert parser.log.text() == "a line\nan unterminated line{}\n\n\ufffd\ufffd\0größer\n"


PARTS = st.one_of(
    st.binary(max_size=40),
    st.sampled_from([b"\x1e", b"\n", b"\x1e{", padded(RECORD_BYTES), padded(RECORD_BYTES + 1)]),
    st.builds(lambda n: record(hit="a.b", n=n), st.integers(1, 99)),
    st.builds(lambda n: record(op="append", type="ok", id=n), st.integers(1, 99)),
)


@settings(max_examples=200, deadline=None)
@given(st.lists(PARTS, max_size=12), st.data())
def test_any_output_in_any_pieces_is_read_as_the_same(parts: list[bytes], data: st.DataObject) -> None:
    """Random bytes around real records, in random chunks; the parser must never fail on either."""
    output = b"".join(parts)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(output)), max_size=8)))
    pieces = [output[a:b] for a, b in zip([0, *cuts], [*cuts, len(output)], strict=True)]
    whole, cut = parsed(output), parsed(*pieces)
    assert (cut.hits, cut.history, cut.log.text()) == (whole.hits, whole.history, whole.log.text())


@given(st.lists(st.one_of(st.text(max_size=20).map(lambda t: t.replace("\x1e", "").encode()), st.integers(1, 9))))
def test_no_log_between_records_hides_one(parts: list[bytes | int]) -> None:
    """Numbers stand for hits: each is found, in order, whatever is printed between them."""
    parser = parsed(b"".join(record(hit="a.b", n=p) if isinstance(p, int) else p for p in parts))
    assert [hit.n for hit in parser.hits] == [p for p in parts if isinstance(p, int)]


def test_only_acknowledgements_are_answers() -> None:
    """Planted: a moment counts what was asked, or a refusal. It is a kill after the n-th `ok`."""
    types = ("ok", "invoke", "ok", "fail", "info", "invoke")
    parser = parsed(
        b"".join(record(op="append", type=kind, id=n) for n, kind in enumerate(types)), record(hit="a.b", n=1)
    )
    assert (parser.answers, len(parser.history), len(parser.hits)) == (2, 6, 1)
    assert parsed(b"\x1e" + json.dumps({"lab": "other", "op": "append", "type": "ok"}).encode() + b"\n").answers == 0


def test_a_record_that_is_cut_off_by_another_is_log_and_hides_nothing() -> None:
    """A child that died in the middle of its record must not take the parent's with it (RFC 7464)."""
    parser = parsed(b'\x1e{"lab":"c0ff' + record(hit="a.b", n=1))
    assert parser.hits == [Hit("a.b", 1)]
    assert parser.log.text() == '{"lab":"c0ff\n'


def test_a_record_that_is_not_terminated_is_log() -> None:
    """It may be half of another one; what a subject printed last is still shown."""
    parser = parsed(record(hit="a.b", n=1)[:-1])
    assert parser.hits == []
    assert '"hit": "a.b"' in parser.log.text()


def test_a_record_may_be_4096_bytes_and_no_byte_more() -> None:
    """Beyond one atomic write of a pipe, records of children may be mixed; how it is cut makes no difference."""
    assert len(padded(RECORD_BYTES)) == 4096
    assert len(parsed(padded(4096)).history) == 1
    over = parsed(padded(4097), record(hit="a.b", n=1))
    assert (over.history, over.hits) == ([], [Hit("a.b", 1)])
    assert "xxxx" in over.log.text()


@pytest.mark.parametrize(
    "text",
    [
        '{"lab":"other","hit":"a.b","n":1}',  # the nonce of another trial, or a forged one
        '{"hit":"a.b","n":1}',
        '{"lab":["c0ffee"],"hit":"a.b","n":1}',
        '{"lab":"c0ffee","hit":"a.b"}',
        '{"lab":"c0ffee","hit":"a.b","n":"1"}',
        '{"lab":"c0ffee","hit":"a.b","n":1.5}',
        '{"lab":"c0ffee","hit":"a.b","n":true}',
        '{"lab":"c0ffee","hit":"a.b","n":1e999}',  # int() of it raises OverflowError, which ended the reader
        '{"lab":"c0ffee","hit":"a.b","n":0}',
        '{"lab":"c0ffee","hit":"a.b","n":1' + "0" * 4000 + "}",
        '{"lab":"c0ffee","op":"append","type":"ok","args":' + "[" * 32 + "]" * 32 + "}",
        '{"lab":"c0ffee","op":"append","type":"ok","args":' + '{"a":' * 940 + "1" + "}" * 940 + "}",
        '{"lab":"c0ffee","op":"append","type":"ok","args":[1e999]}',
        '{"lab":"c0ffee","op":"append","type":"ok","args":NaN}',
        '{"lab":"c0ffee","op":"append","type":"ok","args":"\\udc80"}',
        '{"lab":"c0ffee","hit":7,"n":1}',
        '{"lab":"c0ffee","hit":"a.b","n":1,"tags":["once"]}',
        '{"lab":"c0ffee","op":"append"}',
        '{"lab":"c0ffee"}',
        '["lab","c0ffee"]',
        '"c0ffee"',
        "[" * 4000,
        "{",
        "",
    ],
)
def test_what_is_not_a_record_of_this_trial_is_log(text: str) -> None:
    """A record with the wrong nonce or shape must neither count nor stop the reader."""
    parser = parsed(b"\x1e" + text.encode() + b"\n", record(hit="a.b", n=2))
    assert parser.hits == [Hit("a.b", 2)]
    assert parser.history == []
    assert parser.log.text() == text + "\n"


def test_a_flood_of_log_keeps_its_head_and_tail_and_says_what_is_missing() -> None:
    """A subject that prints a gigabyte must not take the controller's memory."""
    log = BoundedLog()
    log.add(b"first words\n")
    for _ in range(300):
        log.add(b"x" * 1000)
    log.add(b"last words\n")
    text = log.text()
    assert text.startswith("first words\n")
    assert text.endswith("last words\n")
    total = 12 + 300_000 + 11
    assert f"{total - LOG_HEAD_BYTES - LOG_TAIL_BYTES} bytes not kept" in text
    assert len(text) < LOG_HEAD_BYTES + LOG_TAIL_BYTES + 100
    assert len(log._tail) <= LOG_TAIL_BYTES


def test_one_huge_piece_is_cut_as_well() -> None:
    """The engine may hand over more at once than the tail may hold."""
    log = BoundedLog()
    log.add(b"a" * 500_000 + b"end")
    assert log.text().endswith("aend")
    assert len(log.text()) < LOG_HEAD_BYTES + LOG_TAIL_BYTES + 100


@pytest.mark.parametrize("bound", ["MAX_RECORDS", "MAX_RECORDS_BYTES"])
def test_a_flood_of_records_is_told_and_not_kept(bound: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """200,000 records of 4 KiB are 800 MB: their number alone does not bound memory."""
    monkeypatch.setattr(stream_module, bound, {"MAX_RECORDS": 5, "MAX_RECORDS_BYTES": 5 * RECORD_BYTES}[bound])
    parser = parsed(*[padded(RECORD_BYTES)] * 5)
    assert (len(parser.history), parser.flooded) == (5, False)
    parser.stdout(padded(RECORD_BYTES) * 3)
    assert (len(parser.history), parser.flooded) == (5, True)


@given(st.lists(st.one_of(st.just(b'{"id": 1}\n'), st.just(b"no JSON\n"), st.just(b"[1]\n")), max_size=6), st.data())
def test_a_service_is_read_line_by_line_however_it_is_cut(lines: list[bytes], data: st.DataObject) -> None:
    """Answers of half a megabyte come in many pieces; a line that is no answer is the service's log."""
    output = b"".join(lines) + b"unfinished"
    at = data.draw(st.integers(0, len(output)))
    parser = LineParser()
    parser.stdout(output[:at])
    parser.stdout(output[at:])
    parser.stderr(b"!")
    parser.ended()
    assert list(parser.answers) == [{"id": 1}] * lines.count(b'{"id": 1}\n')
    others = b"".join(line for line in lines if line != b'{"id": 1}\n')
    assert parser.log.text() == (others + b"!unfinished").decode()


def test_a_record_may_be_as_deep_as_the_protocol_says_whatever_its_strings_hold() -> None:
    """940 levels were a traceback when the record was read back, and the run could never be finished."""
    deep: object = "[{" * 50
    for _ in range(31):
        deep = [deep]
    assert parsed(record(op="append", type="ok", args=deep)).history == [{"op": "append", "type": "ok", "args": deep}]


def answers(*pieces: bytes) -> list[object]:
    parser = LineParser()
    for piece in pieces:
        parser.stdout(piece)
    return list(parser.answers)


@pytest.mark.parametrize(
    ("value", "why"),
    [
        (b"[" * 64 + b"]" * 64, "nested deeper than 64 levels"),
        (b"[" * 100_000, "nested deeper than 64 levels"),
        (b"1e999", "too large"),
        (b"NaN", "NaN"),
        (b'"\\ud800"', "surrogate"),
    ],
    ids=lambda value: value[:12].decode() if isinstance(value, bytes) else None,
)
def test_an_answer_out_of_bounds_is_an_error_at_once(value: bytes, why: str) -> None:
    """Planted: it was dropped, the lab waited for the deadline, and "said nothing in time" was not true."""
    (answer,) = answers(b'{"properties": ' + value + b"}\n")
    assert isinstance(answer, dict)
    assert why in answer["error"]


def test_a_line_that_is_too_long_is_an_error_and_the_next_one_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """A verifier of a user's may answer anything."""
    monkeypatch.setattr(stream_module, "MAX_LINE_BYTES", 100)
    assert answers(b"x" * 101, b'\n{"id": 2}\n') == [{"error": "a line larger than 100 bytes"}, {"id": 2}]
    assert answers(b"[" * 90 + b"\n") == []


def test_answers_that_nobody_asked_for_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """A service that prints objects without end must not take the controller's memory."""
    monkeypatch.setattr(stream_module, "MAX_UNREAD_BYTES", 45)
    parser = LineParser()
    parser.stdout(b'{"id": 12}\n' * 9)
    assert len(parser.answers) == 4
    assert parser.log.text() == '{"id": 12}\n' * 5
    parser.answers.clear()
    parser.stdout(b'{"id": 13}\n')
    assert list(parser.answers) == [{"id": 13}]


# The connection.


def frame(data: bytes, kind: int = 1) -> bytes:
    """A frame of the engine's multiplexed stream."""
    return struct.pack(">BxxxI", kind, len(data)) + data


class Wire:
    """A stream with the engine's end of it in the test's hand."""

    def __init__(self, stop: threading.Event | None = None) -> None:
        self.engine, ours = socket.socketpair()
        self.parser = RecordParser(NONCE)
        self.stream = Stream(ours, self.parser, stop)

    def close(self) -> None:
        self.engine.close()
        self.stream.close()


@pytest.fixture
def wire() -> Iterator[Wire]:
    made = Wire()
    with contextlib.closing(made):
        yield made


def test_frames_are_taken_apart_wherever_they_are_cut(wire: Wire) -> None:
    """Standard error goes to the log, standard output to the parser, an empty frame nowhere."""
    hit = record(hit="a.b", n=1)
    sent = frame(hit[:9]) + frame(b"words", kind=2) + frame(b"") + frame(hit[9:])
    for piece in (sent[:3], sent[3:14], sent[14:40], sent[40:]):
        wire.engine.sendall(piece)
        time.sleep(0.03)  # so that it is read by itself
    assert wire.stream.wait(lambda: bool(wire.parser.hits), 5, "a hit")
    assert wire.parser.hits == [Hit("a.b", 1)]
    assert wire.parser.log.text() == "words"


def test_a_wait_ends_with_its_deadline_and_says_what_for(wire: Wire) -> None:
    """A hang must be told as one: how long, and what was waited for."""
    began = time.monotonic()
    with pytest.raises(DeadlinePassed, match=r"waited 0\.3 s for hook a\.b#1"):
        wire.stream.wait(lambda: False, 0.3, "hook a.b#1")
    assert 0.3 <= time.monotonic() - began < 2


def test_a_wait_ends_at_once_when_the_container_does(wire: Wire) -> None:
    """An early end must not cost the whole deadline; what came before it has been parsed."""
    wire.engine.sendall(frame(record(hit="a.b", n=1)) + frame(b"bye", kind=2) + b"\x01\x00")
    wire.engine.close()
    began = time.monotonic()
    assert wire.stream.wait(lambda: len(wire.parser.hits) > 1, 20, "a second hit") is False
    assert wire.stream.wait(lambda: len(wire.parser.hits) == 1, 20, "the first")
    wire.stream.wait_ended(20, "the end")
    assert time.monotonic() - began < 5
    assert wire.parser.log.text() == "bye"


def test_a_wait_ends_soon_when_the_user_stops() -> None:
    """The second Ctrl-C must not wait for a deadline of half a minute."""
    stop = threading.Event()
    with contextlib.closing(Wire(stop)) as wire:
        threading.Timer(0.1, stop.set).start()
        began = time.monotonic()
        with pytest.raises(Interrupted, match="a hit"):
            wire.stream.wait(lambda: False, 20, "a hit")
        assert time.monotonic() - began < 5


def test_output_is_drained_while_nobody_waits(wire: Wire) -> None:
    """A subject blocks for ever on a full pipe if the controller reads only when it waits."""
    wire.engine.settimeout(10)
    for _ in range(100):
        wire.engine.sendall(frame(b"x" * 32_768))
    wire.engine.sendall(frame(record(hit="a.b", n=1)))
    assert wire.stream.wait(lambda: bool(wire.parser.hits), 10, "a hit")


def test_what_is_told_arrives_and_its_end_as_well(wire: Wire) -> None:
    """A barrier is released by one line; a service ends when its input does."""
    wire.stream.send_line(b"go")
    wire.stream.close_input()
    wire.engine.settimeout(5)
    assert wire.engine.recv(10) == b"go\n"
    assert wire.engine.recv(10) == b""
    with pytest.raises(ServiceFailed, match="standard input is closed"):
        wire.stream.send_line(b"more")


def test_closing_a_stream_ends_its_thread(wire: Wire) -> None:
    """Three streams a trial: a thread that stays makes 4,500 of them in a campaign."""
    wire.stream.close()
    assert not wire.stream._thread.is_alive()
    wire.stream.close()
