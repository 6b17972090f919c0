"""Percentages of a total, the same for samples and for traced time.

Knows: how they are rounded, which is not at all until they are printed.
Leaves to others: what the total is (``tree``, ``trace_tree``).
"""

from __future__ import annotations

import math
from fractions import Fraction


def percent_of(part: int, total: int) -> float:
    """Return ``part`` as a percentage of ``total``; 0 when there is none."""
    return 100.0 * part / total if total else 0.0


def least_part(percent: float, total: int) -> int:
    """Return the least part that is ``percent`` of ``total`` or more.

    Exact, so that a part of just ``percent`` is enough whatever the rounding.
    """
    return math.ceil(Fraction(repr(float(percent))) * total / 100)
