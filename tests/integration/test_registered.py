"""A fault, a storage layer, a family and a campaign that are registered from outside `lab/`, end to end."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import pytest
from command import Ended, folder, journal, lab

SUBJECTS = Path(__file__).parents[2] / "images" / "subjects"
EXTENDED = (sys.executable, Path(__file__).with_name("extended_lab.py"))

pytestmark = pytest.mark.docker


def extended(where: Path, *words: str) -> Ended:
    """The lab with what extended_lab.py registers."""
    return lab(where, *words, program=EXTENDED)


@pytest.fixture
def notes(tmp_path: Path) -> str:
    """The example subject, which promises the same after the fault from outside."""
    for name in ("notes", "notes-verifier"):
        shutil.copytree(SUBJECTS / name, tmp_path / name)
    toml = tmp_path / "notes" / "subject.toml"
    toml.write_text(toml.read_text().replace('["sigkill"]', '["sigkill", "twosignals"]'))
    return str(toml)


def thirds(subject: str, *words: str) -> tuple[str, ...]:
    where = ("--storage", "ext4:slow", "--fault", "twosignals")
    return ("run", "thirds", "--subject", subject, "--seed", "3", *where, *words)


def test_a_campaign_with_a_fault_and_a_layer_from_outside_is_run_replayed_reported_and_judged_again(
    tmp_path: Path, notes: str
) -> None:
    ran = extended(tmp_path, *thirds(notes, "--evidence", "all"))
    assert ran.code == 0, ran
    assert "canaries  2 of 2 caught" in ran.out
    run = folder(tmp_path)
    assert run is not None
    trials = [line["result"]["trial"] for line in journal(run) if "result" in line]
    assert len(trials) >= 6
    assert {(trial["storage"], trial["faults"]) for trial in trials} == {("ext4:slow", "twosignals")}
    assert {point["fault"] for trial in trials for point in trial["script"]["points"]} == {"twosignals"}

    again = extended(tmp_path, "replay", "latest", "2")
    assert again.code == 0 and "reproduced 1/1: pass" in again.out, again
    judged = extended(tmp_path, "verify")
    assert judged.code == 0 and "0 differ" in judged.out, judged
    (run / "report.html").unlink()
    assert extended(tmp_path, "report").code == 0
    assert "twosignals" in (run / "report.html").read_text()


def test_its_violation_is_a_violation_and_breaks_again(tmp_path: Path, notes: str) -> None:
    ran = extended(tmp_path, *thirds(notes, "--bug", "acknowledge-early"))
    assert ran.code == 1 and "VIOLATION" in ran.out, ran
    first = next(line for line in ran.out.splitlines() if "lab replay " in line)
    again = extended(tmp_path, "replay", *first.partition("lab replay ")[2].split())
    assert again.code == 0 and "reproduced 1/1: violation" in again.out, again


def test_a_fault_that_cannot_strike_on_a_layer_is_refused_with_its_reason(tmp_path: Path, notes: str) -> None:
    refused = extended(tmp_path, *thirds(notes), "--storage", "tmpfs")
    assert refused.code == 64
    assert "twosignals is not available on tmpfs: not on a RAM disk" in refused.err


def test_a_lab_without_the_campaign_says_so_of_its_runs(tmp_path: Path, notes: str) -> None:
    assert extended(tmp_path, *thirds(notes)).code == 0
    for command in ("show", "report", "resume"):
        told = lab(tmp_path, command, "latest")
        assert told.code == 64, told
        assert "is of a campaign 'thirds', which this lab does not have" in told.err


def test_an_operation_may_be_of_a_family_from_outside(tmp_path: Path) -> None:
    shutil.copytree(SUBJECTS / "muxd", tmp_path / "muxd")
    plan = tmp_path / "muxd" / "fuzz.toml"
    before = plan.read_text()
    plan.write_text(
        before.replace(
            '[operations."draft/set"]\nmodel    = "register.write"',
            '[operations."draft/set"]\nmodel    = "label.write"',
        )
    )
    assert plan.read_text() != before
    words = ("run", "fuzz", "--subject", str(tmp_path / "muxd" / "subject.toml"), "--storage", "tmpfs")
    ran = extended(tmp_path, *words, "--trials", "2", "--seed", "5")
    assert ran.code == 0, ran
    assert "draft/set" in ran.out
    unknown = lab(tmp_path, *words, "--trials", "1")
    assert unknown.code == 64
    assert "`model` is 'label.write'" in unknown.err
