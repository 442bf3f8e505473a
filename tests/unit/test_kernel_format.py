"""The kernel's bytes: CRC, canonical JSON, frames, roots and pages, against the words of docs/format.md."""

from __future__ import annotations

import contextlib
import json
import struct
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kernel_process import KERNEL

sys.path.insert(0, str(KERNEL))
sys.dont_write_bytecode, written = True, sys.dont_write_bytecode
from kernel import codec, crc, errors, frames, journal, log, pager, pages, states, tables  # noqa: E402

sys.dont_write_bytecode = written
sys.path.remove(str(KERNEL))

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=12,
)
STEADY = settings(deadline=None, derandomize=True)  # the same examples on a machine of any speed
PAYLOADS = st.lists(st.binary(max_size=60), max_size=8)


class Unwatched:
    """Hooks that nobody listens to."""

    def reach(self, name: str, tags: dict[str, str] | None = None) -> None:
        pass


def segment(first_lsn: int, payloads: list[bytes]) -> bytes:
    return frames.header(first_lsn) + b"".join(frames.frame(lsn, p) for lsn, p in enumerate(payloads, first_lsn))


def test_the_crc_is_castagnolis() -> None:
    """The standard library's is another polynomial and would never be noticed by the kernel alone."""
    assert crc.crc32c(b"123456789") == 0xE3069283
    assert crc.crc32c(b"") == 0


@STEADY
@given(JSON)
def test_canonical_json_is_what_json_dumps_makes_with_the_documented_settings(value: Any) -> None:
    """An independent reader compares rows byte by byte; the kernel's encoder is not `json.dumps` itself."""
    text = codec.canonical(value)
    assert text == json.dumps(value, sort_keys=True, separators=(",", ":"))
    assert codec.decode(text) == value


@pytest.mark.parametrize("text", ["", "{", "[1,]", '{"a":1}}', "nul", "NaN", '{"a" 1}', '"\n"', "1 2"])
def test_what_is_not_json_is_a_value_error(text: str) -> None:
    """The C scanner alone ends in a StopIteration, or a SystemError, for some of these."""
    with pytest.raises(ValueError):
        codec.decode(text)


@STEADY
@given(PAYLOADS, st.integers(1, 2**40))
def test_what_was_framed_is_parsed_again(payloads: list[bytes], first_lsn: int) -> None:
    """Frames follow without gaps; the end is exactly behind the last."""
    data = segment(first_lsn, payloads)
    assert frames.payloads(data, first_lsn) == (payloads, len(data))


@STEADY
@given(PAYLOADS.filter(bool), st.data())
def test_a_segment_cut_anywhere_gives_its_whole_frames_and_a_torn_tail(
    payloads: list[bytes], data: st.DataObject
) -> None:
    """What a crash leaves is a prefix: nothing before the cut may be lost, nothing behind it invented."""
    whole = segment(1, payloads)
    cut = whole[: data.draw(st.integers(frames.HEADER_BYTES, len(whole)))]
    found, end = frames.payloads(cut, 1)
    assert found == payloads[: len(found)]
    assert end == len(segment(1, found)) <= len(cut)
    frames.check_torn(cut, end, 1 + len(found), "here")


@STEADY
@given(PAYLOADS.filter(lambda p: len(p) > 1), st.data())
def test_a_bad_byte_before_a_good_frame_is_corruption(payloads: list[bytes], data: st.DataObject) -> None:
    """A torn tail is cut, but a torn middle is reported: cutting it would lose acknowledged records."""
    whole = segment(1, payloads)
    middle = len(segment(1, payloads[:-1]))
    at = data.draw(st.integers(frames.HEADER_BYTES, middle - 1))
    bad = whole[:at] + bytes([whole[at] ^ 0x40]) + whole[at + 1 :]
    found, end = frames.payloads(bad, 1)
    assert end <= at
    with pytest.raises(errors.CorruptError):
        frames.check_torn(bad, end, 1 + len(found), "here")


@STEADY
@given(st.binary(max_size=200))
def test_any_bytes_for_a_root_or_page_are_refused_and_never_crash_the_reader(data: bytes) -> None:
    """A slot may hold anything after a crash."""
    assert pages.decode_root(data) is None
    assert pages.decode_root(pages.ROOT_MAGIC + data) is None
    assert pages.used_bytes(data, pages.DATA_MAGIC) is None


def test_a_root_survives_coding_and_no_bad_bit_in_it() -> None:
    """Every byte of a root is under its CRC."""
    data = pages.Root(7, 41, [4, 8, 4, 4], [(3, 99), (4, 100)]).encode()
    found = pages.decode_root(data.ljust(4096, b"\0"))
    assert found is not None
    assert (found.sequence, found.lsn, found.buckets, found.table_pages) == (7, 41, [4, 8, 4, 4], [(3, 99), (4, 100)])
    for at in range(len(data)):
        assert pages.decode_root(data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :]) is None, at


@contextlib.contextmanager
def opened(path: Path) -> Iterator[pager.Pager]:
    path.touch()
    file = pager.Pager(str(path), Unwatched())
    yield file
    file.close()


def test_tables_are_the_same_after_commits_and_a_reload(tmp_path: Path) -> None:
    """Buckets double on the way, so rows move between pages."""
    rows = tables.Tables()
    with opened(tmp_path / "pages.db") as file:
        for n in range(1, 120):
            rows.lsn = n
            rows.put(tables.CURSOR, str(n % 90), {"try": 0, "step": n, "clock": n, "lsn": n, "pad": "x" * 200})
            file.commit(rows)
    with opened(tmp_path / "pages.db") as file:
        file.choose_root()
        again = file.load()
        assert file.root is not None and file.root.buckets[tables.CURSOR] > pager.FIRST_BUCKETS
    assert (again.rows, again.lsn) == (rows.rows, 119)


def test_a_commit_touches_no_page_of_either_root(tmp_path: Path) -> None:
    """Shadow paging: a crash at any of its writes leaves both older roots whole."""
    rows = tables.Tables()
    path = tmp_path / "pages.db"
    with opened(path) as file:
        for n in range(1, 60):
            before = path.read_bytes()
            kept = file._used | file._older_used
            rows.lsn = n
            rows.put(tables.CURSOR, str(n % 7), {"try": 0, "step": n, "clock": n, "lsn": n})
            file.commit(rows)
            after = path.read_bytes()
            assert all(after[p * 4096 : (p + 1) * 4096] == before[p * 4096 : (p + 1) * 4096] for p in kept)
        assert len(after) // 4096 < 40, "pages that no root uses are used again"


def test_a_row_lies_in_the_bucket_that_its_keys_crc_says(tmp_path: Path) -> None:
    """An independent reader looks a row up by that rule."""
    rows = tables.Tables()
    for n in range(20):
        rows.put(tables.CURSOR, str(n), {"try": 0, "step": 0, "clock": 0, "lsn": 0})
    with opened(tmp_path / "pages.db") as file:
        file.commit(rows)
    data = (tmp_path / "pages.db").read_bytes()
    for page in (data[at : at + 4096] for at in range(8192, len(data), 4096)):
        if page.startswith(pages.DATA_MAGIC):
            used, table, bucket, count = struct.unpack_from("<IHHI", page, 8)
            found = pages.decode_data_page(page[:used])
            assert table == tables.CURSOR and len(found) == count
            assert [key for key, _ in found] == sorted(key for key, _ in found)
            assert {crc.crc32c(key) % pager.FIRST_BUCKETS for key, _ in found} == {bucket}


def test_the_log_rotates_where_it_says_and_is_read_from_any_lsn(tmp_path: Path) -> None:
    """Reading begins at the segment that may hold the record: not one before, not one too late."""
    folder = str(tmp_path)
    log.create_segment(folder, 1)
    writer = log.Log(folder, Unwatched(), 100, 1, 1, frames.HEADER_BYTES)
    written = [(writer.append(b"record %d" % n), b"record %d" % n) for n in range(1, 30)]
    writer.close()
    assert len(list(tmp_path.glob("*.seg"))) > 5
    for after in range(30):
        replay = log.read(folder, after)
        assert replay.records == written[after:]
        assert (replay.next_lsn, replay.repair) == (30, None)
    with pytest.raises(errors.CorruptError):
        log.read(folder, 30)


def test_a_record_that_does_not_follow_from_the_rows_is_corruption() -> None:
    """Replay checks every transition: a revived attempt in the log is found, not carried on."""
    rows = tables.Tables()
    created = {"r": "attempt", "task": 1, "try": 0, "from": None, "to": "created"}
    tables.fold(rows, 1, created)
    for lsn, record in ((3, created), (2, created), (2, created | {"from": "created", "to": "running"})):
        with pytest.raises(errors.CorruptError):
            tables.fold(rows, lsn, record)


def test_an_illegal_transition_is_refused_before_anything_is_written(tmp_path: Path) -> None:
    """The table decides, not the code that asks: a wrong engine stops instead of leaving a wrong log."""
    log.create_segment(str(tmp_path), 1)
    writer = log.Log(str(tmp_path), Unwatched(), 100, 1, 1, frames.HEADER_BYTES)
    with opened(tmp_path / "pages.db") as file, pytest.raises(errors.IllegalTransitionError):
        journal.Journal(Unwatched(), writer, tables.Tables(), file, 9).attempt(1, 0, "running")
    writer.close()
    assert writer.next_lsn == 1
    assert next(tmp_path.glob("*.open")).stat().st_size == frames.HEADER_BYTES


def test_every_transition_leads_to_a_state_that_is_left_or_is_an_end() -> None:
    """A state that nothing leads out of must be one of the four ends or the two resolutions."""
    for table, ends in (
        (states.ATTEMPT, {"succeeded", "failed", "cancelled", "timed_out"}),
        (states.INTENT, {"resolved_ok", "resolved_failed"}),
    ):
        assert {to for _, to in table} - {before for before, _ in table} == ends
