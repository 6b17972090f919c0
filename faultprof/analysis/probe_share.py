"""How much of a function's traced share of the time may be the probes' own cost.

Knows: what taking the calibrated cost out does to the shares below a root.
Leaves to others: the cost (``compensation``), the samples that shares are held against
(``cross_check``).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from faultprof.analysis.compensation import Kinds, compensate, costs_of
from faultprof.analysis.trace_tree import TracedFunction, TraceTree
from faultprof.recording.calibration import calibration_of

if TYPE_CHECKING:
    from faultprof.recording.reader import Recording

_BOUNDS = ("low", "value", "high")


def probe_shares(recording: Recording, trace: TraceTree, root: str) -> dict[str, float]:
    """Return by function how far the share of its time on the CPU below ``root`` may be off.

    That is the distance to its share without the calibrated cost, at whichever end of the cost's
    interval it is largest; 1 where the cost may be all of the root's time. Empty where nothing
    was calibrated.

    Args:
        recording: whose functions and calibration these are.
        trace: its whole traced tree.
        root: a function in it.

    Raises:
        FaultprofError: exit code 4, when the calibration is damaged.
    """
    calibration = calibration_of(recording.metadata.calibration)
    if calibration is None:
        return {}
    tree = compensate(trace, Kinds(recording.metadata.functions), costs_of(calibration))
    below = tree.below(root).functions()
    whole = next(one for one in below if one.frame.function == root)
    found: dict[str, float] = {}
    for one in below:
        distances = list(_distances(one, whole))
        if distances:
            found[one.frame.function] = min(1.0, max(distances))
    return found


def _distances(one: TracedFunction, whole: TracedFunction) -> Iterable[float]:
    """Yield the distance from the raw share to the compensated one, at each end."""
    part, total = one.calls, whole.calls
    if part.overhead is None or total.overhead is None:
        return
    ns = part.inclusive_ns - (part.offcpu_ns or 0)
    total_ns = total.inclusive_ns - (total.offcpu_ns or 0)
    for bound in _BOUNDS:
        left = total_ns - getattr(total.overhead.inclusive, bound)
        if left <= 0:
            yield 1.0
        else:
            yield abs(ns / total_ns - (ns - getattr(part.overhead.inclusive, bound)) / left)
