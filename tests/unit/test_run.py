"""Scheduling: what is run, run again, and never run again. `run_trial` is a pure function here; the rest is real."""

from __future__ import annotations

import dataclasses
import json
import threading
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import pytest
from run_folder import disk_full_after, new
from trial_evidence import FIRST, SECOND, crash, good, killed, twice_killed

from lab.engine.errors import LabError
from lab.model import Kind, Reproduced, Result, Trial, Verdict, Word
from lab.run import scheduler as run
from lab.run.pool import Pool, Stop
from lab.run.record import Record
from lab.run.scheduler import MAX_ERRORS_IN_A_ROW, REPLAYS, Catches, Order, planned, run_groups
from lab.trial.judge import in_brief
from lab.trial.run import Outcome

LOST = Verdict(Word.VIOLATION, "lost", "durable", ("durable",))
TWICE = Verdict(Word.VIOLATION, "twice", "once", ("once",))
Judge = Callable[[Trial, int], Verdict]


@pytest.fixture(autouse=True)
def _in_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def point(ident: int) -> Trial:
    return crash(ident, FIRST)


def canary(ident: int, bug: str = "torn", storage: str = "ext4") -> Trial:
    return dataclasses.replace(crash(ident, FIRST, kind=Kind.CANARY, bug=bug), storage=storage)


class Bench:
    """A record and a pool; `judge` says what the n-th run (from 1) of a trial ends in."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, judge: Judge, workers: int = 1) -> None:
        self.record: Record = new()
        self.ran: list[int] = []
        self.pool = Pool(cast(Any, list(range(workers))), Stop())
        self._lock = threading.Lock()

        def run_trial(trial: Trial, setting: Any, worker: Any, *, keep_evidence: bool) -> Outcome:
            with self._lock:
                self.ran.append(trial.ident)
                times = self.ran.count(trial.ident)
            return Outcome(good(trial=trial), judge(trial, times), (b"1", b"2", b"3") if keep_evidence else ())

        monkeypatch.setattr(run, "run_trial", run_trial)

    def run(self, *trials: Trial, keep_evidence: bool = False) -> list[Result]:
        """Run this plan, as often as it is called on the same record."""
        order = self.order(lambda trial, verdict: "durable" in verdict.broken, keep_evidence=keep_evidence)
        return list(run_groups(planned(trials), order, self.pool))

    def order(self, catches: Catches, *, keep_evidence: bool = False) -> Order:
        return Order(cast(Any, None), self.record, keep_evidence, catches)


def always(verdict: Verdict) -> Judge:
    return lambda trial, times: verdict


def test_every_trial_is_run_once_and_is_on_disk_before_it_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """A result that is shown and then lost would be run again after a crash, and counted twice."""
    bench = Bench(monkeypatch, always(Verdict(Word.PASS)))
    results = run_groups(planned([point(1), point(2)]), bench.order(lambda trial, verdict: False), bench.pool)
    for number, result in enumerate(results, 1):
        assert result in bench.record.results()
        assert len(bench.record.results()) >= number
    assert bench.ran == [1, 2]


def test_trials_that_are_finished_are_not_run_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """`lab resume`: each trial exactly once, with several workers as well."""
    bench = Bench(monkeypatch, always(Verdict(Word.PASS)), workers=4)
    bench.run(*(point(i) for i in range(1, 20)))
    assert [r.trial.ident for r in bench.run(*(point(i) for i in range(1, 41)))] != []
    assert Counter(bench.ran) == Counter(range(1, 41))
    assert bench.run(*(point(i) for i in range(1, 41))) == []


def test_a_canary_stops_at_the_first_try_that_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each planted bug on each layer by itself, its tries in turn; a violation of another property is no catch."""
    bench = Bench(monkeypatch, lambda trial, times: LOST if trial.ident in (2, 11) else TWICE)
    plan = [canary(1), canary(2), canary(3), canary(4), canary(11, storage="tmpfs"), canary(12, storage="tmpfs")]
    plan += [canary(21, bug="other"), canary(22, bug="other")]
    bench.run(*plan)
    assert bench.ran == [1, 2, 11, 21, 22]


def test_a_canary_that_was_caught_before_is_not_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """After a resume only what is still owed is run; tries that missed are not repeated."""
    bench = Bench(monkeypatch, lambda trial, times: LOST if trial.ident == 2 else Verdict(Word.PASS))
    bench.run(canary(1), canary(2), canary(11, bug="other"))
    bench.run(canary(1), canary(2), canary(3), canary(11, bug="other"), canary(12, bug="other"))
    assert bench.ran == [1, 2, 11, 12]


def test_a_canary_is_neither_replayed_nor_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is meant to fail: its evidence would bury that of a real failure."""
    bench = Bench(monkeypatch, always(LOST))
    (result,) = bench.run(canary(1))
    assert (bench.ran, result.verdict, result.evidence) == ([1], LOST, None)
    assert not (bench.record.path / "evidence").exists()


def test_a_violation_is_run_again_until_it_repeats(monkeypatch: pytest.MonkeyPatch) -> None:
    """Both runs are kept whole, and it counts once."""
    bench = Bench(monkeypatch, always(LOST))
    (result,) = bench.run(point(1))
    assert (bench.ran, result.verdict) == ([1, 1], LOST)
    assert result.evidence == "evidence/0001"
    for folder in ("evidence/0001", "evidence/0001/replay-1"):
        assert bench.record.evidence(folder)[0] == good(trial=point(1))
    assert bench.record.evidence("evidence/0001/replay-1")[1] == (b"1", b"2", b"3")
    assert bench.record.results() == (dataclasses.replace(result, reproduced=Reproduced(1, 1)),)


@pytest.mark.parametrize("again", [Verdict(Word.PASS), TWICE, Verdict(Word.HANG), Verdict(Word.NOTE, "", "durable")])
def test_a_violation_that_does_not_repeat_stays_one(monkeypatch: pytest.MonkeyPatch, again: Verdict) -> None:
    """Its own evidence proves it. Another property is something else, and no repetition."""
    bench = Bench(monkeypatch, lambda trial, times: LOST if times == 1 else again)
    (result,) = bench.run(point(1))
    assert bench.ran == [1] * (1 + REPLAYS)
    assert result.verdict == LOST
    assert bench.record.results() == (dataclasses.replace(result, reproduced=Reproduced(0, REPLAYS)),)


def test_a_violation_that_repeats_late_says_after_how_many(monkeypatch: pytest.MonkeyPatch) -> None:
    """What clients do side by side need not meet the same way twice."""
    bench = Bench(monkeypatch, lambda trial, times: LOST if times in (1, 3) else Verdict(Word.PASS))
    bench.run(point(1))
    assert [r.reproduced for r in bench.record.results()] == [Reproduced(1, 2)]


def test_a_violation_whose_lab_was_killed_before_it_was_run_again_is_so_on_resume(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Planted: its result is in the journal, so nothing is owed. The trial itself is not run for a new verdict."""
    bench = Bench(monkeypatch, lambda trial, times: LOST if trial.ident < 3 else Verdict(Word.PASS))
    bench.run(point(1), point(2), point(3), canary(9))
    first, second, *others = (json.dumps(line) for line in bench.record.journal() if line.get("trial") != 2)
    (bench.record.path / "journal.jsonl").write_text("\n".join((first, second, *others)) + "\n")
    bench.ran.clear()
    assert bench.run(point(1), point(2), point(3), canary(9)) == []
    assert bench.ran == [2]
    assert {r.trial.ident: r.reproduced for r in bench.record.results()} == {
        1: Reproduced(1, 1),
        2: Reproduced(1, 1),
        3: None,
        9: None,
    }


@pytest.mark.parametrize("word", [w for w in Word if w is not Word.VIOLATION])
def test_only_a_violation_is_run_again(monkeypatch: pytest.MonkeyPatch, word: Word) -> None:
    """To repeat a hang or an error until it passes is what this lab exists to prevent."""
    bench = Bench(monkeypatch, always(Verdict(word)))
    (result,) = bench.run(point(1))
    assert bench.ran == [1]
    assert result.verdict.word is word
    assert (result.evidence is None) == (word is Word.PASS)


def test_all_evidence_is_kept_if_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """`--evidence all` is what makes passes, and canaries, judgeable again."""
    bench = Bench(monkeypatch, always(Verdict(Word.PASS)))
    for result in bench.run(point(1), canary(2), keep_evidence=True):
        assert result.evidence is not None
        assert bench.record.evidence(result.evidence)[1] == (b"1", b"2", b"3")


def test_errors_in_a_row_end_the_run_and_one_pass_between_them_does_not(monkeypatch: pytest.MonkeyPatch) -> None:
    """An engine that is gone fails every trial that is left; each on its own may be chance."""
    broken = Verdict(Word.ERROR, "no engine")
    many = [point(i) for i in range(1, 3 * MAX_ERRORS_IN_A_ROW)]
    bench = Bench(monkeypatch, always(broken))
    told = []
    with pytest.raises(LabError, match=r"12 trials in a row .*: no engine\n.*`lab resume 2026"):
        for result in run_groups(planned(many), bench.order(lambda trial, verdict: False), bench.pool):
            told.append(result)  # noqa: PERF402 - what was told before the error counts
    assert len(told) == MAX_ERRORS_IN_A_ROW

    monkeypatch.chdir(bench.record.path)
    bench = Bench(monkeypatch, lambda trial, times: broken if trial.ident % MAX_ERRORS_IN_A_ROW else Verdict(Word.PASS))
    assert len(bench.run(*many)) == len(many)


def test_no_worker_goes_on_when_the_journal_cannot_be_written(monkeypatch: pytest.MonkeyPatch) -> None:
    """A full disk: trials whose results cannot be kept must not be run."""

    def slowly(trial: Trial, times: int) -> Verdict:
        time.sleep(0.002)  # a trial takes longer than a line of the journal
        return Verdict(Word.PASS)

    bench = Bench(monkeypatch, slowly, workers=2)
    with disk_full_after(10_000), pytest.raises(LabError, match="cannot write the journal"):
        bench.run(*(point(i) for i in range(1, 5000)))
    assert [t for t in threading.enumerate() if t.name.startswith("worker-")] == []
    assert len(bench.ran) < 2500


def test_a_result_tells_where_it_was_really_killed() -> None:
    """Coverage is counted by kills, not by plans: a second point that was not reached is no kill."""
    twice = in_brief(twice_killed(), Verdict(Word.PASS), None)
    assert [str(hit) for hit in twice.hits] == [str(FIRST), str(SECOND)]
    standing = dataclasses.replace(killed(SECOND), killed=False)
    once = in_brief(good(processes=(killed(FIRST), standing)), Verdict(Word.PASS), None)
    assert [str(hit) for hit in once.hits] == [str(FIRST)]
    assert (once.took_s, once.verifier, once.starts) == (0.625, "kernel 1", 3)
    empty = in_brief(good(processes=(), looks=(), phases=()), Verdict(Word.ERROR), None)
    assert (empty.hits, empty.took_s, empty.mount) == ((), 0.0, "")
