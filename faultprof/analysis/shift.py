"""How much of the total a node of two recordings takes, before and after.

Knows: the steps that a change is told in, and which changes of sample counts are only noise.
Leaves to others: one tree over both recordings (``weights``), colours (``render``).

Shares of the total are compared, so that recordings of different lengths can be. Sample counts
are Poisson: with a of A samples before and b of B after, a change of share smaller than two
standard errors, 2 sqrt(a/A^2 + b/B^2), is noise (the usual test of two rates, normal
approximation). Traced times and calls are no samples; there is one run of each or several, and what
their change is worth is for ``compare`` to say.
"""

from __future__ import annotations

import math
from enum import IntEnum

_ERRORS = 2  # standard errors below which a change of a sample count is noise


class Step(IntEnum):
    """A change of share, by how much of the former one is left."""

    GONE = 0
    HALF = 1
    LESS = 2
    SAME = 3
    MORE = 4
    DOUBLE = 5
    NEW = 6


_LESS, _HALF = 1 / 1.2, 1 / 2


def step_of(before: int, before_total: int, after: int, after_total: int, *, sampled: bool) -> Step:
    """Return how a node's share changed.

    Args:
        before: weight of the node in the first recording.
        before_total: what is 100 percent there.
        after: weight in the second.
        after_total: likewise.
        sampled: whether weights are counts of samples.
    """
    first, second = before / max(1, before_total), after / max(1, after_total)
    if sampled and abs(second - first) <= _ERRORS * math.sqrt(
        before / max(1, before_total) ** 2 + after / max(1, after_total) ** 2
    ):
        return Step.SAME
    if not before or not after:
        return Step.SAME if before == after else Step.NEW if after else Step.GONE
    ratio = second / first
    if ratio <= 1:
        return Step.HALF if ratio <= _HALF else Step.LESS if ratio <= _LESS else Step.SAME
    return Step.DOUBLE if ratio >= 1 / _HALF else Step.MORE if ratio >= 1 / _LESS else Step.SAME
