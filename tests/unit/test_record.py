"""The record survives what kills a lab: a torn line, a full disk, two labs at once; and gives back what was written."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from report_data import point_result
from run_folder import HEADER, disk_full_after, new
from trial_evidence import crash, good, twice_killed

from lab.engine.errors import LabError, UsageError
from lab.model import CrashPoint, Evidence, Hit, Kind, Reproduced, Verdict, Word
from lab.plan.points import Plan
from lab.run.record import RUNS, Record, evidence_folder, new_run_id
from lab.trial.run import Outcome
from lab.trial.setting import Prepared


@pytest.fixture(autouse=True)
def _in_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def journal(record: Record) -> Path:
    return record.path / "journal.jsonl"


def with_results(count: int = 3) -> Record:
    """A record of one session that finished some trials."""
    record = new()
    record.begin_session()
    for ident in range(1, count + 1):
        record.finished(point_result(ident, "ext4"))
    return record


def test_what_is_written_is_read_back_as_it_was() -> None:
    """Resume, replay and verify run on nothing else than this."""
    record = new()
    trial = crash(1, CrashPoint(1, "a.b", 2), CrashPoint(2, "c.d", 1), kind=Kind.CANARY, bug="torn")
    plan = Plan((trial,), points_known=8214, covers=("a.b",), canaries=("torn",), whole=9)
    prepared = Prepared({"tasks": [1]}, {"requests": []}, b"a tar")
    record.write_plan(plan)
    record.write_inputs(({"seed": 1}, {"seed": 2}), prepared)
    again = Record.find(HEADER.run)
    assert again.header() == HEADER
    assert again.plan() == plan
    assert again.inputs() == (({"seed": 1}, {"seed": 2}), prepared)


def test_finished_trials_are_read_back_and_the_last_result_of_each_counts() -> None:
    """A trial that is run again, after all, must not count twice."""
    record = with_results(2)
    again = point_result(2, "ext4", Word.HANG)
    record.finished(again)
    record.end_session(interrupted=False)
    assert record.results() == (point_result(1, "ext4"), again)
    lines = record.journal()
    assert (lines[0]["session"], lines[-1]["interrupted"]) == ("began", False)
    assert all(line["at_s"] >= 0 and line["rss_kb"] > 0 for line in lines)


@pytest.mark.parametrize("kept", [0, 1, 40, -2, -1])
def test_a_torn_last_line_is_cut_and_its_trial_is_run_again(kept: int) -> None:
    """`kill -9` of the lab in the middle of a write: that trial did not finish, the others did."""
    record = with_results()
    *lines, last = journal(record).read_bytes().splitlines(keepends=True)
    journal(record).write_bytes(b"".join(lines) + last[:kept])
    assert [r.trial.ident for r in record.results()] == [1, 2]
    record.begin_session()
    record.finished(point_result(3, "ext4"))
    assert [r.trial.ident for r in record.results()] == [1, 2, 3]
    assert journal(record).read_bytes().startswith(b"".join(lines))


@pytest.mark.parametrize("damage", [b"", b"{", b'{"result":\n', b"\xff\n", b"\0" * 9 + b"\n"])
def test_a_torn_line_in_the_middle_is_damage_and_is_reported(damage: bytes) -> None:
    """No crash of ours leaves one: to skip it would lose a finished trial, or a violation, silently."""
    record = with_results()
    lines = journal(record).read_bytes().splitlines(keepends=True)
    journal(record).write_bytes(lines[0] + lines[1][:50] + damage + b"".join(lines[2:]))
    with pytest.raises(LabError, match=r"journal\.jsonl line 2 is damaged"):
        record.results()


@pytest.mark.parametrize("room_bytes", [0, 1, 300])
def test_a_full_disk_is_a_clear_error_and_leaves_a_journal_that_can_go_on(room_bytes: int) -> None:
    """Half a line stayed behind, the session's end was glued to it, and the run could never be resumed."""
    record = with_results(2)
    with (
        disk_full_after(journal(record).stat().st_size + room_bytes),
        pytest.raises(LabError, match=r"cannot write the journal of run .*\n.*disk full"),
    ):
        record.finished(point_result(3, "ext4"))
    record.end_session(interrupted=True)
    assert [r.trial.ident for r in record.results()] == [1, 2]
    assert record.journal()[-1]["interrupted"] is True


def test_a_write_that_fails_is_told_by_the_systems_own_reason() -> None:
    """The reason is the system's, not a guess of ours; and it is the lab's failure, not the subject's."""
    record = new()
    with disk_full_after(0), pytest.raises(LabError, match="File too large") as caught:
        record.finished(point_result(1, "ext4"))
    assert caught.value.exit_code == 3


def test_a_journal_that_is_a_link_is_not_written_through() -> None:
    """A run's folder may come from elsewhere: what lies behind the link is not the run's."""
    record, elsewhere = new(), Path("elsewhere")
    elsewhere.write_bytes(b"")
    journal(record).symlink_to(elsewhere.resolve())
    with pytest.raises(LabError, match=r"cannot write the journal of run .*: is a symbolic link"):
        record.finished(point_result(1, "ext4"))
    assert elsewhere.read_bytes() == b""


def test_a_file_that_cannot_be_written_whole_keeps_what_was_there() -> None:
    """A plan that is half written is worse than none."""
    record = new()
    record.write("plan.json", {"old": True})
    with disk_full_after(10), pytest.raises(LabError, match=r"cannot write .*plan\.json.*\n.*disk full"):
        record.write("plan.json", {"new": "x" * 1000})
    assert record.read("plan.json") == {"old": True}


HOLD = """
import sys
from lab.run.record import Record
with Record.find(sys.argv[1]).locked():
    print("held", flush=True)
    sys.stdin.read()
"""


def test_two_labs_on_one_run_are_refused_and_a_dead_one_holds_nothing() -> None:
    """Two `lab resume` would run each trial twice; after a `kill -9` the run must be free at once."""
    record = new()
    command = [sys.executable, "-c", HOLD, str(record.path.resolve())]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == "held\n"
        with pytest.raises(UsageError, match="another lab works on run"), record.locked():
            pass
        other.kill()
        other.wait(10)
    with record.locked():
        pass


def test_latest_is_the_run_that_was_made_last() -> None:
    """Other tools read .lab/runs/latest/summary.json."""
    new("20261130-101502-aaaa")
    new("20261130-101503-bbbb")
    assert (RUNS / "latest").readlink() == Path("20261130-101503-bbbb")
    assert Record.find("latest").header().run == "20261130-101503-bbbb"
    assert sorted(path.name for path in RUNS.iterdir())[-1] == "latest"


def test_a_run_is_found_by_its_id_its_beginning_or_its_folder() -> None:
    """What a person can type; the whole id of one run may be the beginning of another."""
    new("20261130-101502-7f3a")
    new("20261130-101502-7f3a-merged")
    new("20261201-090000-1111")
    assert Record.find("20261130-101502-7f3a").header().run == "20261130-101502-7f3a"
    assert Record.find("20261201").header().run == "20261201-090000-1111"
    assert Record.find(".lab/runs/20261201-090000-1111/").header().run == "20261201-090000-1111"
    with pytest.raises(UsageError, match=r"'20261130' may be any of 2 runs: 20261130-101502-7f3a, "):
        Record.find("20261130")


@pytest.mark.parametrize("name", ["", "20251130", "nonsense", "latest", "/", "*", "2026[", ".lab/runs/none"])
def test_an_unknown_run_says_where_runs_are(name: str) -> None:
    """Not a traceback, not the wrong run."""
    (RUNS / "20261130-101502-dead").mkdir(parents=True)  # killed before its run.json
    with pytest.raises(UsageError, match=r"no run '.*' in \.lab/runs\n  `lab show` lists"):
        Record.find(name)


def test_a_run_is_never_made_over_another() -> None:
    """Two labs that begin in the same second; and their names differ by chance."""
    new()
    with pytest.raises(FileExistsError):
        new()
    assert new_run_id("7f3a99") != new_run_id("7f3b99")


def test_a_file_that_is_missing_or_damaged_is_named() -> None:
    """A lab killed during its census leaves no plan."""
    record = new()
    with pytest.raises(LabError, match=r"has no plan\.json: it was stopped before it got there"):
        record.plan()
    (record.path / "plan.json").write_text('{"trials": [')
    with pytest.raises(LabError, match=r"plan\.json is damaged"):
        record.plan()


def test_a_record_of_another_format_is_refused() -> None:
    """To read it with today's eyes could turn a red run green."""
    record = new()
    record.write("run.json", {**record.read("run.json"), "format": 1})
    with pytest.raises(LabError, match="has format 1; this lab reads 2"):
        record.header()


def keep(record: Record, evidence: Evidence, *volumes: bytes | None) -> None:
    """Write a trial's evidence where the scheduler does."""
    verdict = Verdict(Word.VIOLATION, "lost")
    record.write_evidence(evidence_folder(evidence.trial), Outcome(evidence, verdict, volumes), verdict)


def test_evidence_is_read_back_as_it_was_with_what_each_look_saw() -> None:
    """`lab verify` judges this again: a field that is lost on the way would change the verdict."""
    record = new()
    evidence = twice_killed(ledger={"requests": [{"seq": 1}], "effects": []})
    folder = evidence_folder(evidence.trial)
    assert folder == "evidence/0413"
    keep(record, evidence, b"one", b"two", b"three", b"four")
    assert record.evidence(folder) == (evidence, (b"one", b"two", b"three", b"four"))
    assert (record.path / folder / "look-3-recovered.tgz").read_bytes() == b"three"
    assert (record.path / folder / "process-1.log").exists()


def test_evidence_without_the_volumes_has_fewer_of_them_than_looks() -> None:
    """That is how `lab verify` knows that it cannot judge a trial again."""
    record = new()
    odd = good(history=({"op": "say", "text": "line\u2028break\n\U0001f600"}, {"process": 1, "died": True}))
    keep(record, odd)
    assert record.evidence("evidence/0412") == (odd, ())


def test_a_volume_that_could_not_be_kept_takes_no_name_from_the_others() -> None:
    """Planted: the second look's volume is gone, and the third's is called the second's."""
    record = new()
    keep(record, good(), b"one", None, b"three")
    names = sorted(path.name for path in (record.path / "evidence/0412").glob("look-*"))
    assert names == ["look-1-killed.tgz", "look-3-end.tgz"]
    assert record.evidence("evidence/0412") == (good(), (b"one", b"three"))


def test_how_often_a_violation_came_again_stands_beside_it() -> None:
    """The last word of each; the result itself is as it was."""
    record = with_results(2)
    record.reproduced(2, Reproduced(0, 3))
    record.reproduced(2, Reproduced(1, 2))
    record.reproduced(9, Reproduced(1, 1))
    assert record.results() == (point_result(1, "ext4"), point_result(2, "ext4", reproduced=Reproduced(1, 2)))


def test_a_hit_keeps_its_tags_through_the_journal() -> None:
    """Coverage of the windows is counted by them."""
    record = new()
    result = point_result(1, "ext4", hits=(Hit("intent.sent", 3, {"class": "once"}),))
    record.finished(result)
    assert record.results()[0].hits[0].tags == {"class": "once"}
