"""What a difference between two samples is worth: interval, p, and a verdict in words.

Knows: the rule of the verdict.
Leaves to others: the formulas (``statistics``, ``bootstrap``) and which samples to compare
(``comparison``).

The rule, with ``alpha`` 0.05 unless the user says otherwise:

``too few runs``
    a side has fewer than 4 values, or the smallest p that so many values can reach exceeds alpha.
``real``
    p is at most alpha *and* the (1 - alpha) interval of the change leaves out zero.
``noise``
    otherwise: chance alone could well have made it. A smaller true difference may be there.

The p is that of the exact Mann-Whitney test. Where runs were interleaved, 8 pairs or more are
judged by the exact signed-rank test of their differences instead, which what the machine did
meanwhile to both of a pair cannot disturb; fewer pairs can hardly reach a small p that way (5
pairs 0.06), and against pairs the Mann-Whitney test errs on the safe side. Either test alone calls
at most alpha of equal pairs real, and asking for both keeps that so. It holds for each metric: in
a table of 100 metrics up to 5 are called real by chance.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from faultprof.analysis.bootstrap import FEWEST, SEED, ResampledChange
from faultprof.analysis.statistics import (
    Estimate,
    mann_whitney,
    mean,
    signed_rank,
    smallest_mann_whitney,
)

ALPHA = 0.05
FEWEST_PAIRS = 8  # 2 / 2**8 is 0.008, as small as the 2/252 of 5 against 5 runs


class Verdict(StrEnum):
    """Whether a difference stands out from noise."""

    REAL = "real"
    NOISE = "noise"
    TOO_FEW = "too few runs"


class Test(StrEnum):
    """How a p was obtained; both are exact and two-sided."""

    __test__ = False  # no case of pytest's

    MANN_WHITNEY = "Mann-Whitney"
    SIGNED_RANK = "signed-rank"


@dataclass(frozen=True, slots=True)
class Change:
    """What changed from one sample to another.

    Args:
        difference: of the means, new less base, in the metric's unit.
        relative: the same as a fraction of the base's mean; None where that is not above zero.
        difference_interval, relative_interval: (low, high); None where they cannot be told.
        mann_whitney_p: exact, two-sided.
        p: the one that the verdict is based on.
        test: where ``p`` comes from.
        paired: whether pairs were compared.
        verdict: see the rule above.
    """

    difference: float
    relative: float | None
    difference_interval: tuple[float, float] | None
    relative_interval: tuple[float, float] | None
    mann_whitney_p: float
    p: float
    test: Test
    paired: bool
    verdict: Verdict


def change_between(
    base: Sequence[float],
    new: Sequence[float],
    *,
    paired: bool = False,
    alpha: float = ALPHA,
    seed: int = SEED,
) -> Change:
    """Compare two samples of one metric, of at least one value each.

    Args:
        base: the values of one side; with ``paired``, in the order of their pairs.
        new: those of the other side.
        paired: whether runs were interleaved: the n-th of either side belong together.
        alpha: how often equal pairs may be called real; intervals have confidence 1 - alpha.
        seed: of the resampling.

    Raises:
        FaultprofError: when a side has no value.
        ValueError: when pairs do not match.
    """
    if paired and len(base) != len(new):
        raise ValueError("pairs do not match")
    difference, base_mean = mean(new) - mean(base), mean(base)
    in_difference: Estimate | None = None
    in_relative: Estimate | None = None
    if min(len(base), len(new)) >= FEWEST:
        resampled = ResampledChange(base, new, paired=paired, confidence=1 - alpha, seed=seed)
        in_difference, in_relative = resampled.difference(), resampled.relative()
    mann_whitney_p = mann_whitney(base, new)
    p, test = mann_whitney_p, Test.MANN_WHITNEY
    if paired and len(base) >= FEWEST_PAIRS:
        pairs = zip(base, new, strict=True)
        p, test = signed_rank([after - before for before, after in pairs]), Test.SIGNED_RANK
    return Change(
        difference=difference,
        relative=difference / base_mean if base_mean > 0 else None,
        difference_interval=_interval(in_difference),
        relative_interval=_interval(in_relative),
        mann_whitney_p=mann_whitney_p,
        p=p,
        test=test,
        paired=paired,
        verdict=_verdict(p, in_difference, smallest_mann_whitney(len(base), len(new)), alpha),
    )


def _interval(estimate: Estimate | None) -> tuple[float, float] | None:
    return None if estimate is None else (estimate.low, estimate.high)


def _verdict(p: float, interval: Estimate | None, smallest: float, alpha: float) -> Verdict:
    """Apply the rule; ``smallest`` p: pairs that are judged by their signs can reach a smaller."""
    if interval is None or smallest > alpha:
        return Verdict.TOO_FEW
    if p <= alpha and not interval.low <= 0 <= interval.high:
        return Verdict.REAL
    return Verdict.NOISE
