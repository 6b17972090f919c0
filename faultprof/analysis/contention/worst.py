"""The worst contended place of a recording: where its tasks have waited longest.

Knows: which parts tell of waits, and how their figures compare: by time waited.
Leaves to others: each part's figures.

Each source returns the worst place of one part; a part that has none, or was not recorded, None.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from faultprof.analysis.contention.folio import Folio
from faultprof.analysis.contention.folio import merged as merged_folio
from faultprof.analysis.contention.locks import Locks, merged
from faultprof.analysis.contention.occupancy import merged as merged_occupancy
from faultprof.recording.contention import FOLIO, LOCKS, OCCUPANCY
from faultprof.recording.metadata import RunInfo


@dataclass(frozen=True, slots=True)
class Worst:
    """Where tasks have waited longest, or CPUs have been held up most.

    Attributes:
        path: functions, root first: a node of the call tree, or a kernel stack.
        total_ns: time lost there, all tasks together.
        of_ns: of how much, as the part has it.
        what: what time that is, such as ``tasks waited for kernel locks``.
        most: what most of it was for; "" when there is nothing to add.
    """

    path: tuple[str, ...]
    total_ns: int
    of_ns: int
    what: str
    most: str


Source = Callable[[Sequence[RunInfo]], Worst | None]


def worst(runs: Sequence[RunInfo]) -> Worst | None:
    """Return the worst place of these runs; None when nobody waited, or nothing was recorded.

    Raises:
        KeyError, TypeError, ValueError, AttributeError: a part's data have another shape.
    """
    found = [one for source in SOURCES if (one := source(runs)) is not None]
    return max(found, key=lambda one: one.total_ns, default=None)


def _worst_lock(runs: Sequence[RunInfo]) -> Worst | None:
    parts = [Locks.from_json(run.contention[LOCKS]) for run in runs if LOCKS in run.contention]
    if not parts:
        return None
    locks = merged(parts)
    # Of a trace the nodes: that is what the reader sees. Most waits may be outside of it.
    places = locks.by_node() or locks.by_place()
    if not places:
        return None
    path, waited = places[0]
    there = Locks(
        locks.traced, {}, tuple(one for one in locks.waits if one.place == path), 0, 0, 0, {}
    )
    lock, _ = there.by_lock()[0]
    most = f"{lock.label} ({lock.type})"
    return Worst(path, waited.total_ns, locks.total_ns, "tasks waited for kernel locks", most)


def _worst_folio(runs: Sequence[RunInfo]) -> Worst | None:
    parts = [Folio.from_json(run.contention[FOLIO]) for run in runs if FOLIO in run.contention]
    if not parts:
        return None
    folio = merged_folio(parts)
    if not folio.waits or not folio.files:
        return None
    waits, file = folio.waits[0], folio.files[0]
    path = tuple(name for name in (waits.caller, waits.function) if name)
    total_ns = sum(one.ns for one in folio.waits)
    return Worst(path, waits.ns, total_ns, "tasks waited for folios", f"those of {file.label}")


def _worst_company(runs: Sequence[RunInfo]) -> Worst | None:
    """Return the innermost function that has most of what company costs: callers include it."""
    recorded = [run for run in runs if OCCUPANCY in run.contention]
    if not recorded:
        return None
    found = [(one.lost_ns, one) for one in merged_occupancy(recorded).contended]
    if not found:
        return None
    most = max(lost for lost, _ in found)
    lost, inner = min(
        (pair for pair in found if 2 * pair[0] >= most), key=lambda pair: pair[1].on_cpu_ns
    )
    spent = "CPUs spent in it, more than calls alone in it take"
    return Worst((inner.name,), round(lost), inner.on_cpu_ns, spent, "")


SOURCES: tuple[Source, ...] = (_worst_lock, _worst_folio, _worst_company)
