"""The statistics of a report: against published values, and against counting every sample of small populations."""

from __future__ import annotations

from itertools import combinations
from math import comb

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lab.model import Word
from lab.report.statistics import Quantiles, at_most_failing, bound, quantiles
from lab.report.text import percent

ENDLESS = 10**7  # of so many points a sample is as good as one with replacement


@pytest.mark.parametrize(
    ("failed", "drawn", "upper"),
    [
        (0, 10, 0.2589),
        (0, 59, 0.0495),  # 59 clean trials: the least that show fewer than 5 %
        (0, 404, 0.00739),
        (1, 10, 0.3942),
        (1, 20, 0.2161),
        (5, 10, 0.7776),
        (2, 100, 0.0616),
        (9, 10, 0.9949),
        (10, 10, 1.0),
    ],
)
def test_of_an_endless_population_the_bound_is_that_of_clopper_and_pearson(
    failed: int, drawn: int, upper: float
) -> None:
    """Values from tables of the one-sided exact limit; a normal approximation fails all of them."""
    assert at_most_failing(ENDLESS, drawn, failed) / ENDLESS == pytest.approx(upper, abs=6e-5)


@pytest.mark.parametrize("population", range(1, 11))
def test_the_bound_is_the_exact_one_by_counting_every_sample(population: int) -> None:
    """The largest number of failing points with which more than one sample in 20 shows so few of them.

    Planted: `>=` for `>`, a binomial in the place of the hypergeometric, an end of the sum that is off by one.
    """
    for drawn in range(1, population + 1):
        samples = list(combinations(range(population), drawn))
        for failed in range(drawn + 1):
            possible = [
                failing
                for failing in range(failed, population - (drawn - failed) + 1)
                if sum(sum(p < failing for p in sample) <= failed for sample in samples) * 20 > len(samples)
            ]
            assert at_most_failing(population, drawn, failed) == max(possible)


@settings(deadline=None)
@given(st.data())
def test_the_bound_holds_for_at_least_95_samples_in_100(data: st.DataObject) -> None:
    """Whatever the truth is: that is what a confidence bound promises."""
    population = data.draw(st.integers(1, 300))
    drawn = data.draw(st.integers(1, population))
    failing = data.draw(st.integers(0, population))
    held = sum(
        comb(failing, failed) * comb(population - failing, drawn - failed)
        for failed in range(drawn + 1)
        if failed <= failing and drawn - failed <= population - failing
        if at_most_failing(population, drawn, failed) >= failing
    )
    assert held * 100 >= comb(population, drawn) * 95


@settings(deadline=None)
@given(st.integers(1, 2000), st.data())
def test_more_draws_never_loosen_the_bound_and_more_failures_never_tighten_it(
    population: int, data: st.DataObject
) -> None:
    """A bound that is tighter for a worse run would reward what is broken."""
    drawn = data.draw(st.integers(1, population))
    failed = data.draw(st.integers(0, drawn))
    found = at_most_failing(population, drawn, failed)
    assert failed <= found <= population - (drawn - failed)
    if drawn < population:
        assert at_most_failing(population, drawn + 1, failed) <= found
    if failed < drawn:
        assert at_most_failing(population, drawn, failed + 1) >= found


def test_the_bound_of_many_trials_neither_overflows_nor_falls_below_the_rate() -> None:
    """n choose k of 30,000 does not fit a float."""
    assert 0.01 < at_most_failing(10**6, 30_000, 300) / 10**6 < 0.0111


def passed(count: int) -> list[Word]:
    return [Word.PASS] * count


def test_a_share_is_of_the_untried_points() -> None:
    """404 of 808 points are known to be good: four that fail are 1 % of the others, and 0.5 % of all."""
    half = bound(808, 404, passed(404))
    assert half and at_most_failing(808, 404, 0) == 4
    assert half.upper == pytest.approx(4 / 404)
    some_failed = bound(808, 404, [Word.VIOLATION] * 3 + passed(401))
    assert some_failed and some_failed.upper == pytest.approx((at_most_failing(808, 404, 3) - 3) / 404)


def test_of_a_population_that_was_tried_whole_nothing_is_left_to_bound() -> None:
    """Planted: a division by no untried points. All 404 are known, with certainty."""
    found = bound(404, 404, [Word.VIOLATION, *passed(403)])
    assert found and (found.failed, found.upper) == (1, 0.0)


def test_a_hang_is_a_failure_and_an_unpromised_loss_is_none() -> None:
    """With half of the random points hanging, a run promised "fewer than 7 % fail"."""
    found = bound(1000, 40, passed(20) + [Word.HANG] * 20)
    assert found and found.failed == 20 and found.upper > 0.5
    violated = bound(1000, 40, passed(20) + [Word.VIOLATION] * 20)
    assert violated == found
    noted = bound(1000, 40, passed(20) + [Word.NOTE] * 20)
    assert noted == bound(1000, 40, passed(40))


@pytest.mark.parametrize("word", [Word.INVALID, Word.ERROR, None])
def test_with_a_draw_missing_there_is_no_bound(word: Word | None) -> None:
    """Left out of the sample, points whose trials break the lab would count as if they had never been drawn."""
    assert bound(1000, 40, passed(39) + ([word] if word else [])) is None
    assert bound(1000, 0, []) is None


@pytest.mark.parametrize(("population", "drawn", "finished"), [(5, 6, 6), (5, 3, 4)])
def test_a_sample_that_cannot_be_is_refused(population: int, drawn: int, finished: int) -> None:
    """Two draws of one point, or trials that were not drawn: a bound from these would be a lie in small print."""
    with pytest.raises(ValueError, match="no sample"):
        bound(population, drawn, passed(finished))


def test_quantiles_are_measured_values() -> None:
    """Interpolated times were never seen; p95 of 20 values is the 19th."""
    found = quantiles([float(v) for v in range(20, 0, -1)])
    assert found == Quantiles(count=20, p50=10.0, p95=19.0, max=20.0)
    assert quantiles([]) is None


def test_a_bound_is_rounded_up() -> None:
    """`fewer than 0.7 %` would be false for 0.739 %."""
    found = bound(ENDLESS, 404, passed(404))
    assert found and percent(found.upper) == "0.8 %"
    assert percent(1.0) == "100.0 %"
    assert percent(0.00012) == "0.012 %"
