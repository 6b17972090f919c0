"""Rates and trends of what is recorded right now.

Knows: how ticks become figures per second, shares, and the course of the last seconds.
Leaves to others: taking the ticks (``capture.live``), how it looks (``render.top``).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from itertools import islice

from faultprof.capture.live import CallNode, NodeTick, Tick
from faultprof.recording.frames import Frame

WINDOW = 5  # ticks that shares and rates of nodes are of
COURSE = 12  # ticks that a course shows

# What handles a fault, in the order in which it is listed; of traced recordings.
HANDLERS = (
    "do_read_fault",
    "do_cow_fault",
    "do_shared_fault",
    "do_anonymous_page",
    "do_wp_page",
    "do_swap_page",
    "do_numa_page",
    "do_huge_pmd_anonymous_page",
    "do_huge_pmd_wp_page",
    "hugetlb_fault",
)

Course = tuple[float, ...]


class Sort(Enum):
    """What nodes are listed by, the largest first."""

    OWN = "self"
    INCLUSIVE = "inclusive"
    CALLS = "calls"
    CHANGE = "change"
    NAME = "name"


@dataclass(frozen=True, slots=True)
class Rate:
    """Something's occurrences a second, in the last tick and in those before, oldest first."""

    name: str
    per_s: float
    course: Course


@dataclass(frozen=True, slots=True)
class Row:
    """A node of the call tree, or a function of several nodes, over the last ``WINDOW`` ticks.

    Attributes:
        frame: the function.
        caller: what calls it; None for a root, and for a function.
        own: percent of all that was spent, in itself.
        inclusive: likewise, with what it calls.
        calls_per_s: None where calls are not known.
        avg_ns: of a call; likewise.
        change: by how many percentage points ``own`` lies above that of all ticks before.
        course: ``own`` tick by tick, oldest first.
    """

    frame: Frame
    caller: Frame | None
    own: float
    inclusive: float
    calls_per_s: float | None
    avg_ns: float | None
    change: float
    course: Course


@dataclass(frozen=True, slots=True)
class Wait:
    """A lock that tasks waited for: contentions a second, and CPU-seconds waited a second."""

    name: str
    per_s: float
    waited: float
    course: Course


@dataclass(frozen=True, slots=True)
class View:
    """All that the live view shows of one moment.

    Attributes:
        faults: by kind, those that make up all faults first; empty before the first tick.
        handled: by what handles them; empty without a trace.
        rows: nodes or functions.
        count: how many there are.
        waits: None when nobody looks at locks.
        own_percent: of one CPU, what this program takes.
        probes_percent: of one CPU, what the BPF programs take; None when it is not known.
        lost: what was not counted, by what it is.
    """

    faults: Sequence[Rate] = ()
    handled: Sequence[Rate] = ()
    rows: Sequence[Row] = ()
    count: int = 0
    waits: Sequence[Wait] | None = None
    own_percent: float = 0.0
    probes_percent: float | None = None
    lost: Mapping[str, int] = field(default_factory=dict)

    def rate(self, kind: str) -> Rate | None:
        """Return the rate of one kind of fault, if it is told apart here."""
        return next((one for one in self.faults if one.name == kind), None)


class History:
    """The ticks of the last seconds."""

    def __init__(self) -> None:
        self._ticks: deque[Tick] = deque(maxlen=COURSE)
        self._probes_percent: float | None = None

    def add(self, tick: Tick) -> None:
        """Take the newest tick in."""
        self._ticks.append(tick)
        if tick.probes_ns is not None:
            self._probes_percent = tick.probes_ns / 1e9 / tick.seconds * 100

    def view(self, sort: Sort, limit: int, *, functions: bool = False) -> View:
        """Return what there is to see now.

        Args:
            sort: which rows come first.
            limit: how many rows at most.
            functions: one row for a function wherever it is called, not one for each node.
        """
        if not self._ticks:
            return View()
        last = self._ticks[-1]
        rows, count = self._rows(sort, limit, functions=functions)
        return View(
            faults=[self._rate(kind) for kind in last.faults],
            handled=self._handled(),
            rows=rows,
            count=count,
            waits=self._waits(),
            own_percent=100 * last.own_cpu_s / last.seconds,
            probes_percent=self._probes_percent,
            lost={text: lost for text, lost in last.lost.items() if lost},
        )

    def _rate(self, kind: str) -> Rate:
        course = tuple(tick.faults.get(kind, 0) / tick.seconds for tick in self._ticks)
        return Rate(kind, course[-1], course)

    def _handled(self) -> list[Rate]:
        calls = [_calls_of_handlers(tick.nodes) for tick in self._ticks]
        found = []
        for name in HANDLERS:
            if any(name in one for one in calls):
                course = tuple(
                    one.get(name, 0) / tick.seconds
                    for one, tick in zip(calls, self._ticks, strict=True)
                )
                found.append(Rate(name, course[-1], course))
        return found

    def _waits(self) -> list[Wait] | None:
        known = [tick.waits for tick in self._ticks if tick.waits is not None]
        if not known:
            return None
        window = list(islice(reversed(self._ticks), WINDOW))
        seconds = sum(tick.seconds for tick in window)
        names = dict.fromkeys(name for waits in known for name in waits)
        rows = []
        for name in names:
            found = [(tick.waits or {}).get(name, (0, 0)) for tick in window]
            course = tuple(
                (tick.waits or {}).get(name, (0, 0))[1] / 1e9 / tick.seconds for tick in self._ticks
            )
            contentions, ns = (sum(column) for column in zip(*found, strict=True))
            if contentions:
                rows.append(Wait(name, contentions / seconds, ns / 1e9 / seconds, course))
        return sorted(rows, key=lambda one: (-one.waited, one.name))

    def _rows(self, sort: Sort, limit: int, *, functions: bool) -> tuple[list[Row], int]:
        grouped = _by_function if functions else _by_node
        groups = [grouped(tick.nodes) for tick in self._ticks]
        totals = [_spent(tick.nodes) for tick in self._ticks]
        window = slice(-WINDOW, None)
        seconds = sum(tick.seconds for tick in islice(reversed(self._ticks), WINDOW))
        summed = _summed(groups[window])
        total = sum(totals[window])
        earlier, before = _summed(groups[:-WINDOW]), sum(totals[:-WINDOW])
        rows = []
        for key, one in summed.items():
            then = _share(earlier.get(key, _NOTHING).own, before) if before else None
            rows.append(_row(key, one, total, seconds, then))
        keyed = sorted(zip(rows, summed, strict=True), key=lambda pair: _order(pair[0], sort))
        shown = []
        for row, key in keyed[:limit]:
            own = (group.get(key, _NOTHING).own for group in groups)
            course = tuple(_share(part, all_) for part, all_ in zip(own, totals, strict=True))
            shown.append(replace(row, course=course))
        return shown, len(rows)


_Key = CallNode | Frame
_NOTHING = NodeTick(None, 0, 0)


def _by_node(nodes: Mapping[CallNode, NodeTick]) -> Mapping[_Key, NodeTick]:
    return nodes  # type: ignore[return-value]  # a mapping's keys are only looked up here


def _by_function(nodes: Mapping[CallNode, NodeTick]) -> dict[_Key, NodeTick]:
    found: dict[_Key, NodeTick] = {}
    for node, tick in nodes.items():
        # A function below itself is part of its own time already.
        inclusive = 0 if node.recursive else tick.inclusive
        before = found.get(node.frame, _NOTHING)
        found[node.frame] = _added(before, NodeTick(tick.calls, inclusive, tick.own))
    return found


def _added(one: NodeTick, other: NodeTick) -> NodeTick:
    calls = None
    if one.calls is not None or other.calls is not None:
        calls = (one.calls or 0) + (other.calls or 0)
    return NodeTick(calls, one.inclusive + other.inclusive, one.own + other.own)


def _summed(groups: Iterable[Mapping[_Key, NodeTick]]) -> dict[_Key, NodeTick]:
    found: dict[_Key, NodeTick] = {}
    for group in groups:
        for key, tick in group.items():
            found[key] = _added(found[key], tick) if key in found else tick
    return found


def _spent(nodes: Mapping[CallNode, NodeTick]) -> int:
    """Return all samples or time of a tick: every bit of it is some node's own."""
    return sum(tick.own for tick in nodes.values())


def _share(part: float, whole: float) -> float:
    return 100 * part / whole if whole else 0.0


def _row(key: _Key, tick: NodeTick, total: int, seconds: float, before: float | None) -> Row:
    own = _share(tick.own, total)
    frame, caller = (key.frame, key.caller) if isinstance(key, CallNode) else (key, None)
    return Row(
        frame=frame,
        caller=caller.frame if caller is not None and caller.caller is not None else None,
        own=own,
        inclusive=_share(tick.inclusive, total),
        calls_per_s=None if tick.calls is None else tick.calls / seconds,
        avg_ns=tick.inclusive / tick.calls if tick.calls else None,
        change=0.0 if before is None else own - before,
        course=(),
    )


def _order(row: Row, sort: Sort) -> tuple[float, float, str]:
    """Return what rows are sorted by; equal ones stay in the order of their names."""
    first = {
        Sort.OWN: -row.own,
        Sort.INCLUSIVE: -row.inclusive,
        Sort.CALLS: -(row.calls_per_s or 0),
        Sort.CHANGE: -abs(row.change),
        Sort.NAME: 0.0,
    }[sort]
    return first, 0.0 if sort is Sort.NAME else -row.own, row.frame.function


def _calls_of_handlers(nodes: Mapping[CallNode, NodeTick]) -> dict[str, int]:
    found: dict[str, int] = {}
    for node, tick in nodes.items():
        if tick.calls is not None and node.frame.function in HANDLERS:
            name = node.frame.function
            found[name] = found.get(name, 0) + tick.calls
    return found
