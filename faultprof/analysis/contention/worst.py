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
from faultprof.recording.contention import FOLIO, LOCKS
from faultprof.recording.metadata import RunInfo


@dataclass(frozen=True, slots=True)
class Worst:
    """Where tasks have waited longest.

    Attributes:
        path: functions, root first: a node of the call tree, or a kernel stack.
        total_ns: time waited there, all tasks together.
        of_ns: time waited in all, as the part has it.
        what: what is waited for, such as ``kernel locks``.
        most: what most of it was for.
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
    return Worst(
        path, waited.total_ns, locks.total_ns, "kernel locks", f"{lock.label} ({lock.type})"
    )


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
    return Worst(path, waits.ns, total_ns, "folios", f"those of {file.label}")


SOURCES: tuple[Source, ...] = (_worst_lock, _worst_folio)
