"""When a fuzz run ends: by its time, over all its sessions, or with its planted bug. No engine here."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator

import pytest
from fuzz_plan import draw
from lab.fuzz.model import FuzzTrial
from lab.fuzz.store import Bounds
from report_fuzz_data import BUG, result

from lab.campaigns.fuzz import _until, caught_by
from lab.model import Word
from lab.plan.schedule import groups


def endless() -> Iterator[tuple[FuzzTrial, ...]]:
    return groups(draw(), (), (), None, None)


def test_a_run_ends_when_its_time_is_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """What runs then is finished; nothing new begins."""
    clock = [1000.0]
    monkeypatch.setattr(time, "monotonic", lambda: clock[0])
    asked = _until(Bounds(0.5, None, 0), 0.0, threading.Event(), endless())
    next(asked)
    clock[0] += 29.9
    next(asked)
    clock[0] += 0.2
    assert next(asked, None) is None


def test_a_resumed_run_has_the_time_that_was_left(monkeypatch: pytest.MonkeyPatch) -> None:
    """Planted: every resume begins the two minutes anew."""
    clock = [1000.0]
    monkeypatch.setattr(time, "monotonic", lambda: clock[0])
    asked = _until(Bounds(0.5, None, 0), 20.0, threading.Event(), endless())
    next(asked)
    clock[0] += 10.1
    assert next(asked, None) is None
    assert next(_until(Bounds(0.5, None, 0), 31.0, threading.Event(), endless()), None) is None


def test_a_run_of_trials_knows_no_time() -> None:
    """`--trials 6` on a slow machine is six trials."""
    asked = groups(draw(), (), (), None, 6)
    assert len(list(_until(Bounds(None, 6, 0), 1e9, threading.Event(), asked))) == 6


def test_a_planted_bug_ends_its_run_when_it_is_caught() -> None:
    """Planted: twelve trials of a bug that the first one has caught, each run again to be sure."""
    caught = threading.Event()
    asked = _until(Bounds(None, None, 0), 0.0, caught, endless())
    next(asked)
    caught.set()
    assert next(asked, None) is None


def test_a_resumed_run_of_a_bug_that_was_caught_before_runs_no_more_trials() -> None:
    """A run that was stopped while it was made short began to look for its bug again."""
    missed = [result(1, Word.PASS), result(2, Word.VIOLATION, "some-other")]
    assert not caught_by(BUG, missed).is_set()
    assert not caught_by(None, [*missed, result(3, Word.VIOLATION, BUG.property)]).is_set()
    caught = caught_by(BUG, [*missed, result(3, Word.VIOLATION, BUG.property)])
    assert list(_until(Bounds(None, None, 0), 0.0, caught, endless())) == []
