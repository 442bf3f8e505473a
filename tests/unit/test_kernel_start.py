"""The kernel's commands on good and bad states: exit codes and words for people, and what a start costs."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest
from kernel_process import FULL, KERNEL, PREPARED, PYTHON, Trial, call, do, task, workload
from kernel_trial import Lab


def start(trial: Trial, command: str) -> tuple[int, str]:
    process = trial.start(command)
    code = process.wait()
    return code, process.log


def test_a_run_on_an_empty_folder_makes_the_state_and_closes_it(kernel_lab: Lab) -> None:
    """The first start of all, and the prepared state of every trial."""
    trial = kernel_lab.young(PREPARED)
    trial.finish("run")
    assert json.loads((trial.folder / "CLEAN").read_text()) == {"lsn": trial.tables()["lsn"]}
    assert sorted(path.name for path in trial.folder.iterdir()) == ["CLEAN", "log", "pages.db"]


def test_a_creation_killed_anywhere_is_made_again(kernel_lab: Lab) -> None:
    """pages.db has its name only when its first root is durable; until then nothing was ever recorded."""
    for hook in ("pager.pages_written", "pager.root_half_written", "pager.root_synced"):
        trial = kernel_lab.young(PREPARED)
        trial.kill_at("run", f"{hook}#1")
        trial.finish("recover")
        assert trial.tables()["attempts"]["1/0"]["state"] == "succeeded"


def test_run_refuses_a_state_that_a_crash_left(kernel_lab: Lab) -> None:
    """Only `recover` may touch it: 75 tells a supervisor so."""
    trial = kernel_lab.trial(FULL)
    trial.kill_at("run", "log.synced#5")
    code, words = start(trial, "run")
    assert (code, "kernel recover" in words) == (75, True)


def test_recover_on_a_closed_state_has_nothing_to_do_and_works_on(kernel_lab: Lab) -> None:
    """A crash before the first or after the last change leaves CLEAN; a supervisor recovers anyway."""
    trial = kernel_lab.trial(FULL)
    trial.finish("recover")
    trial.finish("recover")
    assert trial.tables()["attempts"]["12/1"]["state"] == "succeeded"


@pytest.mark.parametrize(
    "damage", ["torn middle", "sealed segment", "gap", "first segment", "both roots", "page", "no pages"]
)
def test_damage_that_no_crash_can_do_is_reported_and_never_passed_over(kernel_lab: Lab, damage: str) -> None:
    """Exit 65 with what, where and what to do; a silent rescue would hide a broken pager or log."""
    trial = kernel_lab.trial(FULL)
    trial.kill_at("run", "pager.pages_synced#5")
    spoil(trial.folder, damage)
    code, words = start(trial, "recover")
    assert code == 65, words
    assert "corrupt" in words and "kernel rebuild" in words


def spoil(folder: Path, damage: str) -> None:
    log, pages = folder / "log", folder / "pages.db"
    segments = sorted(log.iterdir())
    if damage == "torn middle":  # of the active segment, so that a good frame follows
        active = segments[-1]
        active.write_bytes(flipped(active.read_bytes(), 24 + 16 + 3))
    elif damage == "sealed segment":
        segments[-2].write_bytes(flipped(segments[-2].read_bytes(), len(segments[-2].read_bytes()) - 1))
    elif damage == "gap":
        segments[-2].unlink()
    elif damage == "first segment":
        segments[0].unlink()
    elif damage == "both roots":
        pages.write_bytes(bytes(8192) + pages.read_bytes()[8192:])
    elif damage == "page":
        pages.write_bytes(pages.read_bytes().replace(b'"state"', b'"State"'))
    elif damage == "no pages":
        pages.unlink()


def flipped(data: bytes, offset: int) -> bytes:
    return data[:offset] + bytes([data[offset] ^ 1]) + data[offset + 1 :]


def test_a_torn_root_leaves_the_older_one_and_its_pages(kernel_lab: Lab) -> None:
    """Two slots: half of a new root costs a longer replay and nothing else."""
    trial = kernel_lab.trial(FULL)
    trial.kill_at("run", "pager.root_half_written#4")
    trial.finish("recover")


def test_rebuild_makes_from_the_log_alone_what_recovery_makes_from_the_pages(kernel_lab: Lab) -> None:
    """The way out of corrupt pages, as the message of exit 65 says."""
    trial = kernel_lab.trial(FULL)
    trial.kill_at("run", "log.synced#50")
    expected = trial.tables()
    spoil(trial.folder, "both roots")
    assert start(trial, "recover")[0] == 65
    assert start(trial, "rebuild")[0] == 0
    assert trial.tables() == expected
    trial.finish("recover")


def test_a_ledger_that_is_not_there_is_said_so_and_the_state_can_be_recovered(kernel_lab: Lab) -> None:
    """Exit 69; the call stays dispatched and durable, so a later recovery settles it."""
    trial = kernel_lab.trial(FULL)
    there, trial.socket = trial.socket, str(trial.folder / "nowhere.sock")
    code, words = start(trial, "run")
    assert code == 69 and "nowhere.sock" in words
    trial.socket = there
    trial.finish("recover")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{", "not JSON"),
        ("[]", "cannot be worked"),
        ("{}", "'kind' is missing"),
        (json.dumps(workload() | {"version": 2}), "version 2"),
        (json.dumps(workload(slots=0)), "too small"),
        (json.dumps(workload(task(1, [do("say")]))), "does not end in"),
        (json.dumps(workload(task(1, [do("dance"), do("finish")]))), "task 1 step 0"),
        (json.dumps(workload(task(1, [call("mail", "twice"), do("finish")]))), "no effect class 'twice'"),
        (json.dumps(workload(task(1, [call("mail", "keyed", text="x" * 1200), do("finish")]))), "more than 1200 bytes"),
    ],
)
def test_a_workload_that_cannot_be_worked_is_refused_before_anything_is_written(
    kernel_lab: Lab, text: str, said: str
) -> None:
    """Found half-way, it would leave a state that nobody can finish."""
    trial = kernel_lab.young(PREPARED)
    process = trial.start("run", workload=text)
    assert process.wait() == 64
    assert said in process.log
    assert list(trial.folder.iterdir()) == []


def test_a_row_as_large_as_allowed_is_stored(kernel_lab: Lab) -> None:
    """The largest arguments, all of them quotes, fit a page and one write; tables spread over more buckets."""
    large = [task(n, [call("mail", "once", text='"' * 585, n=n), do("finish")]) for n in range(1, 9)]
    trial = kernel_lab.young(workload(*large))
    trial.kill_at("run", "pager.root_synced#6")
    trial.finish("recover")
    assert len(trial.tables()["effects"]) == 8


def test_the_second_workload_of_a_state_goes_on_where_the_first_ended(kernel_lab: Lab) -> None:
    """Every trial starts on a prepared state: its log and rows stay."""
    trial = kernel_lab.trial(FULL)
    before = trial.tables()
    trial.finish("run")
    after = trial.tables()
    assert before["attempts"].items() <= after["attempts"].items()


def test_a_start_imports_nothing_heavy() -> None:
    """A trial starts Python at least twice: `re`, `enum` and what pulls them in cost more than the whole workload."""
    program = f"import sys; sys.path.insert(0, {str(KERNEL)!r}); import kernel.main; print(*sys.modules)"
    done = subprocess.run([*PYTHON, "-c", program], capture_output=True, text=True, timeout=20, check=True)
    heavy = {"re", "enum", "json", "typing", "dataclasses", "pathlib", "hashlib", "argparse", "asyncio", "socket"}
    assert heavy & set(done.stdout.split()) == set()


def test_a_command_that_is_none_is_answered_with_the_usage(kernel_lab: Lab) -> None:
    """64, as everywhere."""
    for command in ("", "runn"):
        code, words = start(kernel_lab.trial(FULL), command)
        assert code == 64 and words.startswith("usage: kernel run")
