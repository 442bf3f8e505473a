"""The two statistics a report may state: nearest-rank quantiles and an exact upper bound of a failure rate.

Pure arithmetic. What the bound means, and what it does not, is in docs/reports.md.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

CONFIDENCE = 0.95


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


def upper_bound(failures: int, trials: int) -> float:
    """The one-sided 95 % Clopper-Pearson bound: the largest rate that would still show so few failures 1 time in 20.

    Raises ValueError unless 0 <= failures <= trials and trials > 0.
    """
    if trials <= 0 or not 0 <= failures <= trials:
        raise ValueError(f"no bound from {failures} failures in {trials} trials")
    alpha = 1 - CONFIDENCE
    if failures == 0:
        return float(1 - alpha ** (1 / trials))
    if failures == trials:
        return 1.0
    low, high = failures / trials, 1.0
    for _ in range(60):  # each halves the interval: far below a double's resolution near 1
        middle = (low + high) / 2
        if _at_most(failures, trials, middle) > alpha:
            low = middle
        else:
            high = middle
    return high


def _at_most(k: int, n: int, p: float) -> float:
    """P(X <= k) of a binomial(n, p), 0 < p < 1; by logarithms, since n choose k overflows a float for large n."""
    log_p, log_q = math.log(p), math.log1p(-p)
    return math.fsum(
        math.exp(math.lgamma(n + 1) - math.lgamma(i + 1) - math.lgamma(n - i + 1) + i * log_p + (n - i) * log_q)
        for i in range(k + 1)
    )
