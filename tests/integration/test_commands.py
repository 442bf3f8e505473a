"""The commands around a run, on real runs: each prints what is documented, and fails where it should."""

from __future__ import annotations

import json
import re
import shutil
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import docker
import pytest
from command import NOTES, TIMEOUT_S, folder, lab, notes, summary
from remains import left

pytestmark = pytest.mark.docker

TRIALS = 8
KEPT = TRIALS + 4  # and the canaries


@pytest.fixture(scope="module")
def green(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A green run of the example, its evidence kept whole."""
    where = tmp_path_factory.mktemp("green")
    ended = lab(where, *notes("--points", "4", "--storage", "tmpfs,ext4", "--evidence", "all", "-v"))
    assert ended.code == 0, ended
    assert len(re.findall(r"^ *\d+/\d+ +\d{4} .* pass ", ended.out, re.MULTILINE)) == TRIALS
    run = folder(where)
    assert run is not None
    return run


@pytest.fixture(scope="module")
def red(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of a planted bug."""
    where = tmp_path_factory.mktemp("red")
    ended = lab(where, *notes("--points", "2", "--storage", "tmpfs", "--bug", "keep-torn-line"))
    assert ended.code == 1, ended
    run = folder(where)
    assert run is not None
    assert f"replay     lab replay {run.name} 0001" in ended.out
    assert "VIOLATION  only-whole-notes" in ended.out
    return run


def test_the_example_of_the_documentation_is_green_and_its_canaries_are_caught(green: Path) -> None:
    """Planted: an example that nobody runs."""
    found = summary(green)
    assert (found["trials"], found["verdicts"]["pass"], found["exit_code"]) == (TRIALS, TRIALS, 0)
    assert found["canaries"] == {"planted": 4, "caught": 4, "missed": []}


def test_verify_gives_the_same_verdicts_from_stored_evidence(green: Path, red: Path) -> None:
    """Planted: only failed trials are kept; or the history of another look is judged."""
    ended = lab(green.parents[2], "verify", green.name)
    assert ended.code == 0, ended
    assert f"{KEPT} judged again, 0 differ" in ended.out
    ended = lab(red.parents[2], "verify", "latest")
    assert ended.code == 0, ended
    assert "2 judged again, 0 differ; 0 were not kept whole" in ended.out


def test_verify_is_red_about_evidence_that_says_something_else(green: Path, tmp_path: Path) -> None:
    """Planted: `lab verify` repeats the recorded verdict."""
    shutil.copytree(green, tmp_path / ".lab" / "runs" / green.name)
    kept = sorted((tmp_path / ".lab" / "runs" / green.name / "evidence").glob("*/look-*-end.tgz"))
    assert len(kept) == KEPT
    shutil.copy(kept[0].with_name("look-1-killed.tgz"), kept[0])
    ended = lab(tmp_path, "verify", green.name)
    assert ended.code == 1, ended
    assert f"{KEPT} judged again, 1 differ" in ended.out
    assert re.search(r"trial 1: was pass.* is violation", ended.out)


def test_replay_repeats_a_planted_violation(engine: docker.DockerClient, red: Path) -> None:
    """Planted: the bug is not in the record; the good program is replayed, and passes."""
    ended = lab(red.parents[2], "replay", red.name, "0001")
    assert ended.code == 0, ended
    assert "reproduced 1/1: violation of only-whole-notes" in ended.out
    assert (red / "replays" / "0001" / "1" / "evidence.json").is_file()
    assert left(engine, red.name) == []


def test_replay_says_when_a_trial_ends_otherwise(red: Path, tmp_path: Path) -> None:
    """Planted: any violation is "the same"."""
    copy = tmp_path / ".lab" / "runs" / red.name
    shutil.copytree(red, copy)
    journal = copy / "journal.jsonl"
    journal.write_text(journal.read_text().replace('"property":"only-whole-notes"', '"property":"recovers"'))
    ended = lab(tmp_path, "replay", red.name, "1")
    assert ended.code == 2, ended
    assert "reproduced 0/1: violation of recovers" in ended.out


def test_a_run_whose_image_is_gone_is_not_replayed_on_another(red: Path, tmp_path: Path) -> None:
    """Planted: the subject is built anew; today's program is then blamed for, or cleared of, yesterday's violation."""
    copy = tmp_path / ".lab" / "runs" / red.name
    shutil.copytree(red, copy)
    header = json.loads((copy / "run.json").read_text())
    (copy / "run.json").write_text(json.dumps({**header, "subject_image": "lab/notes:000000000000"}))
    ended = lab(tmp_path, "replay", red.name, "1")
    assert ended.code == 3, ended
    assert "image lab/notes:000000000000 is not on the engine" in ended.err


def test_an_unknown_trial_is_bad_usage(green: Path) -> None:
    """Planted: an empty page, and exit code 0."""
    for words in (("show", green.name, "9999"), ("replay", green.name, "9999")):
        ended = lab(green.parents[2], *words)
        assert ended.code == 64, ended
        assert "no trial 9999" in ended.err


def test_show_prints_the_runs_a_run_and_a_trial(green: Path, red: Path) -> None:
    """Planted: the evidence of a passed trial is never shown, though it was kept."""
    listed = lab(green.parents[2], "show")
    assert (listed.code, green.name in listed.out) == (0, True)
    run = lab(green.parents[2], "show", green.name)
    assert (run.code, "tmpfs" in run.out, "PASS" in run.out) == (0, True, True)
    trial = lab(green.parents[2], "show", green.name, "1")
    assert trial.code == 0, trial
    for part in ("killed", "recovered", "end", "history", "acknowledged-durable"):
        assert part in trial.out
    shown = lab(red.parents[2], "show", red.name, "1")
    assert "only-whole-notes" in shown.out


def test_report_writes_the_same_files_again(green: Path) -> None:
    """Planted: a report with the time of its making in it; two of one run then never compare."""
    names = ("summary.json", "report.html", "junit.xml", "summary.md")
    before = {name: (green / name).read_bytes() for name in names}
    for name in names:
        (green / name).unlink()
    assert lab(green.parents[2], "report", green.name).code == 0
    assert {name: (green / name).read_bytes() for name in names} == before
    suites = ElementTree.parse(green / "junit.xml").getroot()
    assert int(suites.get("failures", "-1")) == int(suites.get("errors", "-1")) == 0


def test_compare_puts_layers_and_runs_side_by_side(green: Path, red: Path) -> None:
    """Planted: a comparison of a run with itself that finds differences."""
    layers = lab(green.parents[2], "compare", green.name)
    assert layers.code == 0, layers
    assert "tmpfs" in layers.out and "ext4" in layers.out
    runs = lab(green.parents[2], "compare", green.name, str(red))
    assert runs.code == 0, runs
    assert "≠" in runs.out


def test_hooks_and_bugs_are_listed_with_what_a_census_reached(tmp_path: Path) -> None:
    """Planted: hits of a recovery on tmpfs counted as none, since the crash had emptied it."""
    ended = lab(tmp_path, "hooks", str(NOTES))
    assert ended.code == 0, ended
    half = r"^note\.half: The first half(?:.*\n)+? +runs +11 +workloads +6 +5 +recoveries +11$"
    assert re.search(half, ended.out, re.MULTILINE), ended.out
    assert re.search(
        r"^recovery\.cut: (?:.*\n)+? +runs +0 +workloads +0 +0 +recoveries +[1-9]", ended.out, re.MULTILINE
    )
    assert max(map(len, ended.out.splitlines())) <= 100
    assert "8 hooks, 55 crash points in 2 workloads" in ended.out
    assert lab(tmp_path, "bugs", str(NOTES)).out == "acknowledge-early\nkeep-torn-line\n"
    listed = json.loads(lab(tmp_path, "bugs", str(NOTES), "--json").out)
    assert [(bug["name"], bug["property"]) for bug in listed] == [
        ("acknowledge-early", "acknowledged-durable"),
        ("keep-torn-line", "only-whole-notes"),
    ]


def test_doctor_mounts_each_layer_once_and_says_what_there_is(tmp_path: Path) -> None:
    """Planted: a layer called fine because its module can be imported."""
    ended = lab(tmp_path, "doctor", timeout_s=2 * TIMEOUT_S)
    assert ended.code == 0, ended
    for layer in ("ext4", "tmpfs", "overlay"):
        assert f"storage  {layer}: mounted, written and unmounted" in ended.out
    assert re.search(r"engine +Docker \d+\..* \(API 1\.\d+\)", ended.out)
    assert "doctor   OK" in ended.out


def test_bench_measures_the_floor_and_the_lab_in_one_run(tmp_path: Path) -> None:
    """Planted: a ratio of two runs, hours apart, on a machine whose speed drifts."""
    ended = lab(tmp_path, "bench", "--trials", "8", "--workers", "2", "--json")
    assert ended.code == 0, ended
    found = json.loads(ended.out)
    assert set(found) == {"floor_trials_per_second", "lab_trials_per_second", "ratio"}
    expected = found["lab_trials_per_second"] / found["floor_trials_per_second"]
    assert found["ratio"] == pytest.approx(expected, rel=0.02)
