"""What the calls of a traced function come to.

Knows: how the figures of several nodes add up, and what follows from them.
Leaves to others: which nodes belong together (``trace_tree``).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from faultprof.analysis.histogram import added, quantile_ns
from faultprof.analysis.statistics import Estimate
from faultprof.recording.histogram import Histogram
from faultprof.recording.per_call import PerCall
from faultprof.recording.traced import TracedNode, sum_known


@dataclass(frozen=True, slots=True)
class Overhead:
    """What probes cost in nanoseconds, as far as it is in the times of some calls.

    Args:
        inclusive: in their inclusive time.
        own: in their self time.
    """

    inclusive: Estimate
    own: Estimate


@dataclass(frozen=True, slots=True)
class Calls:
    """Calls that were put together; all times in nanoseconds.

    Args:
        calls: calls that returned, and those that were only counted.
        timed_calls: of these, the calls that have a time.
        unfinished: calls that did not return.
        timed: whether times were taken; if not, all of them are 0 and mean nothing.
        inclusive_ns: time in the calls; where a function calls itself, in the outermost ones.
        self_ns: time in the calls and in nothing that they called.
        offcpu_ns: the part of ``inclusive_ns`` in which the task did not run; None when nobody
            looked.
        durations_ns: the durations of all calls added up; ``inclusive_ns`` without recursion.
        min_ns: the shortest call; None when no call has a time.
        max_ns: the longest call; likewise.
        histogram: the calls by duration, see ``recording.histogram``.
        overhead: what the probes put into the times (``compensation``); None when not known.
        per_call: the caller's calls that made these, by how many, see ``recording.per_call``.
        contended: whether they fight, by what was recorded of contention (``contended``).
    """

    calls: int = 0
    timed_calls: int = 0
    unfinished: int = 0
    timed: bool = False
    inclusive_ns: int = 0
    self_ns: int = 0
    offcpu_ns: int | None = None
    durations_ns: int = 0
    min_ns: int | None = None
    max_ns: int | None = None
    histogram: Histogram = ()
    overhead: Overhead | None = None
    per_call: PerCall = ()
    contended: bool = False

    @classmethod
    def of(cls, node: TracedNode) -> Calls:
        """Return the calls of one node."""
        return cls(
            calls=node.calls,
            timed_calls=node.calls if node.timed else 0,
            unfinished=node.unfinished,
            timed=node.timed,
            inclusive_ns=node.inclusive_ns,
            self_ns=node.self_ns,
            offcpu_ns=node.offcpu_ns if node.timed else None,
            durations_ns=node.inclusive_ns,
            min_ns=node.min_ns,
            max_ns=node.max_ns,
            histogram=node.histogram,
            per_call=node.per_call,
        )

    @property
    def begun(self) -> int:
        """Calls, whether they returned or not."""
        return self.calls + self.unfinished

    @property
    def avg_ns(self) -> float | None:
        """The mean duration; None when no call has a time.

        The time of what unfinished calls called is in it, since it cannot be told apart.
        """
        return self.durations_ns / self.timed_calls if self.timed_calls else None

    @property
    def p50_ns(self) -> int | None:
        """The median duration, see :func:`quantile_ns`; None when no call has a time."""
        return self._quantile_ns(0.5)

    @property
    def p99_ns(self) -> int | None:
        """The duration that one call in a hundred exceeds; as :attr:`p50_ns`."""
        return self._quantile_ns(0.99)

    @property
    def offcpu_share(self) -> float | None:
        """The part of the inclusive time off the CPU, 0 to 1; None without both figures."""
        if self.offcpu_ns is None or not self.inclusive_ns:
            return None
        return self.offcpu_ns / self.inclusive_ns

    @property
    def compensated_ns(self) -> Estimate | None:
        """The inclusive time without the probes; may be negative. None when not known."""
        if self.overhead is None or not self.timed:
            return None
        return _less(self.inclusive_ns, self.overhead.inclusive)

    @property
    def compensated_self_ns(self) -> Estimate | None:
        """The self time without the probes; likewise."""
        if self.overhead is None or not self.timed:
            return None
        return _less(self.self_ns, self.overhead.own)

    def _quantile_ns(self, quantile: float) -> int | None:
        if self.min_ns is None or self.max_ns is None:
            return None
        return quantile_ns(self.histogram, quantile, self.min_ns, self.max_ns)


def together(parts: Iterable[Calls]) -> Calls:
    """Add up calls that have no time in common, such as those of several runs."""
    parts = list(parts)
    if len(parts) == 1:
        return parts[0]
    return Calls(
        calls=sum(part.calls for part in parts),
        timed_calls=sum(part.timed_calls for part in parts),
        unfinished=sum(part.unfinished for part in parts),
        timed=any(part.timed for part in parts),
        inclusive_ns=sum(part.inclusive_ns for part in parts),
        self_ns=sum(part.self_ns for part in parts),
        offcpu_ns=sum_known(part.offcpu_ns for part in parts),
        durations_ns=sum(part.durations_ns for part in parts),
        min_ns=min((part.min_ns for part in parts if part.min_ns is not None), default=None),
        max_ns=max((part.max_ns for part in parts if part.max_ns is not None), default=None),
        histogram=added(part.histogram for part in parts),
        per_call=_added(part.per_call for part in parts),
        overhead=_overheads(parts),
        contended=any(part.contended for part in parts),
    )


def _less(ns: int, cost: Estimate) -> Estimate:
    return Estimate(ns - cost.value, ns - cost.high, ns - cost.low)


def _overheads(parts: Sequence[Calls]) -> Overhead | None:
    """Add up what the probes cost; None where it is not known of all parts."""
    known = [part.overhead for part in parts if part.overhead is not None]
    if len(known) < len(parts) or not known:
        return None
    return Overhead(_sum([one.inclusive for one in known]), _sum([one.own for one in known]))


def _sum(costs: Sequence[Estimate]) -> Estimate:
    return Estimate(
        sum(one.value for one in costs),
        sum(one.low for one in costs),
        sum(one.high for one in costs),
    )


def _added(parts: Iterable[PerCall]) -> PerCall:
    sums: Counter[int] = Counter()
    for part in parts:
        sums.update(dict(part))
    return tuple(sorted(sums.items()))
