"""The fuzz campaign, small and long: daemons killed again and again on three storage layers, through the command line.

`LAB_FUZZ_SEED=7 pytest tests/test_fuzz.py -k long -s` runs it for three minutes and keeps what it found.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from command import Ended, finished, folder, journal, lab, summary
from remains import left

from lab.engine.client import connect
from lab.model import RECOVERS
from lab.plan.plan_file import corpus_of
from lab.subject.load import load
from lab.subject.spec import Subject

pytestmark = pytest.mark.docker

LAYERS = ("ext4", "tmpfs", "overlay")
SHORT = {"muxd": 6, "redis": 3}  # trials, the layers in turn
TIMEOUT_S = 150.0  # 12 s and 8 s on two idle cores
LONG_SEED = os.environ.get("LAB_FUZZ_SEED")
LONG = ("--minutes", "3", "--shrink", "25")  # what is running when the time is up is finished, and made short
GREEN = ("pass", "note")


@dataclass(frozen=True)
class Campaign:
    """A finished campaign and what it left on disk."""

    subject: Subject
    trials: int
    ended: Ended
    run: Path
    summary: dict[str, Any]


@pytest.fixture(scope="module", params=SHORT)
def campaign(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Campaign]:
    """The short run of each built-in daemon."""
    name = request.param
    where = tmp_path_factory.mktemp(name)
    words = ("run", "fuzz", "--seed", "7", "--trials", str(SHORT[name]), "--subject", name)
    ended = lab(where, *words, timeout_s=TIMEOUT_S)
    run = folder(where)
    assert run is not None, ended
    subject = load(name)
    old_failures = len(corpus_of(subject)) * len(LAYERS)  # each layer runs them first
    yield Campaign(subject, SHORT[name] + old_failures, ended, run, summary(run))


def test_every_promise_is_held_through_every_kill_and_the_command_says_so(campaign: Campaign) -> None:
    """Planted: each of the daemon's canaries, in this same campaign."""
    assert campaign.ended.code == 0, campaign.ended
    found = campaign.summary
    assert sum(found["verdicts"][word] for word in GREEN) == campaign.trials == found["trials"], found["verdicts"]
    assert (found["interrupted"], found["no_work"], found["exit_code"]) == (False, [], 0)
    assert f"PASS      {found['operations']:,} operations and {found['kills']} real kills" in campaign.ended.out


def test_every_property_was_checked_on_facts(campaign: Campaign) -> None:
    """Planted: an oracle that is told nothing; it finds no difference either."""
    facts = campaign.summary["facts"]
    assert set(facts) == {*campaign.subject.promises, *campaign.subject.verifier.audits, RECOVERS}
    assert all(count > 0 for count in facts.values()), facts
    assert campaign.summary["operations"] > 20 * campaign.trials
    assert campaign.summary["kills"] >= 3 * campaign.trials
    assert len(campaign.summary["kills_by_kind"]) >= 3


def test_every_canary_is_planted_and_caught(campaign: Campaign) -> None:
    """Planted: a canary that any violation catches, or that nobody runs."""
    canaries = [bug.name for bug in campaign.subject.bugs if bug.canary]
    assert canaries
    assert campaign.summary["canaries"] == {"planted": len(canaries), "caught": len(canaries), "missed": []}


def test_each_trial_ran_once_on_the_filesystem_that_its_container_saw(campaign: Campaign) -> None:
    """Planted: one volume of the engine's own for all three layers."""
    idents = finished(campaign.run)
    assert len(set(idents)) == len(idents)
    results = [line["result"] for line in journal(campaign.run) if "result" in line]
    seen = [(r["trial"]["storage"], r["mount"].partition(" - ")[2].split(" ")[0]) for r in results]
    assert {layer for layer, _ in seen} == set(LAYERS)
    assert all(layer == filesystem for layer, filesystem in seen), seen


def test_the_reports_are_written_and_nothing_is_left_on_the_engine(campaign: Campaign) -> None:
    """Planted: a home or a socket's volume for each trial, until the engine has no more."""
    for name in ("report.html", "junit.xml", "summary.md", "plan.json", "scenarios.json", "subject.json"):
        assert (campaign.run / name).stat().st_size > 0
    client = connect()
    assert left(client, campaign.run.name) == []
    client.close()


@pytest.mark.skipif(LONG_SEED is None, reason="long; LAB_FUZZ_SEED=7 pytest tests/test_fuzz.py -k long -s runs it")
@pytest.mark.timeout(300)
def test_a_long_run_of_muxd_holds_every_promise() -> None:
    """A search: what it finds is printed, and stays on disk with its evidence and its short script."""
    assert LONG_SEED is not None
    where = Path(".lab") / "long-fuzz" / f"{LONG_SEED}-{int(time.time())}"
    where.mkdir(parents=True)
    ended = lab(where, "run", "fuzz", "--subject", "muxd", "--seed", LONG_SEED, *LONG, timeout_s=290)
    print(ended.out, ended.err, f"kept in {where.resolve()}", sep="\n")
    run = folder(where)
    assert run is not None, ended
    assert ended.code == 0, ended.out[-3000:]
    assert summary(run)["took_s"] > 150
