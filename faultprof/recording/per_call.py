"""How often one call of a caller calls a function: the buckets that such numbers are counted in.

Knows: which bucket a number is in; the same rule as probes/trace.bpf.c.
Leaves to others: counting (the BPF program) and what follows from the counts (``analysis``).

The buckets hold 1, 2, 3 to 4, 5 to 8, ... 33 to 64, and more calls. That a caller's call has not
called the function at all has no bucket: it follows from the caller's calls.
"""

from __future__ import annotations

from collections.abc import Sequence

from faultprof.recording.histogram import NO_END_NS

NO_END = NO_END_NS  # the largest number that a recording can hold
MOST = (1, 2, 4, 8, 16, 32, 64, NO_END)  # calls, by bucket

PerCall = tuple[tuple[int, int], ...]  # (most calls, caller's calls) of non-empty buckets, rising


def per_call_of(counts: Sequence[int]) -> PerCall:
    """Return what is counted in ``counts``, by bucket, as upper bounds and counts."""
    return tuple((most, count) for most, count in zip(MOST, counts, strict=False) if count)


def fewest(most: int) -> int:
    """Return the fewest calls of the bucket that holds up to ``most``."""
    return MOST[MOST.index(most) - 1] + 1 if most > 1 else 1


def per_call_fault(per_call: PerCall) -> str | None:
    """Return what is wrong with one; None when nothing is."""
    bounds = [most for most, _ in per_call]
    if bounds != [most for most in MOST if most in bounds]:
        return "calls for one call of the caller are in other buckets than there are"
    if any(not 0 < count <= NO_END for _, count in per_call):
        return "a number of a caller's calls is out of range"
    return None
