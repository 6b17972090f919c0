"""Samples of a metric: location, spread, exact rank tests, and the straight line through doses.

Knows: the formulas. Everything is exact where it can be: the rank tests count the permutations,
ties included, instead of assuming a distribution.
Leaves to others: intervals by resampling (``bootstrap``) and what a difference is worth
(``change``).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

from faultprof.errors import FaultprofError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

_EXACT_PAIRS = 3_600  # of values, one from each side: 60 runs against 60 are still counted out
_EXACT_SIGNS = 200  # pairs of runs whose signs are still counted out


def mean(values: Sequence[float]) -> float:
    """Return the arithmetic mean of at least one value."""
    _need(values, 1)
    return math.fsum(values) / len(values)


def deviation(values: Sequence[float]) -> float:
    """Return the standard deviation of the values taken as the whole population, as lkp does."""
    centre = mean(values)
    largest = max(abs(value - centre) for value in values)
    if largest == 0:
        return 0.0
    # Scaled, so that no square leaves the range of floats.
    squares = math.fsum(((value - centre) / largest) ** 2 for value in values)
    return largest * math.sqrt(squares / len(values))


def _need(values: Sequence[float], count: int) -> None:
    if len(values) < count:
        raise FaultprofError(
            f"{len(values)} values are too few for this figure", f"measure at least {count} times"
        )


# Rank tests.


def mann_whitney(a: Sequence[float], b: Sequence[float]) -> float:
    """Return the two-sided p of the Mann-Whitney test that both sides have one distribution.

    The p is the share of all ways to deal the pooled values out to the two sides whose rank sum
    lies at least as far from the expected one as the observed; equal values share a mean rank.
    That is exact with and without ties up to 60 against 60 values; beyond, the normal
    approximation with tie correction (Lehmann, Nonparametrics, 1975).

    Symmetric in ``a`` and ``b``. Needs at least one value on each side.
    """
    _need(a, 1)
    _need(b, 1)
    few, many = sorted((a, b), key=len)
    ranks = _whole_ranks([*few, *many])
    observed = sum(ranks[: len(few)])
    if len(few) * len(many) > _EXACT_PAIRS:
        return _normal_p(ranks, len(few), observed)
    counts = _rank_sum_counts(tuple(sorted(ranks)), len(few))
    return _tail(counts, observed, len(few) * sum(ranks) / len(ranks))


def smallest_mann_whitney(a: int, b: int) -> float:
    """Return the smallest p that ``a`` against ``b`` values without ties can reach."""
    return min(1.0, 2 / math.comb(a + b, a))


def signed_rank(differences: Sequence[float]) -> float:
    """Return the two-sided p of Wilcoxon's signed-rank test that pairs differ by zero.

    The p is the share of all choices of signs whose sum of positive ranks lies at least as far
    from the expected one as the observed. Zero differences are left out, as Wilcoxon did. Exact
    with and without ties up to 200 pairs; beyond, the normal approximation.
    """
    moved = [one for one in differences if one != 0]
    if not moved:
        return 1.0
    ranks = _whole_ranks([abs(one) for one in moved])
    positive = sum(rank for rank, one in zip(ranks, moved, strict=True) if one > 0)
    if len(moved) > _EXACT_SIGNS:
        spread = math.sqrt(sum(rank * rank for rank in ranks)) / 2
        return math.erfc(abs(positive - sum(ranks) / 2) / spread / math.sqrt(2))
    return _tail(_sign_counts(tuple(sorted(ranks))), positive, sum(ranks) / 2)


def smallest_signed_rank(pairs: int) -> float:
    """Return the smallest p that ``pairs`` pairs without ties can reach."""
    return min(1.0, 2.0 ** (1 - pairs))


def _whole_ranks(values: Sequence[float]) -> list[int]:
    """Return the mid-rank of each value, all of them doubled where that makes them whole."""
    order = sorted(range(len(values)), key=values.__getitem__)
    ranks = [0] * len(values)
    start = 0
    while start < len(order):
        stop = start + 1
        while stop < len(order) and values[order[stop]] == values[order[start]]:
            stop += 1
        for place in order[start:stop]:
            ranks[place] = start + stop + 1
        start = stop
    # Without ties, half of it is whole too, and counting out takes half the time.
    return ranks if any(rank % 2 for rank in ranks) else [rank // 2 for rank in ranks]


@lru_cache(maxsize=64)
def _rank_sum_counts(ranks: tuple[int, ...], chosen: int) -> Floats:
    """Return how many ways there are to choose ``chosen`` of the ranks, by their sum."""
    import numpy as np

    most = sum(ranks[-chosen:])
    counts = np.zeros((chosen + 1, most + 1))
    counts[0, 0] = 1
    for rank in ranks:  # each may be chosen once
        counts[1:, rank:] += counts[:-1, : most + 1 - rank].copy()
    sums: Floats = counts[chosen]
    return sums


@lru_cache(maxsize=64)
def _sign_counts(ranks: tuple[int, ...]) -> Floats:
    """Return the share of all choices of signs, by the sum of the ranks that are positive."""
    import numpy as np

    shares = np.zeros(sum(ranks) + 1)
    shares[0] = 1
    for rank in ranks:
        shares[rank:] += shares[: len(shares) - rank].copy()
        shares /= 2
    return shares


def _tail(counts: Floats, observed: int, expected: float) -> float:
    """Return the share of outcomes at least as far from ``expected`` as ``observed``."""
    import numpy as np

    # Ranks are whole and what is expected a multiple of 1/N: rounding must not part equals.
    distance = np.abs(np.arange(len(counts)) - expected)
    far = distance >= abs(observed - expected) - 1e-6
    return float(min(1.0, counts[far].sum() / counts.sum()))


def _normal_p(ranks: Sequence[int], few: int, observed: int) -> float:
    total = len(ranks)
    centre = sum(ranks) / total
    variance = sum((rank - centre) ** 2 for rank in ranks) / total
    spread = math.sqrt(few * (total - few) / (total - 1) * variance)
    if spread == 0:
        return 1.0
    return math.erfc(abs(observed - few * centre) / spread / math.sqrt(2))


# A straight line.


@dataclass(frozen=True, slots=True)
class Estimate:
    """A figure and its confidence interval."""

    value: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class LinearFit:
    """``y = intercept + slope x`` by least squares, with intervals of Student's t.

    Args:
        slope: in units of y per unit of x.
        intercept: the y at x = 0.
        slope_error: standard error of the slope.
        intercept_error: standard error of the intercept.
    """

    slope: Estimate
    intercept: Estimate
    slope_error: float
    intercept_error: float


def linear_fit(x: Sequence[float], y: Sequence[float], *, confidence: float = 0.95) -> LinearFit:
    """Fit a straight line to at least three points.

    The intervals hold for independent errors of equal spread (Draper & Smith, Applied Regression
    Analysis, section 1.4).

    Raises:
        FaultprofError: exit code 2, with fewer points or when all have the same x.
    """
    _need(x, 3)
    x_mean, y_mean = mean(x), mean(y)
    x_square = math.fsum((one - x_mean) ** 2 for one in x)
    if x_square == 0:
        raise FaultprofError("no line goes through points of one x", "measure at two x or more")
    both = zip(x, y, strict=True)
    slope = math.fsum((one - x_mean) * (other - y_mean) for one, other in both) / x_square
    intercept = y_mean - slope * x_mean
    both = zip(x, y, strict=True)
    residual = math.fsum((other - intercept - slope * one) ** 2 for one, other in both)
    variance = residual / (len(x) - 2)
    slope_error = math.sqrt(variance / x_square)
    intercept_error = math.sqrt(variance * (1 / len(x) + x_mean**2 / x_square))
    t = t_quantile((1 + confidence) / 2, len(x) - 2)
    return LinearFit(
        _around(slope, t * slope_error),
        _around(intercept, t * intercept_error),
        slope_error,
        intercept_error,
    )


def spread_of_sum(values: Sequence[float], *, confidence: float = 0.95) -> float:
    """Return by how much a sum of at least two values may be off, by Student's t.

    Half the width of the interval of their mean, times their number.
    """
    _need(values, 2)
    centre = mean(values)
    variance = math.fsum((value - centre) ** 2 for value in values) / (len(values) - 1)
    return t_quantile((1 + confidence) / 2, len(values) - 1) * math.sqrt(variance * len(values))


def _around(value: float, width: float) -> Estimate:
    return Estimate(value, value - width, value + width)


def t_quantile(probability: float, freedom: float) -> float:
    """Return the quantile of Student's t; ``freedom`` need not be whole."""
    # scipy.stats has it too, at three times the import time.
    from scipy.special import stdtrit

    return float(stdtrit(freedom, probability))


# Shares.


def binomial_intervals(counts: Sequence[int], total: int, confidence: float) -> list[Estimate]:
    """Return for each count of ``total`` trials its share and the exact interval of that.

    Clopper and Pearson, The use of confidence or fiducial limits illustrated in the case of the
    binomial, Biometrika 26, 1934: outside lie the shares of which a count that far off has less
    than half of 1 - ``confidence`` on its side.
    """
    from scipy.special import betaincinv

    tail = (1 - confidence) / 2
    return [
        Estimate(
            count / total,
            float(betaincinv(count, total - count + 1, tail)) if count else 0.0,
            float(betaincinv(count + 1, total - count, 1 - tail)) if count < total else 1.0,
        )
        for count in counts
    ]
