"""What follows a failure of a fuzz run: shown, made short, replayed, judged again. And what a stop leaves."""

from __future__ import annotations

import json
import re
import signal
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import docker
import pytest
from command import Ended, Running, finished, folder, journal, lab, summary
from remains import left

from lab.model import Json
from lab.run import reproducer as script
from lab.run.reproducer import Script

pytestmark = pytest.mark.docker

BUG = "draft-before-write"
SEED = 5  # its first scenario shows the bug, unless the machine is slow: then a later one does, and none is run after
MAX_OPERATIONS = 12
REDIS = ("run", "fuzz", "--subject", "redis", "--seed", "7", "--workers", "2", "--storage", "tmpfs,ext4")
TRIALS = 6


@dataclass(frozen=True)
class Failure:
    """A run of the planted bug, the trial that caught it, and its short script."""

    where: Path
    ended: Ended
    run: Path
    trial: int
    path: Path
    script: Script


@pytest.fixture(scope="module")
def failure(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Failure]:
    where = tmp_path_factory.mktemp("fuzz")
    words = ("run", "fuzz", "--bug", BUG, "--seed", str(SEED), "--shrink", "40")
    ended = lab(where, *words, "--storage", "tmpfs", "--workers", "1", "--trials", "4")
    run = folder(where)
    assert run is not None, ended
    results = [line["result"] for line in journal(run) if "result" in line]
    caught = [r["trial"]["ident"] for r in results if r["verdict"]["word"] == "violation"]
    assert caught, ended
    path = run / "shrunk" / f"{caught[0]:04d}.json"
    assert path.is_file(), ended
    yield Failure(where, ended, run, caught[0], path, script.read(path))


def test_a_planted_bug_is_caught_by_its_property(failure: Failure) -> None:
    """Planted: a run that is green about it, or that is told of by another property."""
    assert failure.ended.code == 1, failure.ended
    found = summary(failure.run)
    assert found["canaries"] == {"planted": 1, "caught": 1, "missed": []}
    told = rf"VIOLATION seed {SEED}/{failure.trial} step \d+ draft/set: drafts-durable: "
    assert re.search(told, failure.ended.out), failure.ended


def test_its_script_is_short_printed_and_says_what_breaks(failure: Failure) -> None:
    """A scenario of two hundred operations tells nobody anything."""
    assert len(failure.script.scenario.operations) <= MAX_OPERATIONS, failure.ended.out
    assert {"chat/new", "draft/set"} <= {op.op for op in failure.script.scenario.operations}
    assert (failure.script.property, failure.script.bug) == ("drafts-durable", BUG)
    assert f"lab replay .lab/runs/{failure.run.name}/shrunk/{failure.trial:04d}.json" in failure.ended.out
    assert "sigkill   at" in failure.ended.out
    assert summary(failure.run)["shrunk"] >= 1


def test_the_script_breaks_again(engine: docker.DockerClient, failure: Failure) -> None:
    """From another folder: all that it needs is in the file."""
    again = lab(failure.where, "replay", str(failure.path))
    assert again.code == 0, again
    assert "reproduced 1/1: violation of drafts-durable" in again.out
    assert "violation of drafts-durable" in again.out


def test_the_script_of_a_mended_daemon_breaks_nothing(failure: Failure, tmp_path: Path) -> None:
    """Planted: a replay that says `broken` whatever it saw. Here the script is run without the planted bug."""
    mended = json.loads(failure.path.read_text())
    mended["bug"] = None
    (tmp_path / "mended.json").write_text(json.dumps(mended))
    again = lab(tmp_path, "replay", "mended.json")
    assert again.code == 2, again
    assert "reproduced 0/1: violation of drafts-durable" in again.out


def test_the_whole_trial_is_run_again_with_all_its_clients(engine: docker.DockerClient, failure: Failure) -> None:
    """`lab replay RUN TRIAL`: the same scenario, side by side, which need not meet the same way twice.

    So what it says and its exit code have to agree with what was seen, whatever that was; it is kept as well.
    """
    again = lab(failure.where, "replay", failure.run.name, str(failure.trial))
    kept = failure.run / "replays" / f"{failure.trial:04d}" / "1"
    assert {"evidence.json", "history.jsonl", "look-1-end.tgz", "scenario.json"} <= {
        path.name for path in kept.iterdir()
    }
    same = int("drafts-durable" in json.loads((kept / "verdict.json").read_text())["broken"])
    assert f"reproduced {same}/1: violation of drafts-durable" in again.out
    assert again.code == (0 if same else 2), again
    first = failure.run / "evidence" / f"{failure.trial:04d}" / "scenario.json"
    assert (kept / "scenario.json").read_bytes() == first.read_bytes()
    assert left(engine, failure.run.name) == []


def test_a_replay_that_is_stopped_says_so_and_not_that_it_did_not_break(failure: Failure, tmp_path: Path) -> None:
    """It ended with 2, `broken: 1 of 20`: whoever bisects took a stopped replay for one of a mended daemon."""
    with Running(tmp_path, "replay", str(failure.path), "--times", "20") as running:
        running.until(lambda: "violation of" in running.said())
        running.signal(signal.SIGINT)
        ended = running.ended(60)
    assert ended.code == 130, ended
    assert "stopped  after 1 of 20" in ended.err or "stopped  after 2 of 20" in ended.err
    assert "reproduced" not in ended.out


def test_its_evidence_is_judged_again_as_it_was(failure: Failure) -> None:
    """Collecting and judging are apart; and another history is told to be judged otherwise."""
    again = lab(failure.where, "verify", failure.run.name)
    assert again.code == 0, again
    assert re.search(r"[1-4] judged again, 0 differ", again.out), again
    history = failure.run / "evidence" / f"{failure.trial:04d}" / "history.jsonl"
    whole = history.read_text()
    try:
        history.write_text("".join(json.dumps(line) + "\n" for line in without_drafts(whole)))
        differing = lab(failure.where, "verify", failure.run.name)
    finally:
        history.write_text(whole)
    assert differing.code == 1, differing
    assert f"trial {failure.trial}: was violation drafts-durable, is" in differing.out


def without_drafts(history: str) -> Iterator[Json]:
    """The same history, but every draft was refused, and none was ever read."""
    lines = [json.loads(line) for line in history.splitlines()]
    drafts = {line["id"] for line in lines if line["event"] == "invoke" and line["op"] == "draft/set"}
    for line in lines:
        if line["event"] == "ok" and line["id"] in drafts:
            yield {
                "event": "fail",
                "id": line["id"],
                "error": {"code": -32603, "message": "no"},
                "at_ms": line["at_ms"],
            }
        elif line["event"] == "ok" and "draft" in line["result"]:
            yield {**line, "result": {**line["result"], "draft": None}}
        else:
            yield line


def test_it_is_shown_life_by_life_and_the_lost_operation_is_marked(failure: Failure) -> None:
    """`lab show RUN TRIAL`, from the files of the run alone."""
    shown = lab(failure.where, "show", failure.run.name, str(failure.trial))
    assert shown.code == 0, shown
    marked = [line for line in shown.out.splitlines() if line.startswith(">")]
    assert len(marked) == 1 and "draft/set" in marked[0], shown.out
    for part in ("process 1: with-bug", "sigkill   at", "final check", "sigkill sent", "look end"):
        assert part in shown.out
    assert max(len(line) for line in shown.out.splitlines() if "/" not in line) <= 100


def resumed(where: Path) -> Path:
    """Resume the only run there, and see that it is finished: each trial once, and green."""
    run = folder(where)
    assert run is not None
    ended = lab(where, "resume", run.name)
    assert ended.code == 0, ended
    done = finished(run)
    assert [ident for ident, times in Counter(done).items() if times > 1] == []
    found = summary(run)
    assert (found["trials"], found["interrupted"], found["exit_code"]) == (TRIALS, False, 0)
    assert found["canaries"]["caught"] == found["canaries"]["planted"] == 1
    return run


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL], ids=["Ctrl-C", "kill -9"])
def test_a_fuzz_run_that_is_stopped_or_killed_is_resumed_each_trial_once_and_leaves_nothing(
    engine: docker.DockerClient, tmp_path: Path, number: signal.Signals
) -> None:
    """Planted: results kept in memory, a canary planted again, the home of a trial that was cut left on the engine."""
    with Running(tmp_path, *REDIS, "--trials", str(TRIALS)) as running:
        running.until(lambda: len(finished(folder(tmp_path))) >= 3)
        running.signal(number)
        ended = running.ended(60)
    run = folder(tmp_path)
    assert run is not None
    assert 3 <= len(finished(run)) < TRIALS + 1
    if number is signal.SIGINT:
        assert ended.code == 130, ended
        assert f"`lab resume {run.name}` finishes it" in ended.out
        assert (summary(run)["interrupted"], summary(run)["exit_code"]) == (True, 130)
        assert left(engine, run.name) == []
    else:
        assert ended.code == -signal.SIGKILL
    resumed(tmp_path)
    assert left(engine, run.name) == []
