"""Times of many events: how many, how long together, and how they are spread.

Knows: what can be read from a histogram whose shortest and longest event are not known.
Leaves to others: the buckets (``recording.histogram``), which events (the parts).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from faultprof.analysis.histogram import added, quantile_ns
from faultprof.recording.histogram import Histogram, bucket_lower_ns, bucket_of


@dataclass(frozen=True, slots=True)
class Durations:
    """Events with a time.

    Attributes:
        ns: all of them together.
        histogram: how many of them took how long.
        longest_ns: the longest; None where that is not known.
    """

    ns: int
    histogram: Histogram
    longest_ns: int | None = None

    @classmethod
    def of(
        cls, ns: int, buckets: Iterable[Sequence[int]], longest_ns: int | None = None
    ) -> Durations:
        """Rebuild from plain data, the buckets as lists of [upper bound in ns, count]."""
        return cls(ns, tuple((int(upper), int(count)) for upper, count in buckets), longest_ns)

    @property
    def count(self) -> int:
        """How many events there were."""
        return sum(count for _, count in self.histogram)

    @property
    def avg_ns(self) -> float | None:
        """The mean; None without any."""
        return self.ns / self.count if self.count else None

    @property
    def p50_ns(self) -> int | None:
        """The median, to a bucket; None without any."""
        return self._quantile(0.5)

    @property
    def p99_ns(self) -> int | None:
        """The 99th percentile, to a bucket; None without any."""
        return self._quantile(0.99)

    def _quantile(self, share: float) -> int | None:
        if not self.histogram:
            return None
        shortest = bucket_lower_ns(bucket_of(self.histogram[0][0]))
        longest = self.longest_ns if self.longest_ns is not None else self.histogram[-1][0]
        return quantile_ns(self.histogram, share, shortest, longest)


def together(several: Sequence[Durations]) -> Durations:
    """Return the events of several."""
    longest = [one.longest_ns for one in several if one.longest_ns is not None]
    return Durations(
        sum(one.ns for one in several),
        added(one.histogram for one in several),
        max(longest) if len(longest) == len(several) and longest else None,
    )
