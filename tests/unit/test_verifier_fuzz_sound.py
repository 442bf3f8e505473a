"""The fuzz oracle against a little daemon that keeps every promise: no false alarm; and no loss of it passes."""

from __future__ import annotations

import random

import pytest
from fuzz_model import DROPPED, Trial
from hypothesis import given, settings
from hypothesis import strategies as st

SEEDS, KILLS = st.integers(0), st.integers(1, 4)


@settings(max_examples=150, deadline=None)
@given(seed=SEEDS, kills=KILLS)
def test_a_daemon_that_keeps_its_promises_is_never_accused(seed: int, kills: int) -> None:
    """Requests side by side, kills that cut them, answers after the kill, timeouts that land late, sends again."""
    broken = Trial(random.Random(seed), kills).history.broken()
    assert broken.keys() <= {"work-done"}, broken


@pytest.mark.parametrize("op", DROPPED)
@settings(max_examples=15, deadline=None)
@given(seed=SEEDS, kills=KILLS)
def test_one_acknowledged_write_that_is_forgotten_is_always_seen(op: str, seed: int, kills: int) -> None:
    """The same trials, but the last kill takes one write back, whatever went on before it."""
    assert DROPPED[op] in Trial(random.Random(seed), kills, drop=op).history.broken()


def test_the_trials_are_no_empty_ones() -> None:
    """A model in which nothing happens would never be accused of anything."""
    told = [line for seed in range(20) for line in Trial(random.Random(seed), 3).history.lines]
    events = {line["event"] for line in told} | {line["why"] for line in told if line["event"] == "info"}
    assert {"ok", "fail", "cut", "timeout", "killed", "check", "settled", "ledger"} <= events
    outcomes = {entry["outcome"] for line in told if line["event"] == "ok" for entry in line["result"].get("log", ())}
    assert outcomes == {"done", "crashed", "hung", "unknown"}
    assert {True, False} <= {line["result"].get("removed") for line in told if line["event"] == "ok"}
