"""The script file of a failure: written, read again, refused where it is wrong, and printed for a person."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from fuzz_plan import plan
from hypothesis import given
from hypothesis import strategies as st

from lab.campaigns.replay import replay_script
from lab.codec import from_json, to_json
from lab.engine.errors import UsageError
from lab.model import END, PAUSE, CrashPoint, Life, Limits, Op, Scenario
from lab.plan.shrink import How
from lab.report.script import reproducer_lines
from lab.run.reproducer import Script, check_operations, parse, read

OPS = (
    Op(3, 1, "chat/new", {"chat": "c1"}),
    Op(41, 1, "prompt/send", {"chat": "c1", "prompt": "p41", "text": "reply 2"}),
    Op(42, 2, PAUSE, {"ms": 40}),
    Op(43, 2, "permission/decide", {"chat": "c1", "prompt": "p41", "allow": True}),
)
SCENARIO = Scenario(7, 12, "jsonrpc", 2, Limits(), (Life(OPS, CrashPoint(1, "removal.taken")), Life((), None)))
SCRIPT = Script(SCENARIO, "ext4", "removals-final", None, "muxd", "20261130-101502-7f3a")


def written(folder: Path, change: Callable[[dict[str, Any]], None] = lambda _: None) -> Path:
    data = to_json(SCRIPT)
    change(data)
    path = folder / "0012.json"
    path.write_text(json.dumps(data))
    return path


def test_a_script_is_read_as_it_was_written(tmp_path: Path) -> None:
    """Planted: an argument, a limit or the planted bug lost on the way."""
    path = tmp_path / "0012.json"
    path.write_text(json.dumps(to_json(SCRIPT)))
    assert read(path) == SCRIPT


@given(st.dictionaries(st.text(), st.none() | st.booleans() | st.integers() | st.text(), max_size=4), st.integers(0))
def test_any_arguments_survive(args: dict[str, Any], after_ms: int) -> None:
    """A text may hold what JSON has to escape."""
    struck = Life((Op(1, 1, "draft/set", args),), CrashPoint(1, END, after_ms=after_ms))
    scenario = Scenario(1, 2, "x", 1, Limits(), (struck, Life((), None)))
    script = Script(scenario, "tmpfs", "p", "b", "s", "r")
    assert parse(json.dumps(to_json(script)), Path("0001.json")) == script


def test_how_it_was_found_is_kept_beside_it() -> None:
    """Planted: a report that calls a search which ran out of time the shortest there is."""
    found = How(61, 5, 140, serial=True, finished=False)
    assert from_json(How, to_json(found)) == found


def test_an_operation_that_the_subject_does_not_have_is_refused(tmp_path: Path) -> None:
    """A typing error in an edited file; only the subject's plan file knows its operations."""
    check_operations(SCRIPT, plan(), tmp_path)
    edited = read(written(tmp_path, lambda d: d["scenario"]["lives"][0]["ops"][1].update(op="chat/sing")))
    with pytest.raises(UsageError, match="step 41: muxd has no operation 'chat/sing'"):
        check_operations(edited, plan(), tmp_path / "0012.json")


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda d: d.update(kind="evidence"), "is no script of a crash fuzz"),
        (lambda d: d.update(format=1), "has format 1, this lab reads format 2"),
        (lambda d: d.pop("storage"), "storage: Field required"),
        (lambda d: d.update(storages="ext4"), "storages: Unexpected keyword argument"),
        (lambda d: d["scenario"].update(seed="7"), "scenario.seed: Input should be a valid integer"),
        (lambda d: d["scenario"]["lives"][0]["ops"][1].update(step=3), "step 3 is there twice"),
        (lambda d: d["scenario"]["lives"][0]["ops"][1].update(client=3), "step 41: no client 3"),
        (lambda d: d["scenario"]["limits"].update(up_s=-5.0), "its limit up_s: Input should be greater than 0"),
        (lambda d: d["scenario"]["limits"].update(answer_ms=3000), "its limit timeout_ms is not above answer_ms"),
        (lambda d: d["scenario"].update(lives=[]), "it has no life"),
        (lambda d: d["scenario"]["lives"].pop(), "its last life is killed"),
        (lambda d: d["scenario"]["lives"][0].update(kill=None), "life 1 has no kill, but another life follows"),
        (lambda d: d["scenario"].update(kind="crash"), "scenario.kind: Input should be 'scenario'"),
        (lambda d: d["scenario"]["lives"][0]["kill"].update(hook=""), "the kill of life 1 names no hook and no moment"),
        (lambda d: d["scenario"]["lives"][0]["kill"].update(occurrence=0), "the kill of life 1 needs a count from 1"),
        (lambda d: d["scenario"]["lives"][0]["kill"].update(after_ms=-1), "the kill of life 1 is before its place"),
    ],
)  # fmt: skip
def test_what_is_wrong_with_a_file_is_said_with_its_place(
    tmp_path: Path, change: Callable[[dict[str, Any]], None], said: str
) -> None:
    """A file edited by hand must not become a run of something else, or a traceback."""
    path = written(tmp_path, change)
    with pytest.raises(UsageError) as error:
        read(path)
    assert said in str(error.value)
    assert str(path) in str(error.value)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda d: d["scenario"]["lives"][0]["kill"].update(hook="noon"), "hook 'noon', which muxd does not have"),
        (lambda d: d["scenario"]["lives"][0]["kill"].update(fault="sigquit"), "no fault 'sigquit'"),
        (lambda d: d["scenario"]["lives"][0]["ops"][1].update(op="chat/sing"), "muxd has no operation 'chat/sing'"),
        (lambda d: d.update(storage="floppy"), "no storage layer 'floppy'"),
        (lambda d: d.update(bug="none-such"), "none-such"),
    ],
)
def test_a_name_that_nobody_knows_is_refused_before_anything_is_built(
    tmp_path: Path, change: Callable[[dict[str, Any]], None], said: str
) -> None:
    """Planted: a kill at a hook that is not there strikes at the end; a fault that is not there fails each attempt."""
    with pytest.raises(UsageError, match=said):
        replay_script(written(tmp_path, change), 1, print)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "it is not JSON"),
        (b"[1]", "is no script"),
        (b'{"kind"', "it is not JSON"),
        (b"\xff\xfe", "it is not text"),
    ],
)
def test_a_torn_or_foreign_file_is_refused(tmp_path: Path, content: bytes, said: str) -> None:
    """The lab may have been killed while a person copied it."""
    path = tmp_path / "torn.json"
    path.write_bytes(content)
    with pytest.raises(UsageError, match=said):
        read(path)


def test_a_file_that_is_not_there_is_said(tmp_path: Path) -> None:
    """The commonest error of all: a typing mistake."""
    with pytest.raises(UsageError, match=r"cannot read .*: No such file"):
        read(tmp_path / "0013.json")


def test_a_script_is_printed_so_that_a_person_could_type_it() -> None:
    """Each line one thing to do; the steps are those that the violation names."""
    path = Path(".lab/runs/20261130-101502-7f3a/shrunk/0012.json")
    assert reproducer_lines(SCENARIO, path, "removals-final on ext4, seed 7/12") == [
        "script    .lab/runs/20261130-101502-7f3a/shrunk/0012.json",
        "replay    lab replay .lab/runs/20261130-101502-7f3a/shrunk/0012.json",
        "breaks    removals-final on ext4, seed 7/12",
        "           3  client 1  chat/new           c1",
        '          41  client 1  prompt/send        c1 p41 "reply 2"',
        "          42  client 2  pause              40 ms",
        "          43  client 2  permission/decide  c1 p41 allow=true",
        "          sigkill   at removal.taken#1",
        "          restart, read everything back",
        "          wait until it is idle, read everything back",
    ]


def test_a_long_text_does_not_break_the_lines() -> None:
    """A value may be long or hold a line break; the file has it whole."""
    life = Life((Op(1, 1, "draft/set", {"chat": "c1", "text": "d1\n" * 200}),), None)
    printed = reproducer_lines(Scenario(7, 12, "jsonrpc", 1, Limits(), (life,)), Path("shrunk/0001.json"), "p on ext4")
    assert max(map(len, printed)) <= 100
    assert printed[3].endswith("…")
