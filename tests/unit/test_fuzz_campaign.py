"""When a fuzz run ends: by its time, over all its sessions, or with its planted bug. No engine here."""

from __future__ import annotations

import dataclasses
import time
from pathlib import Path

import pytest
from fuzz_evidence import good
from fuzz_plan import HOOKS, bug, plan
from run_folder import HEADER

from lab.campaigns.base import Session
from lab.campaigns.fuzz import FUZZ_CAMPAIGN, SCENARIOS
from lab.model import Result, Verdict, Word
from lab.plan.points import Bounds, Plan
from lab.run.record import Record
from lab.subject.load import load
from lab.trial.judge import in_brief
from lab.trial.setting import Prepared, Setting

BUG = bug("draft-late", within=5)


class Clock:
    """Time that passes only when it is told to."""

    now_s = 1000.0

    def __call__(self) -> float:
        return self.now_s


@pytest.fixture
def clock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Clock:
    """In a folder of its own, for the runs of a test."""
    made = Clock()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(time, "monotonic", made)
    return made


def session(bounds: Bounds, planted: str | None = None, *results: Result) -> Session:
    """A run of three layers, its first session begun."""
    header = dataclasses.replace(HEADER, campaign="fuzz", subject="muxd", bug=planted)
    subject = load("muxd").model_copy(update={"hooks": HOOKS, "bugs": (BUG,)})
    record = Record.create(header)
    record.write("subject.json", subject.model_dump(mode="json"))
    record.write(SCENARIOS, {"plan": plan(kills=(1, 2), ops=(3, 5)).model_dump(mode="json"), "corpus": []})
    record.begin_session()
    setting = Setting(header.run, header.seed, subject, "muxd:1", "verifier:1", None, (), Prepared({}, {}, b""))
    return Session(record, header, setting, Plan((), 0, (), bounds=bounds), list(results))


def spent(clock: Clock, seconds: float, of: Session) -> Session:
    """So long worked, then stopped and, much later, resumed."""
    clock.now_s += seconds
    of.record.end_session(interrupted=True)
    clock.now_s += 3600
    of.record.begin_session()
    return of


def result(ident: int, word: Word, prop: str = "") -> Result:
    trial = dataclasses.replace(good().trial, ident=ident, bug=BUG.name)
    return in_brief(good(trial=trial), Verdict(word, "", prop, (prop,) if prop else ()), None)


MISSED = (result(1, Word.PASS), result(2, Word.VIOLATION, "some-other"))
CAUGHT = result(3, Word.VIOLATION, BUG.property)


def test_a_run_ends_when_its_time_is_up(clock: Clock) -> None:
    """What runs then is finished; nothing new begins."""
    asked = iter(FUZZ_CAMPAIGN.groups(session(Bounds(0.5, None))))
    next(asked)
    clock.now_s += 29.9
    next(asked)
    clock.now_s += 0.2
    assert next(asked, None) is None


def test_a_resumed_run_has_the_time_that_was_left(clock: Clock) -> None:
    """Planted: every resume begins the two minutes anew, or counts the night between them."""
    resumed = spent(clock, 20.0, session(Bounds(0.5, None)))
    asked = iter(FUZZ_CAMPAIGN.groups(resumed))
    next(asked)
    clock.now_s += 9.9
    next(asked)
    clock.now_s += 0.2
    assert next(asked, None) is None
    assert list(FUZZ_CAMPAIGN.groups(spent(clock, 11.0, resumed))) == []


def test_a_run_of_trials_knows_no_time(clock: Clock) -> None:
    """`--trials 6` on a slow machine is six trials."""
    asked = FUZZ_CAMPAIGN.groups(spent(clock, 1e9, session(Bounds(None, 6))))
    assert len(list(asked)) == 6


def test_a_planted_bug_ends_its_run_when_it_is_caught(clock: Clock) -> None:
    """Planted: twelve trials of a bug that the first one has caught, each run again to be sure."""
    running = session(Bounds(None, None), BUG.name)
    asked = iter(FUZZ_CAMPAIGN.groups(running))
    next(asked)
    running.results += MISSED
    next(asked)
    running.results.append(CAUGHT)
    assert next(asked, None) is None


def test_a_resumed_run_of_a_bug_that_was_caught_before_runs_no_more_trials(clock: Clock) -> None:
    """A run that was stopped while it was made short began to look for its bug again."""
    assert list(FUZZ_CAMPAIGN.groups(session(Bounds(None, None), BUG.name, *MISSED, CAUGHT))) == []


def test_only_its_own_property_catches_a_planted_bug_and_only_a_planted_bug_ends_a_run(clock: Clock) -> None:
    """Another property that breaks is no catch; without a bug a violation is a finding, and the run goes on."""
    running = session(Bounds(None, None), BUG.name, *MISSED)
    assert len(list(FUZZ_CAMPAIGN.groups(running))) == BUG.within
    without = dataclasses.replace(running, header=dataclasses.replace(running.header, bug=None))
    without = dataclasses.replace(without, plan=Plan((), 0, (), bounds=Bounds(None, 4)), results=[*MISSED, CAUGHT])
    assert len(list(FUZZ_CAMPAIGN.groups(without))) == 4
