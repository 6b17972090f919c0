"""Confidence intervals by resampling: of a mean, and of the change between two samples.

Knows: the expanded percentile bootstrap, and how to make it repeatable.
Leaves to others: saying what the interval means (``change``).

The plain percentile bootstrap is too narrow for the handful of runs that one has: of 5 against 5
runs its 95 percent interval holds the truth in 86 of 100 cases. Hesterberg (What Teachers Should
Know About the Bootstrap, The American Statistician 69, 2015, section 4.2) reads other percentiles,
farther out by the two factors that a t interval has over it: Student's t instead of the normal
distribution, and the sample's own spread instead of the population's. For two samples the degrees
of freedom are Welch's. Measured coverage: tests/unit/test_statistics_simulation.py.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from faultprof.analysis.statistics import Estimate, deviation, mean, t_quantile

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

RESAMPLES = 10_000
SEED = 1
FEWEST = 4  # values on each side: of fewer, resampling cannot tell how far the mean may lie off
_CHUNK = 2_000_000  # values drawn at once


def mean_interval(
    values: Sequence[float], *, confidence: float = 0.95, seed: int = SEED
) -> Estimate | None:
    """Return the mean with its interval; None of fewer than ``FEWEST`` values."""
    if len(values) < FEWEST:
        return None
    means = _resampled([sorted(values)], seed)[0]
    low, high = _bounds(means, _percentile([_error(values)], confidence))
    return Estimate(mean(values), low, high)


class ResampledChange:
    """The change from ``base`` to ``new`` and what it might as well have been.

    Args:
        base, new: values of one metric; with ``paired``, in the order of their pairs.
        paired: resample pairs, not each side for itself.
        confidence: of the intervals.
        seed: of the random draws. Swapping the sides mirrors the intervals exactly.

    Raises:
        ValueError: when pairs do not match, or a side has fewer than ``FEWEST`` values.
    """

    def __init__(
        self,
        base: Sequence[float],
        new: Sequence[float],
        *,
        paired: bool = False,
        confidence: float = 0.95,
        seed: int = SEED,
    ) -> None:
        if min(len(base), len(new)) < FEWEST or (paired and len(base) != len(new)):
            raise ValueError("too few values, or pairs that do not match")
        self._sides = base, new
        self._percentile = _percentile(_errors(base, new, paired), confidence)
        self._means = _both_means(base, new, paired, seed)

    def difference(self) -> Estimate:
        """Return the difference of the means, new less base."""
        base, new = self._means
        low, high = _bounds(new - base, self._percentile)
        return Estimate(mean(self._sides[1]) - mean(self._sides[0]), low, high)

    def relative(self) -> Estimate | None:
        """Return the change as a fraction of the base's mean.

        None when the base is not above zero in every resample: a ratio to it means nothing. The
        interval leaves out zero exactly when that of :meth:`difference` does.
        """
        base, new = self._means
        if base.min() <= 0:
            return None
        low, high = _bounds(new / base, self._percentile)
        return Estimate(mean(self._sides[1]) / mean(self._sides[0]) - 1, low - 1, high - 1)


def _errors(base: Sequence[float], new: Sequence[float], paired: bool) -> list[tuple[float, int]]:
    if paired:
        differences = [after - before for before, after in zip(base, new, strict=True)]
        return [_error(differences)]
    return [_error(base), _error(new)]


def _both_means(
    base: Sequence[float], new: Sequence[float], paired: bool, seed: int
) -> tuple[Floats, Floats]:
    if paired:
        means = _resampled([base, new], seed, together=True)
        return means[0], means[1]
    # In an order that neither the sides' order nor that of their runs has a say in.
    sides = [sorted(base), sorted(new)]
    swapped = (len(sides[1]), sides[1]) < (len(sides[0]), sides[0])
    means = _resampled(sides[::-1] if swapped else sides, seed)
    return (means[1], means[0]) if swapped else (means[0], means[1])


def _resampled(
    samples: Sequence[Sequence[float]], seed: int, *, together: bool = False
) -> list[Floats]:
    """Return the means of each sample's resamples; ``together``: of the same runs."""
    import numpy as np

    means = []
    for place, sample in enumerate(samples):
        values = np.asarray(sample, np.float64)
        stream = (seed, 0 if together else place)
        chunks = [values[draw].mean(axis=1) for draw in _draws(len(sample), stream)]
        means.append(np.concatenate(chunks))
    return means


def _draws(size: int, stream: tuple[int, int]) -> Sequence[Any]:
    """Return which values each resample takes, ``RESAMPLES`` rows of ``size`` in chunks."""
    import numpy as np

    if size * RESAMPLES <= _CHUNK:
        return (_small_draws(size, stream),)
    random = np.random.default_rng(stream)
    rows = max(1, _CHUNK // size)
    counts = [min(rows, RESAMPLES - start) for start in range(0, RESAMPLES, rows)]
    return [random.integers(0, size, (count, size), np.int32) for count in counts]


@lru_cache(maxsize=8)
def _small_draws(size: int, stream: tuple[int, int]) -> Any:
    # A table has many metrics of as many runs: they share their draws.
    import numpy as np

    return np.random.default_rng(stream).integers(0, size, (RESAMPLES, size), np.int32)


def _error(values: Sequence[float]) -> tuple[float, int]:
    """Return the standard error of the mean, and of how many values."""
    return deviation(values) / math.sqrt(len(values) - 1), len(values)


def _percentile(errors: Sequence[tuple[float, int]], confidence: float) -> float:
    """Return the share of resamples that lies below the interval."""
    from scipy.special import ndtr

    largest = max(error for error, _ in errors)
    if largest == 0:
        return (1 - confidence) / 2
    variances = [((error / largest) ** 2, size) for error, size in errors]
    total = math.fsum(variance for variance, _ in variances)
    freedom = total**2 / math.fsum(variance**2 / (size - 1) for variance, size in variances)
    resampled = math.fsum(variance * (size - 1) / size for variance, size in variances)
    t = t_quantile((1 + confidence) / 2, freedom)
    return float(ndtr(-t * math.sqrt(total / resampled)))


def _bounds(resampled: Floats, percentile: float) -> tuple[float, float]:
    """Return the order statistics that cut off ``percentile`` at either end."""
    import numpy as np

    below = min(int(percentile * len(resampled)), len(resampled) // 2 - 1)
    above = len(resampled) - 1 - below
    ordered = np.partition(resampled, (below, above))
    return float(ordered[below]), float(ordered[above])
