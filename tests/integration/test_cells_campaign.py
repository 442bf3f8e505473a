"""`lab run cells` as a person runs it, and the commands around it, on stores that offer a few cells only.

The stores are the reference store and hermes-agent's, with a `cells.toml` of the test's: a campaign takes minutes.
"""

from __future__ import annotations

import json
import re
import signal
from pathlib import Path
from typing import Any

import docker
import pytest
from command import Running, assert_each_trial_once, finished, folder, journal, lab, summary
from remains import left

from lab.engine import images
from lab.engine.client import connect
from lab.subject.load import SUBJECTS
from lab.workloads.session_cells import CELLS

pytestmark = pytest.mark.docker

SMALL = """
consume-once        = ["claim.durable", "claim.durable > recovery.reaped"]
checkpoint-validity = ["append.durable"]
"""
TRIALS = 6  # and three races among them
BUGS = ("claim-owner-is-pid", "half-written")
MOMENTS = """
fork-determinism = ["answer"]
"""


def of(where: Path, subject: str, points: str, bugs: tuple[str, ...] = ()) -> tuple[str, ...]:
    """A run of this store with these cells in its own journal mode, and these canaries; all else it does not offer."""
    tags = images.ensure_folders(connect(), {name: SUBJECTS / name for name in (subject, f"{subject}-verifier")}, print)
    home, mine = SUBJECTS / subject, where / "store"
    mine.mkdir()
    text = (home / "subject.toml").read_text()
    text = text.replace('"build:."', f'"{tags[subject]}"').replace(
        f'"build:../{subject}-verifier"', f'"{tags[f"{subject}-verifier"]}"'
    )
    (mine / "subject.toml").write_text(text)
    (mine / "hooks.toml").write_text((home / "hooks.toml").read_text())
    if bugs:
        _, *blocks = (home / "bugs.toml").read_text().split("[[bug]]")
        kept = [block for block in blocks if any(f'"{bug}"' in block for bug in bugs)]
        (mine / "bugs.toml").write_text("".join(f"[[bug]]{block}" for block in kept))
    names = [name for name in CELLS if f"\n{name} " not in points] + ["delete", "wal"]
    refused = "".join(f'{name} = "kept small"\n' for name in names)
    (mine / "cells.toml").write_text(f"[not_offered]\n{refused}[points]\n{points}")
    return ("run", "cells", "--subject", str(mine), "--seed", "7", "--storage", "tmpfs", "--workers", "2")


def evidence(run: Path, trial: int) -> dict[str, Any]:
    found = json.loads((run / "evidence" / f"{trial:04d}" / "evidence.json").read_text())
    assert isinstance(found, dict)
    return found


def planned(run: Path) -> list[dict[str, Any]]:
    trials = json.loads((run / "plan.json").read_text())["trials"]
    assert isinstance(trials, list)
    return trials


@pytest.fixture(scope="module")
def green(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A green run of a small store, its evidence kept whole."""
    where = tmp_path_factory.mktemp("cells")
    ended = lab(where, *of(where, "sessions", SMALL, BUGS), "--evidence", "all", "-v")
    assert ended.code == 0, ended
    assert f"{TRIALS} trials on 1 layer" in ended.out
    run = folder(where)
    assert run is not None
    return run


def test_a_small_store_is_green_with_its_race_its_canaries_and_its_refusals(green: Path) -> None:
    """Planted: a campaign owes hooks that no cell names, or facts of cells that are not offered, and is never green."""
    found = summary(green)
    assert (found["trials"], found["verdicts"]["pass"], found["exit_code"]) == (TRIALS, TRIALS, 0)
    assert found["canaries"] == {"planted": 2, "caught": 2, "missed": []}
    legs = json.loads((green / "legs.json").read_text())
    assert {leg["reason"] for leg in legs if leg["workload"] is None} == {"kept small"}
    assert [leg["cell"] for leg in legs if leg["workload"] is not None] == ["consume-once", "checkpoint-validity"]
    for trial in planned(green):
        if trial["kind"] == "point":
            seen = evidence(green, trial["ident"])["processes"]
            assert [p["killed"] for p in seen].count(True) == len(trial["script"]["points"])
            assert len([p for p in seen if p["racer"]]) == trial["script"]["racers"]


def test_a_race_and_a_second_crash_are_replayed(green: Path) -> None:
    """Planted: a race has no point, and a replay that says so by an empty line, or runs no race."""
    race = next(t["ident"] for t in planned(green) if t["script"]["racers"])
    ended = lab(green.parents[2], "replay", green.name, str(race))
    assert ended.code == 0, ended
    assert f"trial {race} of {green.name}: a race of 8 on tmpfs" in ended.out
    assert "reproduced 1/1: pass" in ended.out
    replayed = json.loads((green / "replays" / f"{race:04d}" / "1" / "evidence.json").read_text())
    assert len([p for p in replayed["processes"] if p["racer"]]) == 8
    twice = next(t["ident"] for t in planned(green) if len(t["script"]["points"]) == 2)
    ended = lab(green.parents[2], "replay", green.name, str(twice))
    assert ended.code == 0, ended
    assert re.search(rf"trial {twice} .* claim\.durable#\d+.* recovery\.reaped#1 on tmpfs", ended.out)


def test_every_trial_that_was_kept_is_judged_again_by_its_own_cell(green: Path) -> None:
    """Planted: judged again by all promises, of which one cell answers one; or without the audit."""
    where, kept = green.parents[2], len(list((green / "evidence").glob("*/evidence.json")))
    assert kept >= TRIALS + len(BUGS)
    ended = lab(where, "verify", green.name)
    assert (ended.code, f"{kept} judged again, 0 differ" in ended.out) == (0, True), ended


def test_show_and_compare_tell_a_cells_run(green: Path) -> None:
    """Planted: a report that asks each trial for its first point; a race has none."""
    race = next(t["ident"] for t in planned(green) if t["script"]["racers"])
    shown = lab(green.parents[2], "show", green.name, str(race))
    assert (shown.code, "a race of 8" in shown.out) == (0, True), shown
    compared = lab(green.parents[2], "compare", green.name)
    assert (compared.code, "consume-once" in compared.out) == (0, True), compared


def test_a_journal_mode_that_is_changed_back_makes_its_leg_invalid(tmp_path: Path) -> None:
    """Planted: a table with a column `delete` that ran in WAL. Invalid is not green: exit code 2."""
    ended = lab(tmp_path, "run", "cells", "--seed", "7", "--storage", "tmpfs", "--bug", "journal-mode-changed-back")
    assert ended.code == 2, ended
    run = folder(tmp_path)
    assert run is not None
    verdicts = [line["result"]["verdict"] for line in journal(run) if "result" in line]
    assert {(v["word"], v["property"]) for v in verdicts} == {("invalid", "journal-mode")}
    assert summary(run)["verdicts"]["invalid"] == len(verdicts) > 0


def test_a_kill_at_a_moment_has_its_evidence_and_is_replayed(tmp_path: Path) -> None:
    """hermes-agent's store has no hook there: nothing is armed, and the kill falls where the writer has got to."""
    ended = lab(tmp_path, *of(tmp_path, "hermes", MOMENTS), "--evidence", "all")
    assert ended.code == 0, ended
    run = folder(tmp_path)
    assert run is not None
    (trial,) = planned(run)
    (point,) = trial["script"]["points"]
    assert point["hook"] == "answer"
    kept = evidence(run, trial["ident"])
    struck = kept["processes"][0]
    assert (struck["hit"]["hook"], struck["hit"]["n"]) == ("answer", point["occurrence"])
    assert struck["armed"] is None
    assert (struck["killed"], struck["exit_code"], struck["oom_killed"]) == (True, 137, False)
    assert struck["alive"] in ("psutil", "engine")
    history = [json.loads(line) for line in (run / "evidence" / "0001" / "history.jsonl").read_text().splitlines()]
    before = history[: history.index({"process": 1, "died": True})]
    assert sum(line["type"] == "ok" for line in before) >= point["occurrence"]
    replayed = lab(tmp_path, "replay", run.name, "1")
    assert (replayed.code, "reproduced 1/1: pass" in replayed.out) == (0, True), replayed


def test_a_run_that_was_killed_is_resumed_with_each_trial_once(engine: docker.DockerClient, tmp_path: Path) -> None:
    """Planted: legs, promises and races are lost with the process that had planned them."""
    with Running(tmp_path, *of(tmp_path, "sessions", SMALL, BUGS)) as running:
        running.until(lambda: len(finished(folder(tmp_path))) >= 2)
        running.signal(signal.SIGKILL)
        running.ended()
    run = folder(tmp_path)
    assert run is not None
    assert len(finished(run)) < TRIALS + len(BUGS)
    ended = lab(tmp_path, "resume", run.name)
    assert ended.code == 0, ended
    assert_each_trial_once(run)
    assert (summary(run)["trials"], summary(run)["exit_code"]) == (TRIALS, 0)
    assert left(engine, run.name) == []
