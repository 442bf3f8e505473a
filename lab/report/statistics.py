"""The two statistics a report may state: nearest-rank quantiles and an exact upper bound of failing points.

Pure arithmetic. What the bound means, and what it does not, is in docs/reports.md.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from lab.model import Word

ALPHA = Fraction(1, 20)  # a true bound fails to hold for at most one sample in so many
FAILED = frozenset({Word.VIOLATION, Word.HANG})
SEEN = FAILED | {Word.PASS, Word.NOTE}  # how a draw ended that says something about its point


@dataclass(frozen=True)
class Quantiles:
    """Of recovery times, in ms. Each is a value that was really measured (nearest rank), not an interpolation."""

    count: int
    p50: float
    p95: float
    max: float


def quantiles(values_ms: Sequence[float]) -> Quantiles | None:
    """None if there is nothing to describe."""
    if not values_ms:
        return None
    ranked = sorted(values_ms)
    return Quantiles(len(ranked), nearest_rank(ranked, 0.50), nearest_rank(ranked, 0.95), ranked[-1])


def nearest_rank(ranked: Sequence[float], share: float) -> float:
    """The smallest of the sorted values that at least `share` of them do not exceed."""
    return ranked[max(0, math.ceil(share * len(ranked)) - 1)]


@dataclass(frozen=True)
class Bound:
    """What a random sample of crash points says of those that were not tried, with 95 % confidence."""

    population: int  # that the sample was drawn from, without replacement
    drawn: int
    failed: int
    upper: float  # share of the untried points that fail, at most


def bound(population: int, drawn: int, words: Sequence[Word]) -> Bound | None:
    """From the words of the finished draws of one layer and fault. None if one is missing, or proves nothing.

    A hang is a failure. An `invalid`, an `error` and a trial that has not been run leave a hole in the sample that no
    arithmetic can fill: it may be there because of what the point does. Raises ValueError if there are more words than
    draws, or more draws than points.
    """
    if not len(words) <= drawn <= population:
        raise ValueError(f"no sample: {len(words)} verdicts of {drawn} draws from {population} points")
    if drawn == 0 or len(words) < drawn or not SEEN.issuperset(words):
        return None
    failed = sum(word in FAILED for word in words)
    untried = population - drawn
    share = (at_most_failing(population, drawn, failed) - failed) / untried if untried else 0.0
    return Bound(population, drawn, failed, share)


def at_most_failing(population: int, drawn: int, failed: int) -> int:
    """The exact one-sided upper bound for the failing points of a population, from a sample without replacement.

    The largest D with P(X <= failed) > 5 % for X hypergeometric (population, D, drawn): Buonaccorsi, "A note on
    confidence intervals for proportions in finite populations", The American Statistician 41(3), 1987.
    """
    possible = range(failed, population - (drawn - failed) + 1)
    refuted = bisect_left(possible, True, key=lambda failing: not _exceeds_alpha(population, failing, drawn, failed))
    return possible[refuted - 1]  # P falls as D grows, from 1 at its least


def _exceeds_alpha(population: int, failing: int, drawn: int, failed: int) -> bool:
    """Whether P(X <= failed) > ALPHA. In whole numbers: counts of samples, of which no float could hold one."""
    good = population - failing
    least = max(0, drawn - good)  # failures that every sample has
    samples = total = math.comb(failing, least) * math.comb(good, drawn - least)
    for i in range(least, failed):
        samples = samples * (failing - i) * (drawn - i) // ((i + 1) * (good - drawn + i + 1))
        total += samples
    return total * ALPHA.denominator > math.comb(population, drawn) * ALPHA.numerator
