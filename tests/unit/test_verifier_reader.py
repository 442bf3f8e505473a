"""The verifier's readers and interpreter on good, torn and hostile bytes: never raising, never calling wrong right."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kernel_states import FINISH, call, failed, finished, frame, header, segments
from verifier.kernel import judge
from verifier.kernel.crc32c import crc32c
from verifier.kernel.log import read_log
from verifier.kernel.records import parse

STATE = finished()
FILES = STATE.files()
SEALED = min(p for p in FILES if p.endswith(".seg"))
OPEN = max(p for p in FILES if p.endswith(".open"))


def test_the_crc_is_the_one_of_the_format() -> None:
    """The check value that docs/format.md gives."""
    assert crc32c(b"123456789") == 0xE3069283


def test_a_good_log_is_read_whole() -> None:
    """Segments, sealed and active, in order."""
    log = read_log(FILES)
    assert (log.end, log.fault, log.torn) == (len(STATE.records), None, "")


@pytest.mark.parametrize("left", range(25))
def test_a_segment_that_was_torn_in_its_creation_holds_no_record(left: int) -> None:
    """False alarm to avoid: killed between creating the file and syncing its header."""
    first = len(STATE.records) + 1
    files = {p.replace(".open", ".seg"): c for p, c in FILES.items()}
    files[f"log/{first:016d}.open"] = header(first)[:left]
    assert failed(STATE.judge("killed", files)) == {}
    assert ("prefix-durable" in failed(STATE.judge("recovered", files))) is (left < 24)


def test_a_log_without_an_active_segment_is_whole() -> None:
    """False alarm to avoid: killed between sealing one and creating the next."""
    assert failed(STATE.judge("killed", {p.replace(".open", ".seg"): c for p, c in FILES.items()})) == {}


def _flip(path: str, at: int) -> dict[str, bytes]:
    data = bytearray(FILES[path])
    data[at] ^= 1
    return {**FILES, path: bytes(data)}


def _without(path: str) -> dict[str, bytes]:
    return {p: c for p, c in FILES.items() if p != path}


NEXT = len(STATE.records) + 1
CORRUPT = {
    "a bad frame in a sealed segment": _flip(SEALED, 60),
    "a bad header of a sealed segment": _flip(SEALED, 3),
    "a bad frame before a valid one in the active segment": _flip(OPEN, 45),
    "a sealed segment that ends in a torn frame": {**FILES, SEALED: FILES[SEALED] + b"\0" * 5},
    "a missing segment": _without(SEALED),
    "an active segment before another": {**FILES, f"log/{1:016d}.open": FILES[SEALED]},
    "an LSN that is left out": {**FILES, OPEN: FILES[OPEN] + frame(NEXT + 1, b"{}")},
    "an LSN that is repeated": {**FILES, OPEN: FILES[OPEN] + frame(NEXT - 1, b"{}")},
    "garbage and a valid frame after it": {**FILES, OPEN: FILES[OPEN] + b"\0" * 7 + frame(NEXT, b"{}")},
    "a segment under a wrong name": {**_without(OPEN), f"log/{NEXT:016d}.open": FILES[OPEN]},
    "a name that is none": {**FILES, "log/12.seg": b""},
}


@pytest.mark.parametrize("what", CORRUPT)
@pytest.mark.parametrize("look", ["killed", "recovered", "end"])
def test_corruption_of_the_log_is_reported_and_never_skipped(what: str, look: str) -> None:
    """Only the tail may be torn."""
    assert "prefix-durable" in failed(STATE.judge(look, CORRUPT[what]))


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_no_bytes_make_the_verifier_raise(data: Any) -> None:
    """Garbage is a difference, not an error: a verifier that dies proves nothing about the subject."""
    files = dict(FILES)
    path = data.draw(st.sampled_from(sorted(files)))
    content = bytearray(files[path])
    at = data.draw(st.integers(0, len(content)))
    content[at : at + data.draw(st.integers(0, 40))] = data.draw(st.binary(max_size=40))
    files[path] = bytes(content[: data.draw(st.integers(0, len(content)))] if data.draw(st.booleans()) else content)
    for look in ("killed", "recovered"):
        judge(files, STATE.ask_look(look))


@settings(max_examples=80, deadline=None)
@given(st.integers(0, 10_000), st.integers(0, 7))
def test_every_flipped_bit_of_the_log_is_noticed(at: int, bit: int) -> None:
    """Every bit of the log was acknowledged here, so none may change unseen."""
    path = sorted(p for p in FILES if p.startswith("log/"))[at % 3]
    data = bytearray(FILES[path])
    data[at % len(data)] ^= 1 << bit
    assert "prefix-durable" in failed(STATE.judge("killed", {**FILES, path: bytes(data)}))


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=6,
)
FIELDS = ("r", "task", "try", "from", "to", "effect", "step", "clock", "receipt", "class", "tool", "args")
VALUES = JSON | st.sampled_from(["attempt", "intent", "cursor", "created", "applied", "dispatched"])


@settings(max_examples=200, deadline=None)
@given(st.lists(st.dictionaries(st.sampled_from(FIELDS), VALUES), max_size=4))
def test_records_of_any_shape_are_judged(records: list[dict[str, Any]]) -> None:
    """A well-framed record with a wrong shape is the subject's fault and must not become the verifier's."""
    files = {**segments(STATE.records + records), "pages.db": FILES["pages.db"]}
    found = judge(files, STATE.ask_look("killed"))
    assert ("prefix-durable" in failed(found)) is bool(records)


@pytest.mark.parametrize("payload", [b"[" * 60_000, b"1" * 5_000, b"\xff", b"", b'{"r":[]}', b"NaN"])
def test_a_payload_that_is_no_record_has_a_reason(payload: bytes) -> None:
    """Deep nesting and huge numbers make a JSON parser raise what one does not expect."""
    record, why = parse(payload)
    assert record is None
    assert why


def test_a_long_log_is_judged_whole() -> None:
    """More records than any workload of a campaign leaves, over many segments."""
    state = finished([*(call("charge", ("once", "keyed", "pure")[n % 3], n) for n in range(45)), FINISH])
    files, request = state.files(), state.ask_look("recovered")
    assert len(state.records) > 300
    assert failed(judge(files, request)) == {}
