"""The statistics of a report, against published values."""

from __future__ import annotations

import pytest

from lab.report.statistics import quantiles, upper_bound
from lab.report.text import percent


@pytest.mark.parametrize(
    ("failures", "trials", "bound"),
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
def test_the_bound_is_the_exact_one_of_clopper_and_pearson(failures, trials, bound):
    """Values from tables of the one-sided exact limit; a normal approximation fails all of them."""
    assert upper_bound(failures, trials) == pytest.approx(bound, abs=6e-5)


def test_the_bound_of_many_trials_neither_overflows_nor_falls_below_the_rate():
    """n choose k of 30,000 does not fit a float."""
    assert 0.01 < upper_bound(300, 30_000) < 0.0111


@pytest.mark.parametrize(("failures", "trials"), [(0, 0), (3, 2), (-1, 5)])
def test_there_is_no_bound_without_a_sample(failures, trials):
    """A bound from nothing would be a lie in small print."""
    with pytest.raises(ValueError, match="no bound"):
        upper_bound(failures, trials)


def test_quantiles_are_measured_values():
    """Interpolated times were never seen; p95 of 20 values is the 19th."""
    found = quantiles([float(v) for v in range(20, 0, -1)])
    assert (found.count, found.p50, found.p95, found.max) == (20, 10.0, 19.0, 20.0)
    assert quantiles([]) is None


def test_a_bound_is_rounded_up():
    """`fewer than 0.7 %` would be false for 0.739 %."""
    assert percent(upper_bound(0, 404)) == "0.8 %"
    assert percent(1.0) == "100.0 %"
    assert percent(0.00012) == "0.012 %"
