"""Which nodes of a traced tree fight, by what was recorded of contention beside them.

Knows: from which share of a node's time on its waits are more than the probes' subtraction bears.
Leaves to others: what a part of contention means (``contention``), what follows for a time without
probes (``compensation``).

Probes lengthen what is inside a lock as well as what is outside, and so shift who waits for whom:
what a node waits for cannot be subtracted, nor can what waits are among its time be told from what
the probes made of them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from faultprof.analysis.contention.locks import Locks
from faultprof.analysis.contention.occupancy import merged
from faultprof.analysis.trace_tree import TraceNode
from faultprof.errors import bad_recording
from faultprof.recording.contention import LOCKS, OCCUPANCY
from faultprof.recording.metadata import RunInfo

SHARE = 0.05
"""Part of a node's time that is waited, or lost in company, from which on it is contended."""

Path = tuple[str, ...]


def contended_places(
    nodes: Sequence[TraceNode], runs: Iterable[RunInfo], chosen: Collection[int] | None
) -> set[int]:
    """Return the places of the nodes that fight.

    Args:
        nodes: of the whole tree, all tasks together.
        runs: of the recording.
        chosen: numbers of the runs that the nodes are of; None for all.

    Raises:
        FaultprofError: exit code 4, when what was recorded of contention is damaged.
    """
    taken = [run for run in runs if chosen is None or run.index in chosen]
    try:
        waited = _waited_ns(run.contention[LOCKS] for run in taken if LOCKS in run.contention)
        crowded = _crowded([run for run in taken if OCCUPANCY in run.contention])
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise bad_recording(
            f"what the recording holds of contention is damaged ({type(error).__name__}: {error})",
            "record again",
        ) from error
    return {
        place
        for place, path in enumerate(_paths(nodes))
        if path[-1] in crowded
        or (waited[path] and waited[path] >= SHARE * nodes[place].calls.inclusive_ns)
    }


def _crowded(runs: Sequence[RunInfo]) -> set[str]:
    """Return the functions that take longer in company, beyond doubt, by ``SHARE`` or more."""
    if not runs:
        return set()
    found = merged(runs).contended
    return {one.name for one in found if one.excess is not None and one.excess.share >= SHARE}


def _waited_ns(runs: Iterable[Mapping[str, Any]]) -> Counter[Path]:
    """Return the time waited for locks at each path or below."""
    found: Counter[Path] = Counter()
    for run in runs:
        for path, one in Locks.from_json(run).by_node():
            for depth in range(1, len(path) + 1):
                found[path[:depth]] += one.total_ns
    return found


def _paths(nodes: Sequence[TraceNode]) -> list[Path]:
    paths: list[Path] = []
    for node in nodes:
        above = paths[node.parent] if node.parent >= 0 else ()
        paths.append((*above, node.frame.function))
    return paths
