"""The buckets that durations are counted in: log-linear, four to each power of two.

Knows: which bucket a duration falls in and which durations a bucket holds; the same rule as
probes/histogram.h.
Leaves to others: counting (the BPF program) and what follows from the counts (``analysis``).

Durations of 0 to 3 ns have a bucket each. A longer one, whose highest bit is bit e, is in bucket
(e - 1) * 4 + the two bits below the highest; so a bucket is at most a quarter as wide as its lower
bound. The last one is open: it also holds everything from 2**37 ns (137 s) on.
"""

from __future__ import annotations

from collections.abc import Sequence

BUCKETS = 144
NO_END_NS = 2**63 - 1  # upper bound of the open bucket: the largest duration a recording can hold

Histogram = tuple[tuple[int, int], ...]  # (upper bound in ns, calls) of non-empty buckets, rising


def bucket_of(ns: int) -> int:
    """Return the bucket, 0 to ``BUCKETS`` - 1, that a duration of ``ns`` is counted in."""
    if ns < 4:
        return ns
    bit = ns.bit_length() - 1
    return min((bit - 1) * 4 + ((ns >> (bit - 2)) & 3), BUCKETS - 1)


def bucket_lower_ns(bucket: int) -> int:
    """Return the shortest duration in ns that ``bucket`` holds."""
    if bucket < 4:
        return bucket
    above, quarter = divmod(bucket, 4)
    return (4 + quarter) << (above - 1)


def bucket_upper_ns(bucket: int) -> int:
    """Return the longest duration in ns that ``bucket`` holds; the last one has no end."""
    return bucket_lower_ns(bucket + 1) - 1 if bucket < BUCKETS - 1 else NO_END_NS


def histogram_of(counts: Sequence[int]) -> Histogram:
    """Return what is counted in ``counts``, by bucket, as upper bounds and counts."""
    return tuple((bucket_upper_ns(bucket), count) for bucket, count in enumerate(counts) if count)
