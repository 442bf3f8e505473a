"""Scheduling of fuzz trials: what is run, run again, and never again. `run_trial` is a pure function here."""

from __future__ import annotations

import dataclasses
import itertools
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, cast

import pytest
from fuzz_evidence import DIFFERS, good, look, scenario
from fuzz_plan import bug
from run_folder import new

from lab.engine.errors import LabError
from lab.model import RECOVERS, Fact, Failure, Kind, Reproduced, Result, Scenario, Trial, Verdict, Word, catches
from lab.run import scheduler, shrinking
from lab.run.pool import Pool, Stop
from lab.run.record import Record
from lab.run.scheduler import MAX_ERRORS_IN_A_ROW, REPLAYS, Group, Order, breaks, run_groups
from lab.run.shrinking import MAX_CANDIDATES, shrunk
from lab.trial import Outcome

LOST = Verdict(Word.VIOLATION, "lost", "drafts-durable", ("drafts-durable",))
TWICE = Verdict(Word.VIOLATION, "twice", "prompts-once", ("prompts-once",))
BOTH = Verdict(Word.VIOLATION, "twice", "prompts-once", ("prompts-once", "drafts-durable"))
PASS = Verdict(Word.PASS)
Judge = Callable[[Trial, int], Verdict]
Asked = dict[str, Any]


@pytest.fixture(autouse=True)
def _in_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def point(ident: int, made: Scenario | None = None) -> Trial:
    return Trial(ident, Kind.POINT, "ext4", made or scenario(number=ident))


def canary(ident: int, name: str = "draft-late") -> Trial:
    return dataclasses.replace(point(ident), kind=Kind.CANARY, bug=name)


def always(verdict: Verdict) -> Judge:
    return lambda trial, times: verdict


def asked_of(trial: Trial) -> Scenario:
    assert isinstance(trial.script, Scenario)
    return trial.script


class Bench:
    """A record and a pool; `judge` says what the n-th run (from 1) of a trial ends in."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, judge: Judge, workers: int = 1) -> None:
        self.record: Record = new()
        self.ran: list[int] = []
        self.kept: list[bool] = []
        self.pool = Pool(cast(Any, list(range(workers))), Stop())
        self.setting = cast(Any, None)  # only a real trial needs one
        bugs = {made.name: made.property for made in (bug("draft-late"), bug("other"))}
        self.caught = lambda trial, verdict: catches(verdict, bugs.get(trial.bug or "", ""))
        lock = threading.Lock()

        def run_trial(trial: Trial, setting: Any, worker: Any, *, keep_evidence: bool) -> Outcome:
            with lock:
                self.ran.append(trial.ident)
                self.kept.append(keep_evidence)
                times = self.ran.count(trial.ident)
            return Outcome(good(trial=trial), judge(trial, times), (b"home",) if keep_evidence else ())

        monkeypatch.setattr(scheduler, "run_trial", run_trial)
        monkeypatch.setattr(shrinking, "run_trial", run_trial)

    def results(self, groups: Iterable[Group], *, keep_evidence: bool = False) -> Iterator[Result]:
        return run_groups(groups, Order(self.setting, self.record, keep_evidence, self.caught), self.pool)

    def run(self, *groups: Group, keep_evidence: bool = False) -> list[Result]:
        return list(self.results(groups, keep_evidence=keep_evidence))

    @property
    def idents(self) -> list[int]:
        """Of what is in the journal."""
        return [result.trial.ident for result in self.record.results()]


def test_every_trial_is_run_once_and_is_on_disk_before_it_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """A result that is shown and then lost would be run again after a crash, and counted twice."""
    bench = Bench(monkeypatch, always(PASS))
    told = []
    for result in bench.results([(point(1),), (point(2),)]):
        told.append(result.trial.ident)
        assert told == bench.idents[: len(told)]
    assert bench.ran == [1, 2]
    assert not (bench.record.path / "evidence").exists()


def test_trials_that_are_finished_are_not_run_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """`lab resume`: each trial exactly once, with several workers as well."""
    bench = Bench(monkeypatch, always(PASS), workers=4)
    bench.run(*((point(n),) for n in range(1, 20)))
    bench.run(*((point(n),) for n in range(1, 41)))
    assert Counter(bench.ran) == Counter(range(1, 41))
    assert bench.run(*((point(n),) for n in range(1, 41))) == []


def test_a_canary_stops_at_the_first_try_that_its_own_property_catches(monkeypatch: pytest.MonkeyPatch) -> None:
    """A violation of another property is no catch: its own check may be dead."""
    bench = Bench(monkeypatch, lambda trial, times: LOST if trial.ident == 2 else BOTH if trial.ident == 12 else TWICE)
    bench.run(tuple(canary(n) for n in (1, 2, 3)), tuple(canary(n, "other") for n in (11, 12, 13)))
    assert bench.ran == [1, 2, 11, 12]


def test_a_canary_that_was_caught_before_is_not_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """After a resume only what is still owed is run; tries that missed are not repeated."""
    bench = Bench(monkeypatch, lambda trial, times: LOST if trial.ident == 2 else PASS)
    tries, others = tuple(canary(n) for n in (1, 2, 3)), tuple(canary(n, "other") for n in (11, 12, 13))
    bench.run(tries, others[:1])
    bench.run(tries, others)
    assert bench.ran == [1, 2, 11, 12, 13]


def test_a_canary_is_neither_replayed_nor_kept_unless_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is meant to fail: its evidence would bury that of a real failure."""
    bench = Bench(monkeypatch, always(LOST))
    (result,) = bench.run((canary(1),))
    assert (bench.ran, result.verdict, result.evidence) == ([1], LOST, None)
    assert not (bench.record.path / "evidence").exists()
    (result,) = bench.run((canary(2),), keep_evidence=True)
    assert (bench.ran, result.evidence) == ([1, 2], "evidence/0002")


@pytest.mark.parametrize("again", range(1, REPLAYS + 1))
def test_a_violation_is_run_again_until_it_comes_again(monkeypatch: pytest.MonkeyPatch, again: int) -> None:
    """Three clients side by side need not meet the same way twice. Each run is kept whole, and it counts once."""
    bench = Bench(monkeypatch, lambda trial, times: LOST if times == 1 else BOTH if times == again + 1 else PASS)
    bench.run((point(7),))
    assert bench.ran == [7] * (again + 1)
    assert bench.kept == [False] + [True] * again
    (result,) = bench.record.results()
    assert (result.verdict, result.evidence, result.reproduced) == (LOST, "evidence/0007", Reproduced(1, again))
    assert bench.record.evidence("evidence/0007") == (good(trial=point(7)), ())
    for number in range(1, again + 1):
        assert bench.record.evidence(f"evidence/0007/replay-{number}") == (good(trial=point(7)), (b"home",))


@pytest.mark.parametrize("again", [PASS, TWICE, Verdict(Word.HANG), Verdict(Word.NOTE, "", "x", ("drafts-durable",))])
def test_a_violation_that_never_repeats_stays_one_and_that_is_said_beside_it(
    monkeypatch: pytest.MonkeyPatch, again: Verdict
) -> None:
    """Its own evidence proves it. Another property that broke is something else, and no repetition of it."""
    bench = Bench(monkeypatch, lambda trial, times: LOST if times == 1 else again)
    bench.run((point(1),))
    assert bench.ran == [1] * (1 + REPLAYS)
    (result,) = bench.record.results()
    assert (result.verdict, result.reproduced) == (LOST, Reproduced(0, REPLAYS))


def test_a_violation_is_on_disk_before_it_is_run_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Planted: a lab that is killed while it repeats a violation, and has forgotten it."""
    stored: list[tuple[list[int], bool]] = []

    def seen(trial: Trial, times: int) -> Verdict:
        stored.append((bench.idents, bench.record.has("evidence/0001/evidence.json")))
        return LOST

    bench = Bench(monkeypatch, seen)
    bench.run((point(1),))
    assert stored == [([], False), ([1], True)]


@pytest.mark.parametrize("word", [w for w in Word if w is not Word.VIOLATION])
def test_only_a_violation_is_run_again(monkeypatch: pytest.MonkeyPatch, word: Word) -> None:
    """To repeat a hang or an error until it passes is what this lab exists to prevent."""
    bench = Bench(monkeypatch, always(Verdict(word)))
    (result,) = bench.run((point(1),))
    assert bench.ran == [1]
    assert result.verdict.word is word
    assert (result.evidence is None) == (word is Word.PASS)


def test_all_evidence_is_kept_if_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """`--evidence all` is what makes a pass judgeable again."""
    bench = Bench(monkeypatch, always(PASS))
    (result,) = bench.run((point(1),), keep_evidence=True)
    assert result.evidence == "evidence/0001"
    assert bench.record.evidence("evidence/0001") == (good(trial=point(1)), (b"home",))


def test_errors_in_a_row_end_the_run_and_one_pass_between_them_does_not(monkeypatch: pytest.MonkeyPatch) -> None:
    """An engine that is gone fails every trial that is left; a run without an end would go on for ever."""
    broken = Verdict(Word.ERROR, "no engine")
    endless = ((point(n),) for n in itertools.count(1))
    bench = Bench(monkeypatch, always(broken))
    told: list[Result] = []
    with pytest.raises(LabError, match=r"12 trials in a row .*: no engine\n.*`lab resume 2026"):
        told.extend(bench.results(endless))
    assert len(told) == MAX_ERRORS_IN_A_ROW

    monkeypatch.chdir(bench.record.path)
    bench = Bench(monkeypatch, lambda trial, times: broken if trial.ident % MAX_ERRORS_IN_A_ROW else PASS)
    many = [(point(n),) for n in range(1, 3 * MAX_ERRORS_IN_A_ROW)]
    assert len(bench.run(*many)) == len(many)


def test_a_violation_breaks_what_it_is_shrunk_for_and_a_note_breaks_nothing() -> None:
    """Planted: a search that slips from one fault to another, or to a loss that nobody promised to prevent."""
    assert breaks(LOST, "drafts-durable") and breaks(BOTH, "drafts-durable")
    assert not breaks(TWICE, "drafts-durable")
    assert not breaks(Verdict(Word.NOTE, "", "drafts-durable", ("drafts-durable",)), "drafts-durable")


def test_a_failure_is_shrunk_on_its_own_layer_with_its_own_bug_until_it_is_short(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The real search: here the fault needs step 2 and one kill after it, and nothing else."""

    def needs_step_2(trial: Trial, times: int) -> Verdict:
        assert (trial.storage, trial.bug, trial.ident) == ("ext4", "draft-late", 7)
        first = asked_of(trial).lives[0]
        return BOTH if first.kill and any(op.step == 2 for op in first.ops) else TWICE

    bench = Bench(monkeypatch, needs_step_2, workers=2)
    trial = dataclasses.replace(point(7), bug="draft-late")
    found = shrunk(good(trial=trial), "drafts-durable", bench.setting, bench.pool, 20.0)
    assert [op.step for op in found.scenario.operations] == [2]
    assert (len(found.scenario.kills), found.how.finished, found.how.after) == (1, True, 1)
    assert len(bench.ran) <= MAX_CANDIDATES
    assert set(bench.kept) == {False}


def test_shrinking_ends_with_its_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """And says so: a shorter script may be there."""
    bench = Bench(monkeypatch, always(LOST))
    found = shrunk(good(trial=point(7)), "drafts-durable", bench.setting, bench.pool, 0.0)
    assert not found.how.finished
    assert len(bench.ran) <= 2


def test_lives_behind_the_one_that_never_came_up_are_not_even_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    """A daemon that refuses its second start has shown it: each life after it would be one more candidate."""
    tried: list[int] = []

    def refuses(trial: Trial, times: int) -> Verdict:
        tried.append(len(asked_of(trial).lives))
        return Verdict(Word.VIOLATION, "refused", RECOVERS, (RECOVERS,)) if asked_of(trial).kills else PASS

    bench = Bench(monkeypatch, refuses)
    failure = Failure(Word.VIOLATION, "up", "it refused to start")
    refused = good(trial=point(7), processes=good().processes[:2], failure=failure)
    shrunk(refused, RECOVERS, bench.setting, bench.pool, 20.0)
    assert max(tried) <= 2


FAILED = Failure(Word.VIOLATION, "up", "it refused to start")


@pytest.mark.parametrize(
    ("differs", "changes", "about", "showed"),
    [
        (DIFFERS, {}, 2, 2),
        (dataclasses.replace(DIFFERS, fact="step=5 op=prompt/send p5"), {}, 5, 5),
        (dataclasses.replace(DIFFERS, fact="step=6 op=status"), {}, 6, None),
        (dataclasses.replace(DIFFERS, fact="op=status"), {}, None, None),
        (None, {}, None, None),
        (DIFFERS, {"processes": good().processes[:4], "failure": FAILED}, 2, 4),
    ],
    ids=["the life after it", "a later one", "the last life", "no step", "no fact", "where the trial ended"],
)
def test_the_search_is_told_what_broke_and_in_which_life_it_was_seen(
    monkeypatch: pytest.MonkeyPatch, differs: Fact | None, changes: Asked, about: int | None, showed: int | None
) -> None:
    """What lies behind has no part in it, and need not be tried operation by operation."""
    told: Asked = {}

    def shrink(scenario: Scenario, fails: object, budget: int, **hints: object) -> None:
        told.update(hints)

    monkeypatch.setattr(shrinking, "shrink", shrink)
    bench = Bench(monkeypatch, always(LOST), workers=3)
    evidence = good(trial=point(7), looks=(look(drafts_durable=differs),), **changes)
    shrunk(evidence, "drafts-durable", bench.setting, bench.pool, 20.0)
    assert (told["about"], told["showed"], told["at_once"]) == (about, showed, 3)
    assert told["order"] == [1, 2]  # as they were really invoked, without a check's own
