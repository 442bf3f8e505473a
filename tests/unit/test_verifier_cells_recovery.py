"""recovery-determinism, checkpoint-validity, journal-mode, and what every cell asks of its views and its request."""

from __future__ import annotations

import json
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from cells_store import VIEWS, Trial, facts, failed, trials
from checkers import HARNESS
from verifier import cells, tree
from verifier.main import Looks

New = Callable[..., Trial]
LOOKS = ("killed", "recovered", "end")


@pytest.fixture
def new(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[New]:
    yield from trials(tmp_path, monkeypatch)


def worked(new: New, cell: str, mode: str = "wal") -> Trial:
    """A little of everything."""
    trial = new(cell, mode)
    trial.do("create", session="a")
    for n in range(3):
        trial.do("append", session="a", role="user", content=f"Grüße {n}")
    trial.do("rotate", session="a", child="b", summary="so far")
    trial.do("park", session="b", item="x")
    trial.do("record", delivery="d", session="b", content="hello")
    return trial


# ---- recovery-determinism


def recovered(new: New) -> Trial:
    """Killed, looked at, and started again; its recovery parked an item and swept a delivery."""
    trial = worked(new, "recovery-determinism")
    trial.die()
    assert failed(trial.judge("killed")) == {}
    trial.start()
    trial.item("x", "claimed", "somebody")
    trial.row("d", "delivered")
    return trial


def test_a_recovery_that_changes_no_session_passes_whatever_it_reaps_and_sweeps(new: New) -> None:
    """The control; and the false alarm: hand-offs and deliveries are a start's own business."""
    trial = recovered(new)
    answer = trial.judge("recovered")
    assert failed(answer) == {}
    assert facts(answer, "recovery-determinism") > 10
    trial.do("append", session="b", role="user", content="afterwards")
    assert failed(trial.judge("end")) == {}


@pytest.mark.parametrize(
    ("fault", "fact"),
    [
        ("INSERT INTO m VALUES ('b', 9, 'system', 'resumed as 77af', 1)", "messages[4]"),
        ("UPDATE m SET content = 'Grüße' WHERE content = 'Grüße 1'", "messages[1]"),
        ("DELETE FROM m WHERE content = 'Grüße 2'", "messages[2]"),
        ("UPDATE s SET closed = 'old' WHERE name = 'b'", "sessions[1]"),
        ("UPDATE m SET place = place + 10", "messages[0]"),
    ],
)
def test_a_recovery_that_changes_what_was_said_is_found(new: New, fault: str, fact: str) -> None:
    """Planted bug: recovery leaves a note with a fresh random id."""
    trial = recovered(new)
    trial.sql.execute(fault)
    assert failed(trial.judge("recovered")) == {"recovery-determinism": fact}


def test_two_kills_in_a_row_see_the_same_sessions(new: New) -> None:
    """A second crash inside the recovery: what the first look saw must still be there."""
    trial = recovered(new)
    trial.die()
    assert failed(trial.judge("killed")) == {}
    trial.sql.execute("DELETE FROM m WHERE content = 'so far'")
    assert failed(trial.judge("killed")) == {"recovery-determinism": "messages[3]"}


def test_two_recoveries_in_a_row_see_the_same_in_every_view(new: New) -> None:
    """What one recovery has settled the next one finds settled."""
    trial = recovered(new)
    trial.judge("recovered")
    trial.die()
    trial.start()
    assert failed(trial.judge("recovered")) == {}
    trial.row("d", "abandoned")
    assert failed(trial.judge("recovered")) == {"recovery-determinism": "deliveries[0]"}


def test_what_was_asked_between_two_looks_is_no_difference_of_recovery(new: New) -> None:
    """False alarm to avoid: the resumed work appends."""
    trial = recovered(new)
    trial.do("append", session="b", role="user", content="new", answer=None)
    trial.die()
    assert failed(trial.judge("killed")) == {}


def test_a_view_that_is_another_at_each_reading_is_found(new: New, tmp_path: Path) -> None:
    """Two passes over equal copies: whatever is random in a store's own reading shows here."""
    trial = worked(new, "recovery-determinism")
    text = VIEWS.replace("place, role", "place, hex(randomblob(4))")
    (tmp_path / "views.toml").write_text(text)
    assert failed(trial.judge("killed")) == {"recovery-determinism": "messages[0]"}


def test_the_comparison_with_an_earlier_look_is_never_left_out_in_silence(new: New) -> None:
    """Else half of the cell would pass on nothing."""
    trial = recovered(new)
    kept = list(trial.looks)
    trial.looks.clear()
    with pytest.raises(ValueError, match="the looks before this one are missing"):
        trial.judge("recovered")
    trial.looks = [{**kept[0], "files": None}]
    with pytest.raises(ValueError, match="look 1 was too large to be kept"):
        trial.judge("recovered")


def test_the_harness_hands_each_look_those_before_it(new: New) -> None:
    """Also where evidence is judged again: the looks of a trial come in order to one verifier."""
    seen: list[object] = []
    looks = Looks(lambda files, request: seen.append(request["earlier"]) or {}, "/nowhere")
    for look, content in (("killed", b"1"), ("recovered", b"2"), ("end", b"3")):
        request = {"ask": "look", "look": look, "history": [{}], "volume": tree.pack({"a": content})}
        looks.answer(json.dumps(request).encode())
    first, second = ({"look": k, "files": {"a": c}, "history": 1} for k, c in (("killed", b"1"), ("recovered", b"2")))
    assert seen == [[], [first], [first, second]]


def asked(looks: Looks, trial: Trial, look: str) -> dict[str, Any]:
    """One look through the harness, at the store as it lies on disk now."""
    request = {"ask": "look", "look": look, "workload": trial.workload, "history": trial.history}
    volume = {"ledger": trial.ledger, "volume": tree.pack(trial.files())}
    return looks.answer(json.dumps(request | volume).encode())


def told_again(before: Looks, *looks: tuple[str, int]) -> Looks:
    """Another verifier, which is told what the one before it saw."""
    after = Looks(cells.judge, "/nowhere")
    for number, (look, lines) in enumerate(looks, 1):
        copied = before.answer(json.dumps({"ask": "copy", "n": number}).encode())
        memory = {"ask": "remember", "look": look, "history": lines, **copied}
        assert after.answer(json.dumps(memory).encode()) == {}
    return after


@pytest.mark.parametrize("broken", [False, True])
def test_a_verifier_that_let_go_of_the_volume_judges_as_if_it_never_had(new: New, broken: bool) -> None:
    """A power cut needs every container off the volume; the next verifier must not have forgotten the looks before."""
    trial = worked(new, "recovery-determinism")
    first = Looks(cells.judge, "/nowhere")
    trial.die()
    assert failed(asked(first, trial, "killed")["properties"]) == {}
    lines = len(trial.history)
    trial.start()
    if broken:
        trial.sql.execute("INSERT INTO m VALUES ('b', 9, 'system', 'resumed as 77af', 1)")
    answers = [asked(verifier, trial, "recovered") for verifier in (told_again(first, ("killed", lines)), first)]
    assert answers[0] == answers[1]
    assert failed(answers[0]["properties"]) == ({"recovery-determinism": "messages[4]"} if broken else {})


def test_a_verifier_that_was_told_nothing_says_so_and_passes_nothing(new: New) -> None:
    """Planted: the new verifier is not told of the look before, and compares the recovery with nothing."""
    trial = recovered(new)
    assert "looks before this one are missing" in asked(Looks(cells.judge, "/nowhere"), trial, "recovered")["error"]


# ---- checkpoint-validity


@pytest.mark.parametrize("look", LOOKS)
def test_whole_rows_pass(new: New, look: str) -> None:
    """The control."""
    answer = worked(new, "checkpoint-validity").judge(look)
    assert failed(answer) == {}
    assert facts(answer, "checkpoint-validity") > 20


@pytest.mark.parametrize(
    ("fault", "fact"),
    [
        ("UPDATE m SET content = 'Grü' WHERE content = 'Grüße 1'", "messages[a] at 1: content"),
        ("UPDATE m SET content = NULL WHERE content = 'Grüße 1'", "messages[a] at 1: content"),
        ("UPDATE m SET content = x'00ff' WHERE content = 'Grüße 1'", "messages[a] at 1: content"),
        ("UPDATE m SET content = CAST(x'4772c3' AS TEXT) WHERE place = 1", "messages[a] at 1: content"),
        ("UPDATE m SET role = NULL WHERE place = 2", "messages[a] at 2: role"),
        ("UPDATE m SET place = 'last' WHERE place = 2", "messages[a] at last: position"),
        ("UPDATE m SET session = 'gone' WHERE place = 2", "messages[gone] at 2"),
        ("UPDATE s SET parent = 'gone' WHERE name = 'b'", "sessions[b].parent"),
        ("INSERT INTO s VALUES ('a', NULL, '')", "sessions"),
        ("UPDATE s SET closed = x'00' WHERE name = 'b'", "sessions[b].closed"),
        ("INSERT INTO s VALUES (x'ff', NULL, '')", "sessions[('blob', 'ff')]"),
        ("UPDATE i SET name = x'ff'", "items name"),
        ("UPDATE m SET role = CAST(x'75c3' AS TEXT) WHERE place = 2", "messages[a] at 2: role"),
        ("UPDATE i SET state = 'claim'", "items[x].state"),
        ("UPDATE d SET state = NULL", "deliveries[d].state"),
    ],
)
def test_each_half_written_row_is_found_at_every_look(new: New, fault: str, fact: str) -> None:
    """Planted bug: half of a message is committed, and the whole of it in a second transaction."""
    trial = worked(new, "checkpoint-validity")
    trial.sql.execute(fault)
    for look in LOOKS:
        assert failed(trial.judge(look)) == {"checkpoint-validity": fact}


def test_a_view_that_cannot_be_read_is_a_difference(new: New) -> None:
    """A table that is gone is what a crash did, and no error of the verifier."""
    trial = worked(new, "checkpoint-validity")
    trial.sql.execute("DROP TABLE i")
    answer = trial.judge("killed")
    assert failed(answer) == {"checkpoint-validity": "view items"}
    assert answer["checkpoint-validity"]["differs"]["found"] == "no such table: i"


# ---- journal-mode


@pytest.mark.parametrize(
    ("asked", "really"),
    [("delete", "wal"), ("wal", "delete"), ("truncate", "persist"), ("persist", "delete"), ("off", "truncate")],
)
def test_a_leg_that_ran_in_another_mode_is_found_though_the_driver_says_otherwise(
    new: New, asked: str, really: str
) -> None:
    """Planted bug: the journal mode that was asked for is silently changed back."""
    trial = worked(new, "checkpoint-validity", asked)
    trial.sql.execute(f"PRAGMA journal_mode = {really}")
    trial.do("append", session="b", role="user", content="in another mode")
    trial.sql.close()
    assert list(failed(trial.judge("end"))) == ["journal-mode"]


def test_what_the_driver_reports_is_compared_with_what_was_asked(new: New) -> None:
    """An honest driver of a store that does as it likes."""
    trial = worked(new, "checkpoint-validity", "delete")
    trial.history[0]["journal_mode"] = "truncate"
    assert failed(trial.judge("killed")) == {"journal-mode": "process 1 journal_mode"}


def test_the_default_is_whatever_the_store_says_but_the_same_in_every_process(new: New) -> None:
    """A store that changes its mind between two starts ran in no mode."""
    trial = worked(new, "checkpoint-validity", "default")
    assert failed(trial.judge("killed")) == {}
    trial.die()
    trial.start()
    trial.history[-1]["journal_mode"] = "delete"
    assert failed(trial.judge("recovered")) == {"journal-mode": "process 2 journal_mode"}


def test_before_a_store_says_that_it_is_open_there_is_no_mode_to_be_checked(new: New) -> None:
    """Killed in its start."""
    trial = worked(new, "checkpoint-validity", "delete")
    trial.history.clear()
    assert trial.judge("killed")["journal-mode"] == {"facts": 0, "differs": None}


# ---- requests


def test_what_no_lab_asks_is_an_error_and_no_verdict(new: New, tmp_path: Path) -> None:
    """The lab's own mistakes must not look like the store's."""
    trial = worked(new, "checkpoint-validity")
    trial.workload["cell"] = "checkpoints"
    with pytest.raises(ValueError, match="there is no cell 'checkpoints'"):
        trial.judge("killed")
    trial.workload["cell"] = "consume-once"
    (tmp_path / "views.toml").write_text("\n".join(line for line in VIEWS.splitlines() if "items" not in line))
    with pytest.raises(ValueError, match="no view 'items': consume-once is not offered"):
        trial.judge("killed")
    (tmp_path / "views.toml").write_text(VIEWS.replace("items ", "itmes "))
    with pytest.raises(ValueError, match="unknown views"):
        trial.judge("killed")
    (tmp_path / "views.toml").write_text(VIEWS.replace("name, state, owner", "name, state"))
    with pytest.raises(ValueError, match="view items has 2 columns"):
        trial.judge("killed")


def test_other_views_make_another_verifier(tmp_path: Path) -> None:
    """The record says by which verifier a trial was judged; the views are half of what it is."""

    def version() -> str:
        launch = "import sys; sys.path.insert(0, sys.argv[1]); from verifier.main import version; print(version())"
        command = [sys.executable, "-IS", "-c", launch, str(tmp_path)]
        return subprocess.run(command, capture_output=True, text=True, timeout=20, check=True).stdout.strip()

    (tmp_path / "verifier").mkdir()
    for module in ("__init__.py", "main.py", "tree.py"):
        (tmp_path / "verifier" / module).write_bytes((HARNESS / "verifier" / module).read_bytes())
    (tmp_path / "VERSION").write_text("stamped\n")
    without = version()
    (tmp_path / "views.toml").write_text(VIEWS)
    some = version()
    (tmp_path / "views.toml").write_text(VIEWS + "\n")
    assert without == "stamped" and some.startswith("stamped+")
    assert version() not in (without, some)


def test_an_answer_without_a_question_is_an_error(new: New) -> None:
    """A history is no evidence if answers come from nowhere."""
    trial = worked(new, "checkpoint-validity")
    del trial.history[1]
    with pytest.raises(ValueError, match="which it never invoked"):
        trial.judge("killed")


def test_the_volume_itself_is_never_opened(new: New, monkeypatch: pytest.MonkeyPatch) -> None:
    """To open a killed database is to recover it: the evidence would be gone."""
    trial = worked(new, "checkpoint-validity")
    opened: list[str] = []
    connect = sqlite3.connect
    monkeypatch.setattr(sqlite3, "connect", lambda path, **more: opened.append(str(path)) or connect(path, **more))
    before = trial.files()
    trial.judge("killed")
    assert trial.files() == before
    assert opened and not any(path.startswith(str(trial.folder)) for path in opened)
    assert not any(Path(path).exists() for path in opened)
