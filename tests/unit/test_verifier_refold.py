"""`refold-identical`: the fold of the log against the pages, and the pager's own rules."""

from __future__ import annotations

import kernel_states
import pytest
from kernel_states import failed, finished, pages
from kernel_states import root as root_page

LOOKS = ("killed", "recovered", "end")
CHARGE = '3/1/charge/{"amount":4}'


@pytest.mark.parametrize("table", ["attempts", "intents", "effects", "cursor"])
def test_a_table_that_was_forgotten_is_found(table: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Planted bug: recovery forgets one table."""
    state = finished()
    full = kernel_states.fold(state.records)
    number = ("attempts", "intents", "effects", "cursor").index(table)
    monkeypatch.setattr(kernel_states, "fold", lambda records: [*full[:number], {}, *full[number + 1 :]])
    found = failed(state.judge("killed"))
    assert list(found) == ["refold-identical"]
    assert found["refold-identical"].startswith(f"{table}[")


def test_one_wrong_field_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """A finding must be understandable for a person."""
    state = finished()
    tables = kernel_states.fold(state.records)
    tables[1][CHARGE]["state"] = "dispatched"
    monkeypatch.setattr(kernel_states, "fold", lambda records: tables)
    found = state.judge("killed")["refold-identical"]["differs"]
    assert (found["fact"], found["expected"], found["found"]) == (
        f"intents[{CHARGE}].state",
        "resolved_ok",
        "dispatched",
    )


def test_pages_behind_the_log_are_legal_at_the_kill_and_not_after_the_recovery() -> None:
    """A checkpoint may be old; recovery and the end of the work commit one."""
    state = finished()
    files = state.files() | {"pages.db": pages(state.records[:-4])}
    assert failed(state.judge("killed", files)) == {}
    assert failed(state.judge("recovered", files)) == {"refold-identical": "root 4 lsn"}


def test_pages_ahead_of_the_log_are_found() -> None:
    """The log is the truth; pages may never know more."""
    state = finished()
    files = state.files()
    state.records.pop()
    del state.history[-2:]
    files = {**state.files(), "pages.db": files["pages.db"]}
    assert failed(state.judge("killed", files)) == {"refold-identical": "root 4 lsn"}


@pytest.mark.parametrize("page", [2, 3, 7])
def test_a_page_that_was_not_written_before_its_root_is_found(page: int) -> None:
    """Planted bug: root before pages."""
    state = finished()
    data = bytearray(state.files()["pages.db"])
    data[page * 4096 + 20] ^= 1
    found = failed(state.judge("killed", state.files() | {"pages.db": bytes(data)}))
    assert found == {"refold-identical": f"page {page} CRC"}
    short = bytes(data)[: page * 4096]
    assert failed(state.judge("killed", state.files() | {"pages.db": short})) == {"refold-identical": f"page {page}"}


def test_bytes_behind_the_used_ones_do_not_matter() -> None:
    """False alarm to avoid: the format says that they are not significant."""
    state = finished()
    data = bytearray(state.files()["pages.db"])
    data[4 * 4096 - 1] ^= 1
    assert failed(state.judge("end", {**state.files(clean=True), "pages.db": bytes(data)})) == {}


def test_a_root_in_the_wrong_slot_is_found() -> None:
    """Planted bug: root overwritten in place."""
    state = finished()
    found = failed(state.judge("killed", state.files() | {"pages.db": pages(state.records, 4, slot=1)}))
    assert found == {"refold-identical": "root 4 slot"}


def test_roots_that_are_not_in_a_row_are_found() -> None:
    """A commit takes the next sequence number."""
    state = finished()
    data = state.files()["pages.db"]
    found = state.judge("killed", state.files() | {"pages.db": data[:4096] + root_page(1, 3, []) + data[8192:]})
    assert failed(found) == {"refold-identical": "root sequence"}


@pytest.mark.parametrize("look", LOOKS)
@pytest.mark.parametrize("data", [None, b"", b"\0" * 8192, b"LABKROOT" * 1024])
def test_no_valid_root_is_found(look: str, data: bytes | None) -> None:
    """Where a root was once committed, none is corruption and never a young database."""
    state = finished()
    files = state.files(clean=True)
    del files["pages.db"]
    if data is not None:
        files["pages.db"] = data
    assert list(failed(state.judge(look, files))) == ["refold-identical"]
