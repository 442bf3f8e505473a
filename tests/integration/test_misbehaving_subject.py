"""A subject that does everything wrong that a program can: told as what it is, in seconds, and nothing is left."""

from __future__ import annotations

import time

import pytest
from conftest import RunOne

from lab.engine.stream import LOG_HEAD_BYTES, LOG_TAIL_BYTES
from lab.model import Word

pytestmark = pytest.mark.docker

QUICK_S = 20.0  # the longest of its deadlines is 5 s, and a trial waits for two of them at most


@pytest.mark.parametrize(
    ("how", "word", "phase", "says"),
    [
        ("ends-early", Word.INVALID, "hook", ["exit code 3", "giving up: no licence"]),
        ("ends-content", Word.INVALID, "hook", ["exit code 0", "nothing to do today"]),
        ("hang", Word.HANG, "hook", ["waited 5 s for hook work.step#1", "misbehave run"]),
        ("announces-another", Word.INVALID, "hook", ["it stands at work.other#7, but work.step#1 was armed"]),
        ("floods-records", Word.INVALID, "hook", ["more records than the lab keeps"]),
        ("exits-137", Word.INVALID, "hook", ["exited 137 by itself", "pretending to be killed"]),
        ("terminates-itself", Word.INVALID, "hook", ["exit code 143", "caught SIGTERM"]),
        ("eats-memory", Word.INVALID, "hook", ["memory limit", "hungry"]),
        ("fills-its-disk", Word.INVALID, "hook", ["exit code 1", "No space left on device"]),
        ("forks-without-end", Word.INVALID, "hook", ["exit code 1", "Resource temporarily unavailable"]),
        ("closes-its-output", Word.HANG, "hook", ["waited 5 s", "misbehave run", "it printed nothing"]),
    ],
)
def test_what_it_does_before_its_hook_is_told_with_its_own_last_words(
    run_one: RunOne, how: str, word: Word, phase: str, says: list[str]
) -> None:
    """Planted: each taken for a kill (RocksDB's stress test passes a timeout; etcd's takes any exit for the hit)."""
    began = time.monotonic()
    outcome = run_one(run=how)
    assert outcome.verdict.word is word, outcome.verdict
    assert outcome.evidence.failure is not None
    assert outcome.evidence.failure.phase == phase
    for text in says:
        assert text in outcome.verdict.why
    assert time.monotonic() - began < QUICK_S


@pytest.mark.parametrize(
    ("how", "word", "phase", "says"),
    [
        ({"recover": "ends-early"}, Word.VIOLATION, "recovery", ["exit code 3", "giving up: no licence"]),
        ({"recover": "ends-content"}, Word.INVALID, "recovery", ["exit code 0", "nothing to do today"]),
        ({"recover": "hang"}, Word.HANG, "recovery", ["waited 5 s for `recovery.done`", "misbehave recover"]),
        ({"recover": "exits-137"}, Word.INVALID, "recovery", ["exited 137 by itself"]),
        ({"recover": "fills-its-disk"}, Word.VIOLATION, "recovery", ["No space left on device"]),
        ({"recover": "eats-memory"}, Word.INVALID, "recovery", ["memory limit"]),
        ({"resume": "ends-early"}, Word.VIOLATION, "resume", ["exit code 3", "giving up: no licence"]),
        ({"resume": "hang"}, Word.HANG, "resume", ["waited 5 s for it to end"]),
    ],
    ids=lambda value: "-".join(f"{k}-{v}" for k, v in value.items()) if isinstance(value, dict) else None,
)
def test_a_recovery_that_fails_breaks_a_promise_and_one_that_hangs_is_a_hang(
    run_one: RunOne, how: dict[str, str], word: Word, phase: str, says: list[str]
) -> None:
    """Planted: a recovery that dies counted as "no evidence", although recovering is what was promised."""
    began = time.monotonic()
    outcome = run_one(**how)
    assert outcome.verdict.word is word, outcome.verdict
    assert outcome.evidence.failure is not None
    assert outcome.evidence.failure.phase == phase
    assert outcome.verdict.property == ("recovers" if word is Word.VIOLATION else "")
    for text in says:
        assert text in outcome.verdict.why
    assert time.monotonic() - began < QUICK_S


@pytest.mark.parametrize("how", ["floods", "writes-binary", "forks"])
@pytest.mark.parametrize("part", ["run", "recover", "resume"])
def test_what_it_prints_and_forks_does_not_hide_its_hook(run_one: RunOne, how: str, part: str) -> None:
    """Planted: a pipe that is not drained (a hang after 1.4 MB), a decode error, a wait for a child's output."""
    outcome = run_one(**{part: how})
    assert outcome.verdict.word is Word.PASS, outcome.verdict
    for process in outcome.evidence.processes:
        assert len(process.log.encode()) < 4 * (LOG_HEAD_BYTES + LOG_TAIL_BYTES)  # lone bytes become three each


def test_a_full_disk_on_ext4_is_the_subjects_failure_and_the_next_trial_passes(run_one: RunOne) -> None:
    """Planted: image and agent share one tmpfs without a reserve, and one greedy subject takes the others' space."""
    outcome = run_one(run="fills-its-disk", storage="ext4")
    assert outcome.verdict.word is Word.INVALID
    assert "No space left on device" in outcome.verdict.why
    assert run_one(storage="ext4").verdict.word is Word.PASS
