"""Taking a census: what is asked for, what must agree, what is refused, and what a failed recovery becomes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import pytest
from test_plan import CENSUS, CLASSES, HOOKS, RECOVERY_HOOKS, RUN_HOOKS, RUNS, WINDOWS

from lab.engine.errors import LabError
from lab.model import Hit
from lab.plan.census import (
    EXHAUSTIVE_FIRST_POINTS,
    MAX_RECOVERIES,
    Census,
    FailedRecovery,
    Taken,
    Wanted,
    census_for_exhaustive,
    census_for_random,
    census_of_runs,
    recovery_candidates,
    unreached,
)
from lab.subject.spec import Hook

DONE = "recovery.done"
RECOVERY = (Hit("recovery.cut", 1), Hit("recovery.replayed", 1), Hit(DONE, 1))
WORK = (Hit("step.a", 1), Hit("step.b", 1), Hit(DONE, 2))


class Subject:
    """Takes censuses, and remembers each that was asked for. What it answers can be changed for one task."""

    def __init__(self) -> None:
        self.asked: list[Wanted] = []
        self.recovery = Taken(RECOVERY + WORK)
        self.other: list[tuple[Wanted, Taken]] = []

    def take_all(self, wanted: Sequence[Wanted]) -> list[Taken]:
        self.asked += wanted
        return [self._take(w) for w in wanted]

    def _take(self, wanted: Wanted) -> Taken:
        usual = Taken(RUNS[wanted.workload]) if wanted.first is None else self.recovery
        return next((taken for task, taken in self.other if task == wanted), usual)

    def at_random(self, least: int = 0, runs: Census = CENSUS) -> Census:
        return census_for_random(self.take_all, 1, Census(runs.runs), "ext4", HOOKS, DONE, least=least, batch=4)

    def exhaustive(self, *storages: str) -> Census:
        return census_for_exhaustive(self.take_all, 1, Census(RUNS), storages, HOOKS, DONE)


def test_every_workload_is_run_on_the_first_and_the_last_layer() -> None:
    """Taken once, a subject that is not deterministic would be found out by its trials."""
    subject = Subject()
    found = census_of_runs(subject.take_all, len(RUNS), ("ext4", "tmpfs", "overlay"), HOOKS)
    assert found == Census(RUNS)
    assert subject.asked == [Wanted(w, storage) for w in range(len(RUNS)) for storage in ("ext4", "overlay")]
    alone = Subject()
    assert census_of_runs(alone.take_all, len(RUNS), ("ext4",), HOOKS) == Census(RUNS)
    assert Counter(w.workload for w in alone.asked) == dict.fromkeys(range(len(RUNS)), 2)


def test_two_censuses_that_differ_are_refused_with_the_first_hit_that_does() -> None:
    """A crash point that cannot be found again ends trials as invalid, each for no visible reason."""
    subject = Subject()
    subject.other = [(Wanted(2, "overlay"), Taken(RUNS[2][:-1]))]
    with pytest.raises(
        LabError, match=rf"workload 2, taken twice \(ext4 and overlay\), .* hit {len(RUNS[2])} is .*the end"
    ):
        census_of_runs(subject.take_all, len(RUNS), ("ext4", "overlay"), HOOKS)


def test_a_run_that_fails_in_the_census_is_an_error() -> None:
    """Without a crash there is no promise yet that it could break: there is nothing to test."""
    subject = Subject()
    subject.other = [(Wanted(1, "overlay"), Taken((), "it ended with exit code 3"))]
    with pytest.raises(LabError, match="the census of workload 1 on overlay failed: it ended with exit code 3"):
        census_of_runs(subject.take_all, len(RUNS), ("ext4", "overlay"), HOOKS)


@pytest.mark.parametrize("left_out", [HOOKS[0], RECOVERY_HOOKS[0]], ids=["in a run", "in a recovery"])
def test_a_hook_that_the_catalogue_does_not_list_is_named_by_the_census(left_out: Hook) -> None:
    """Reported: a program with nine hooks, eight of them listed, passed with "8 of 8 killed at on every layer"."""
    listed = [hook for hook in HOOKS if hook.name != left_out.name]
    with pytest.raises(LabError, match=rf"hooks were hit that the catalogue does not list: {left_out.name}"):
        runs = census_of_runs(Subject().take_all, len(RUNS), ("ext4", "overlay"), listed)
        census_for_random(Subject().take_all, 1, runs, "ext4", listed, DONE, least=99, batch=8)


def test_a_hook_of_a_run_that_no_run_reaches_is_named_by_the_census() -> None:
    """It was accepted if a recovery reached it, and the whole run ended as NO-WORK."""
    subject = Subject()
    misplaced = (
        *HOOKS,
        *(hook.model_copy(update={"where": "run", "name": f"x.{hook.name}"}) for hook in RECOVERY_HOOKS[:2]),
    )
    with pytest.raises(LabError, match=r"2 of .* reached by no run: x\.recovery\.cut, x\.recovery\.replayed"):
        census_of_runs(subject.take_all, len(RUNS), ("ext4",), misplaced)


def test_a_recovery_is_parted_at_the_first_hit_of_its_barrier() -> None:
    """Points behind the barrier lie in the work; a later hit of the barrier's hook is one of them."""
    (recovery, *_) = Subject().at_random().recoveries
    assert (recovery.hits, recovery.work) == (RECOVERY, WORK)


def test_recoveries_are_looked_at_until_every_hook_is_reached_and_there_are_enough() -> None:
    """Each costs a trial's time; too few, and every point behind a barrier lies behind the same recovery."""
    assert len(Subject().at_random().recoveries) == 4
    assert len(Subject().at_random(least=9).recoveries) == 12
    reached = Subject()
    assert reached.at_random(runs=Census((*RUNS, RECOVERY))).recoveries == () == tuple(reached.asked)


def test_a_hook_that_no_recovery_reaches_is_looked_for_and_then_named() -> None:
    """Reported: a recovery that loses all data reaches fewer hooks, and was told to be the lab's failure."""
    subject = Subject()
    subject.recovery = Taken((RECOVERY[0], RECOVERY[2]))
    found = subject.at_random()
    assert list(unreached(HOOKS, found)) == ["recovery.replayed"]
    assert len(subject.asked) == len(list(recovery_candidates(1, HOOKS, CENSUS))) <= MAX_RECOVERIES
    assert list(unreached(HOOKS, subject.exhaustive("ext4", "tmpfs"))) == ["recovery.replayed"]


@pytest.mark.parametrize(
    "taken", [Taken((), "it ended with exit code 65"), Taken((Hit("recovery.cut", 1),), "no exit within 30 s")]
)
def test_a_recovery_that_fails_is_kept_and_aborts_nothing(taken: Taken) -> None:
    """A recovery that exits 65 after some crash points ended the run as error."""
    candidates = list(recovery_candidates(1, HOOKS, CENSUS))
    broken = candidates[2]
    assert taken.failure is not None
    subject = Subject()
    subject.other = [(Wanted(broken.workload, "ext4", broken), taken)]
    found = subject.at_random(least=9)
    assert found.failed == (FailedRecovery(broken, "ext4", taken.failure),)
    assert [r.first for r in found.recoveries] == [candidates[0], candidates[1], candidates[3]]
    assert str(found.failed[0]) == f"the recovery after {broken} failed on ext4: {taken.failure}"


def test_a_subject_whose_every_recovery_fails_is_not_refused_for_its_unreached_hooks() -> None:
    """A PID in a lock file: the restarted container is PID 1 again. The run is red by its trials, not by the census."""
    subject = Subject()
    subject.recovery = Taken((), "it ended with exit code 75")
    assert len(subject.at_random().failed) == 4
    assert len(subject.exhaustive("ext4", "tmpfs").failed) == len(list(recovery_candidates(1, HOOKS, CENSUS)))


def test_a_recovery_that_fails_on_one_layer_only_is_a_failure_and_no_difference() -> None:
    """That the layers differ is then for the trial to show, on each of them."""
    candidates = list(recovery_candidates(1, HOOKS, CENSUS))
    subject = Subject()
    subject.other = [(Wanted(candidates[0].workload, "tmpfs", candidates[0]), Taken((), "exit code 65"))]
    assert subject.exhaustive("ext4", "tmpfs").failed == (FailedRecovery(candidates[0], "tmpfs", "exit code 65"),)


def test_a_recovery_that_goes_by_its_barrier_has_failed() -> None:
    """The lab could not look at what it recovered."""
    subject = Subject()
    subject.recovery = Taken((RECOVERY[0], *WORK[:2]))
    assert {f.what for f in subject.at_random().failed} == {"it never hit recovery.done"}


def test_the_work_behind_a_barrier_must_be_the_same_on_both_layers() -> None:
    """Points are drawn from it: one that is not there again ends as invalid."""
    (first, *_) = recovery_candidates(1, HOOKS, CENSUS)
    subject = Subject()
    subject.other = [(Wanted(first.workload, "tmpfs", first), Taken(RECOVERY + WORK[:1] + WORK[2:]))]
    with pytest.raises(LabError, match=r"the recovery after .* differs: hit 5 is step\.b#1 in one and recovery.done#2"):
        subject.exhaustive("ext4", "tmpfs")


def test_an_exhaustive_census_takes_a_sample_of_recoveries_twice() -> None:
    """All of them would cost a trial more for each trial."""
    subject = Subject()
    found = subject.exhaustive("ext4", "tmpfs", "overlay")
    candidates = list(recovery_candidates(1, HOOKS, CENSUS))[:EXHAUSTIVE_FIRST_POINTS]
    assert [r.first for r in found.recoveries] == candidates
    assert subject.asked == [Wanted(f.workload, s, f) for f in candidates for s in ("ext4", "overlay")]


def test_recoveries_are_looked_at_where_the_catalogue_says_first() -> None:
    """`after` is a hint that saves censuses: each kind of hit once, the hinted ones before all others."""
    found = list(recovery_candidates(1, HOOKS, CENSUS))
    assert [f.hit.hook == "step.h" for f in found] == [True] + [False] * (len(found) - 1)
    kinds = [(f.hit.hook, tuple(f.hit.tags.items())) for f in found]
    assert len(kinds) == len(set(kinds)) == len(RUN_HOOKS) + len(WINDOWS) * len(CLASSES)
    assert found == list(recovery_candidates(1, HOOKS, CENSUS)) != list(recovery_candidates(2, HOOKS, CENSUS))


def test_a_hook_that_nothing_reaches_is_named() -> None:
    """A hook of the catalogue that the code has lost must not be covered by silence."""
    assert unreached(HOOKS, CENSUS) == {}
    assert unreached(HOOKS, Census(RUNS)) == {hook.name: hook.meaning for hook in RECOVERY_HOOKS}
