"""A run that is stopped, terminated or killed: reported, resumed with each trial exactly once, and nothing is left.

`LAB_KILLS=20 pytest tests/integration/test_interrupts.py -k random` kills it so many times; `LAB_KILLS_SEED` draws the
moments. A run that is killed even before its record exists has nothing to resume, and `lab gc` takes what it left.
"""

from __future__ import annotations

import os
import random
import re
import signal
import time
from pathlib import Path

import docker
import pytest
from command import Running, assert_each_trial_once, finished, folder, lab, notes, summary
from remains import left

pytestmark = pytest.mark.docker

KILLS = int(os.environ.get("LAB_KILLS", "4"))
SEED = int(os.environ.get("LAB_KILLS_SEED", "1"))
RUN = notes("--points", "8", "--storage", "tmpfs,ext4", "--workers", "2")
TRIALS = 16  # that count; the canaries come on top
STARTING_S = 75.0  # a run that died while it started looks alive for a minute, see lab/engine/gc.py


def resumed(where: Path) -> Path:
    """Resume the only run there, and see that it is finished: each trial once, and green."""
    run = folder(where)
    assert run is not None
    ended = lab(where, "resume", run.name)
    assert ended.code == 0, ended
    assert_each_trial_once(run)
    found = summary(run)
    assert (found["trials"], found["interrupted"], found["exit_code"]) == (TRIALS, False, 0)
    return run


def test_one_ctrl_c_finishes_what_runs_reports_and_can_be_resumed(engine: docker.DockerClient, tmp_path: Path) -> None:
    """Planted: KeyboardInterrupt in the middle of a trial; its container, volume and journal line were lost.

    And meanwhile a second lab on the same run: both would have written each result.
    """
    with Running(tmp_path, *RUN) as running:
        running.until(lambda: len(finished(folder(tmp_path))) >= 2)
        run = folder(tmp_path)
        assert run is not None
        second = lab(tmp_path, "resume", run.name)
        running.signal(signal.SIGINT)
        ended = running.ended(30)
    assert second.code == 64
    assert "another lab works on run" in second.err
    assert ended.code == 130, ended
    assert "stopping: what runs is finished" in ended.out
    assert f"`lab resume {run.name}` finishes it" in ended.out
    assert 2 <= len(finished(run)) < TRIALS
    assert (summary(run)["interrupted"], summary(run)["exit_code"]) == (True, 130)
    assert left(engine, run.name) == []
    resumed(tmp_path)
    assert left(engine, run.name) == []


def test_sigterm_is_a_ctrl_c_and_a_torn_last_line_is_a_trial_that_runs_again(
    engine: docker.DockerClient, tmp_path: Path
) -> None:
    """Planted: SIGTERM kills the lab at once; resume appends behind a torn line, and the journal's middle is damage."""
    with Running(tmp_path, *RUN) as running:
        running.until(lambda: len(finished(folder(tmp_path))) >= 2)
        running.signal(signal.SIGTERM)
        ended = running.ended(30)
    assert ended.code == 130, ended
    run = folder(tmp_path)
    assert run is not None
    assert left(engine, run.name) == []
    journal = run / "journal.jsonl"
    with journal.open("ab") as file:
        file.write(b'{"at_s":1.0,"rss_kb":1,"result":{"trial":{"ident":16,"kind":"po')
    resumed(tmp_path)
    lines = journal.read_bytes().split(b"\n")
    journal.write_bytes(b"\n".join([*lines[:2], lines[2][:20], *lines[3:]]))
    shown = lab(tmp_path, "show", run.name)
    assert shown.code == 3
    assert "journal.jsonl line 3 is damaged" in shown.err


def test_a_second_ctrl_c_stops_within_seconds(engine: docker.DockerClient, tmp_path: Path) -> None:
    """Planted: the second one ignored until a hung subject's deadline has passed."""
    with Running(tmp_path, *RUN) as running:
        running.until(lambda: len(finished(folder(tmp_path))) >= 2)
        running.signal(signal.SIGINT)
        time.sleep(0.2)
        running.signal(signal.SIGINT)
        began = time.monotonic()
        ended = running.ended(30)
    assert time.monotonic() - began < 8
    assert ended.code == 130, ended
    run = folder(tmp_path)
    assert run is not None
    assert re.search(rf"INTERRUPTED +\d+ of \d+ trials done; `lab resume {run.name}` finishes it", ended.out), ended
    assert left(engine, run.name) == []


def test_a_signal_while_it_prepares_leaves_nothing(engine: docker.DockerClient, tmp_path: Path) -> None:
    """Planted: only trials watched for signals; a Ctrl-C in the census was a traceback and leaked the services."""
    with Running(tmp_path, *RUN) as running:
        running.until(lambda: "census" in running.said())
        running.signal(signal.SIGINT)
        ended = running.ended(30)
    assert ended.code == 130, ended
    assert ended.err == "stopped  before the first trial\n"
    run = folder(tmp_path)
    assert run is not None
    assert left(engine, run.name) == []
    again = lab(tmp_path, "resume", run.name)
    assert again.code == 3
    assert "it was stopped before it got there" in again.err


@pytest.mark.parametrize("number", range(KILLS))
def test_kill_9_at_a_random_moment_loses_no_trial_and_leaves_nothing(
    engine: docker.DockerClient, tmp_path: Path, number: int
) -> None:
    """Planted: results kept in memory; trials run twice after a resume; loop devices and mounts of the dead."""
    rng = random.Random(f"{SEED}/{number}")
    after = rng.randrange(-4, TRIALS - 4)  # finished trials; below 0: during the census
    with Running(tmp_path, *RUN) as running:
        running.until(lambda: folder(tmp_path) is not None and len(finished(folder(tmp_path))) >= after)
        time.sleep(rng.uniform(0.0, 0.6))  # anywhere in a trial
        running.signal(signal.SIGKILL)
        assert running.ended(10).code == -signal.SIGKILL
    run = folder(tmp_path)
    assert run is not None
    if (run / "plan.json").exists():
        resumed(tmp_path)
    else:
        _collected(engine, tmp_path, run.name)
    assert left(engine, run.name) == []


def test_gc_takes_all_of_a_dead_run_and_nothing_of_a_living_one(engine: docker.DockerClient, tmp_path: Path) -> None:
    """Planted: gc by age, or by label alone: it takes the ledger of the lab next door in the middle of a trial."""
    dead_place, living_place = tmp_path / "dead", tmp_path / "living"
    dead_place.mkdir()
    living_place.mkdir()
    with Running(dead_place, *RUN) as dying, Running(living_place, *RUN) as living:
        dying.until(lambda: len(finished(folder(dead_place))) >= 2)
        dying.signal(signal.SIGKILL)
        dying.ended(10)
        dead = folder(dead_place)
        assert dead is not None
        living.until(lambda: len(finished(folder(living_place))) >= 1)
        assert left(engine, dead.name) != []
        _collected(engine, tmp_path, dead.name)
        while living.process.poll() is None:
            assert lab(tmp_path, "gc").code == 0
        ended = living.ended()
    assert ended.code == 0, ended
    run = folder(living_place)
    assert run is not None
    assert_each_trial_once(run)
    assert left(engine, run.name) == []


def _collected(engine: docker.DockerClient, where: Path, run: str) -> None:
    """`lab gc` until nothing of a dead run is left."""
    deadline = time.monotonic() + STARTING_S
    while True:
        ended = lab(where, "gc")
        assert ended.code == 0, ended
        remaining = left(engine, run)
        if not remaining:
            return
        assert time.monotonic() < deadline, remaining
        time.sleep(1)
