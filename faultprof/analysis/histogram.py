"""What a histogram of durations says: quantiles, and the sum of several.

Knows: how to read between the bounds of a bucket, and how much that can be off.
Leaves to others: the buckets (``recording.histogram``) and drawing them (``render``).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from fractions import Fraction

from faultprof.recording.histogram import Histogram, bucket_lower_ns, bucket_of


def quantile_ns(histogram: Histogram, quantile: float, min_ns: int, max_ns: int) -> int:
    """Return the duration in ns that a share ``quantile`` (0 to 1) of the calls do not exceed.

    Of n calls it is the one at rank quantile * n, counted from the shortest. Where in its bucket
    that call lies is not known; the calls of a bucket are taken to be spread evenly from its lower
    to its upper bound. The bounds of the first and the last bucket are drawn in to the shortest and
    the longest call. So the result lies between these, and is off by less than the width of one
    bucket: 25 percent at most, nothing below 8 ns or when all calls take the same time.

    Args:
        histogram: the calls; at least one.
        quantile: which share.
        min_ns: the shortest call.
        max_ns: the longest call.
    """
    # Exact: 0.99 is no binary fraction, and a rank must not slip into the next bucket.
    rank = Fraction(repr(quantile)) * sum(count for _, count in histogram)
    below = 0
    for upper, count in histogram:
        lower = max(bucket_lower_ns(bucket_of(upper)), min_ns)
        upper = min(upper, max_ns)
        if below + count >= rank:
            return lower + round((upper - lower) * (rank - below) / count)
        below += count
    return max_ns


def added(histograms: Iterable[Histogram]) -> Histogram:
    """Return the histogram of all calls of ``histograms``."""
    counts: Counter[int] = Counter()
    for histogram in histograms:
        counts.update(dict(histogram))
    return tuple(sorted(counts.items()))
