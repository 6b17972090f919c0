"""What a pair of probes costs on the fault path itself, by how much longer a fault takes with it.

Knows: how to have faults happen, which function's time grows by which probes, and that both ways
are measured in turn.
Leaves to others: what a pair costs at the least (``calibration``), what a calibration is
(``recording.calibration``).

In a tight loop everything that a probe touches lies in caches, and its branches are foretold. On
the path that is traced, other code runs in between. Both are measured: the loop gives the least
that a pair costs, a fault what it costs in use.
"""

from __future__ import annotations

import mmap
from dataclasses import dataclass, field

from faultprof.capture.calibration_loop import Bench
from faultprof.capture.trace_plan import TracedFunction
from faultprof.recording.calibration import Cost

CALLER, CALLED = "handle_mm_fault", "__handle_mm_fault"
"""Each fault of a small page calls the one once, and that calls the other once."""

_PAGES = 64
_BATCHES = 12


class Faults:
    """Memory that can be faulted on again and again."""

    def __init__(self) -> None:
        kind = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
        self._region = mmap.mmap(-1, _PAGES * mmap.PAGESIZE, flags=kind)
        self._region.madvise(mmap.MADV_NOHUGEPAGE)
        self._data = bytes(len(self._region))

    def prepare(self) -> None:
        """Give the pages back."""
        self._region.madvise(mmap.MADV_DONTNEED)

    def happen(self) -> None:
        """Fault on each page once."""
        self._region[:] = self._data

    def close(self) -> None:
        """Give the memory back."""
        self._region.close()


@dataclass(slots=True)
class InPlace:
    """One way of probing: faults with the caller probed alone, and with the called probed too.

    Args:
        caller, called: functions of the bench's plan.
    """

    caller: TracedFunction
    called: TracedFunction
    _alone: list[float] = field(default_factory=list)
    _both: list[float] = field(default_factory=list)

    def go(self, bench: Bench, faults: Faults) -> None:
        """Measure both ways once.

        Raises:
            FaultprofError: the probes cannot be attached.
        """
        with bench.attached(self.caller):
            self._alone += self._batches(bench, faults)
        with bench.attached(self.caller, self.called):
            self._both += self._batches(bench, faults)

    def _batches(self, bench: Bench, faults: Faults) -> list[float]:
        """Return the ns of a fault, in the mean of each batch; the first finds cold caches."""
        return [self._fault_ns(bench, faults) for _ in range(_BATCHES + 1)][1:]

    def _fault_ns(self, bench: Bench, faults: Faults) -> float:
        faults.prepare()
        calls, ns = bench.so_far(self.caller)
        faults.happen()
        more_calls, more_ns = bench.so_far(self.caller)
        return (more_ns - ns) / max(1, more_calls - calls)

    def cost(self) -> Cost:
        """Return what a pair cost: medians against each other, and up to the slowest faults."""
        alone, both = sorted(self._alone), sorted(self._both)
        base, last = alone[len(alone) // 2], len(both) - 1
        usual, least, most = both[len(both) // 2], both[0], both[int(0.95 * last + 0.5)]
        # Differences of what is as fast, and of what is as slow: a spell has both in it.
        return Cost(usual - base, min(usual - base, least - alone[0]), most - base)
