"""From the plan to the bound: that the random points are random, and that the bound counts exactly those."""

from __future__ import annotations

from collections import Counter
from functools import cache
from pathlib import Path

from test_plan import CENSUS, COVERAGE, HOOKS, LAYERS, SIGKILL, planned, script

from lab.model import CrashPoint, Hit, Kind, LedgerCounts, Result, Trial, Verdict, Word
from lab.plan.census import Census
from lab.plan.points import Plan, is_draw
from lab.plan.sampled import random_plan
from lab.report import coverage
from lab.report.statistics import bound
from lab.run.data import RunData
from lab.subject.spec import CoverageTable, Hook

SEEDS = range(300)
STEP = Hook(name="step", meaning="a step", where="run")
OTHER = Hook(name="other", meaning="in a recovery", where="recovery")
FLAT = Census((tuple(Hit("step", n) for n in range(1, 41)),))  # 40 points of one hook: one is chosen to cover it


@cache
def flat(seed: int, recovery: bool = False) -> Plan:
    """20 points of 40, one of them to cover the hook; with hooks of a recovery, one in five is struck again."""
    hooks = (STEP, OTHER) if recovery else (STEP,)
    return random_plan(seed, 20, ("ext4",), SIGKILL, hooks, CoverageTable(), (), FLAT)


def points_of(plan: Plan) -> list[Trial]:
    return [t for t in plan.trials if t.kind is Kind.POINT and t.storage == plan.trials[0].storage]


def first_of(trial: Trial) -> tuple[int, CrashPoint]:
    return script(trial).workload, script(trial).points[0]


def test_every_point_is_drawn_about_equally_often() -> None:
    """Planted: the first n of the census for a random sample. The bound of such points means nothing.

    Over 300 seeds each of 40 points is drawn some 146 times (19 of 39 that are left); 5.5 standard deviations are 48.
    """
    drawn = Counter(first_of(t) for seed in SEEDS for t in points_of(flat(seed)) if is_draw(t))
    assert len(drawn) == 40
    assert max(abs(count - 300 * 19 / 40) for count in drawn.values()) < 48


def test_every_point_is_as_likely_to_stay_a_draw_when_others_are_struck_again() -> None:
    """Planted: second crashes for the first entries only. Then what is left over would be no fair sample.

    Of 20 points four are struck again, and the one that covers may be among them: 15.2 draws a seed.
    """
    drawn = Counter(first_of(t) for seed in SEEDS for t in points_of(flat(seed, recovery=True)) if is_draw(t))
    mean = sum(drawn.values()) / 40
    assert mean == 300 * 15.2 / 40 or abs(mean - 300 * 15.2 / 40) < 2
    assert len(drawn) == 40
    assert max(abs(count - mean) for count in drawn.values()) < 48


def test_the_labels_part_the_plan_into_covering_and_random_points() -> None:
    """Planted: the random points called "cover", and so every campaign's bound "none"."""
    for seed in range(20):
        trials = points_of(flat(seed))
        assert Counter(t.drawn for t in trials) == {"cover": 1, "random": 19}
        assert flat(seed).population == 39
        whole = points_of(planned(seed, 60))
        covering = [t for t in whole if t.drawn == "cover"]
        assert len(covering) == 6 + 3 + 7  # windows by value, hooks of recoveries (after step.h), other hooks of runs
        assert {t.drawn for t in whole} == {"cover", "random"}


def test_a_second_crash_changes_no_label() -> None:
    """Planted: "cover" for a random point that is struck again. The label says how its first point was chosen.

    It is no draw all the same: it shows the first recovery only as far as it got.
    """
    for seed in range(20):
        trials = points_of(flat(seed, recovery=True))
        assert Counter(t.drawn for t in trials) == {"cover": 1, "random": 19}
        assert Counter(len(t.kills) for t in trials) == {1: 16, 2: 4}
        assert [is_draw(t) for t in trials] == [t.drawn == "random" and len(t.kills) == 1 for t in trials]


def test_only_the_points_of_the_campaign_itself_are_draws() -> None:
    """A canary's violation is wanted, and a probe strikes nothing."""
    for trial in planned().trials:
        assert not (is_draw(trial) and trial.kind is not Kind.POINT)
        assert not (is_draw(trial) and trial.bug)


def test_the_bound_of_a_plan_counts_exactly_its_draws() -> None:
    """The whole way from plan to bound: 60 points, every label and second crash as they are planned."""
    for seed in range(20):
        plan = planned(seed, 60)
        for layer in LAYERS:
            draws = [t for t in plan.trials if t.storage == layer and is_draw(t)]
            found = bound(plan.population, len(draws), [Word.PASS] * len(draws))
            assert found is not None
            singles = {first_of(t) for t in points_of(plan) if t.drawn == "cover" and len(t.kills) == 1}
            assert found.drawn == len({first_of(t) for t in draws}) == len(draws)
            assert not singles & {first_of(t) for t in draws}
            assert found.drawn < found.population <= len(CENSUS.first_points()) - len(singles)


def test_the_population_is_all_that_could_have_been_drawn() -> None:
    """Planted: the whole census for it. Points that are chosen for coverage are no chance's."""
    census = Census(CENSUS.runs)
    hooks = tuple(hook for hook in HOOKS if hook.where == "run")
    for seed in range(5):
        few = random_plan(seed, 30, ("ext4",), SIGKILL, hooks, COVERAGE, (), census)
        whole = random_plan(seed, 10_000, ("ext4",), SIGKILL, hooks, COVERAGE, (), census)
        assert few.population == whole.population == sum(is_draw(t) for t in whole.trials)


def test_the_order_of_the_points_is_shuffled() -> None:
    """Planted: no shuffle. A run that is stopped would have tried the covering points only."""
    places = Counter(at for seed in SEEDS for at, t in enumerate(points_of(flat(seed))) if t.drawn == "cover")
    assert set(places) == set(range(20))
    assert max(places.values()) < 45  # 15 are expected
    orders = {tuple(t.drawn for t in points_of(planned(seed, 40))) for seed in range(20)}
    assert len(orders) == 20


def finished(trial: Trial, word: Word) -> Result:
    hits = tuple(Hit(point.hook, point.occurrence) for point in trial.kills)
    return Result(trial, Verdict(word), hits, up_ms=(), starts=3, took_s=1.0, counts=LedgerCounts())


def run_of(plan: Plan, results: list[Result]) -> RunData:
    return RunData(
        run="r", campaign="matrix", subject="s", seed=1, storages=LAYERS, trials=plan.trials, results=tuple(results),
        hooks=(), expected_hooks=0, promises={}, environment={}, took_s=1.0, interrupted=False, path=Path(),
        points_known=plan.points_known, population=plan.population,
    )  # fmt: skip


def test_a_run_of_that_plan_is_bounded_by_its_draws_alone() -> None:
    """Per layer and fault; what breaks elsewhere changes nothing, and one missing verdict takes the bound away."""
    plan = planned(1, 60, faults=("sigkill", "powercut"))
    results = [finished(t, Word.PASS if is_draw(t) else Word.VIOLATION) for t in plan.trials]
    draws = [t for t in plan.trials if is_draw(t) and (t.storage, t.faults) == ("ext4", "sigkill")]
    wanted = bound(plan.population, len(draws), [Word.PASS] * len(draws))
    assert coverage.bound(run_of(plan, results), "ext4") == coverage.highest_bound(run_of(plan, results)) == wanted
    hung = [finished(r.trial, Word.HANG) if r.trial.ident == draws[0].ident else r for r in results]
    found = coverage.highest_bound(run_of(plan, hung))
    assert found and wanted and found.failed == 1 and found.upper > wanted.upper
    without = [r for r in results if r.trial.ident != draws[0].ident]
    assert coverage.highest_bound(run_of(plan, without)) is None
    assert coverage.bound(run_of(plan, without), "overlay") == wanted
