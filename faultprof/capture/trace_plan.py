"""What is attached where: the functions of a session, numbered, each with its way of probing.

Knows: the numbers of `enum what` in probes/trace.bpf.c, which functions need special treatment,
which of two ways to attach a function gets.
Leaves to others: what a function is on this kernel (kernel.resolve), attaching (bpf.probes).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from enum import IntEnum

from faultprof.bpf.probes import Method, ProbePoint
from faultprof.capture.options import Attach
from faultprof.kernel.conditions import Kind
from faultprof.kernel.resolved import How, Resolved


class What(IntEnum):
    """``enum what`` of probes/trace.bpf.c."""

    PLAIN = 0
    HANDLE_MM_FAULT = 1
    DO_FAULT = 2
    SET_PTE_RANGE = 3
    FAULT_OUTCOME = 4
    OTHER_OUTCOME = 5


# What the host of a condition is to the BPF program.
_HOST_OF = {
    Kind.READ_FAULT: What.DO_FAULT,
    Kind.COW_FAULT: What.DO_FAULT,
    Kind.SHARED_FAULT: What.DO_FAULT,
    Kind.SINGLE_PAGE: What.SET_PTE_RANGE,
    Kind.ANONYMOUS: What.FAULT_OUTCOME,
}


# Which function a condition holds in alone, where its host has other callers too.
_WITHIN = {Kind.SINGLE_PAGE: "filemap_map_pages"}


@dataclass(frozen=True, slots=True)
class TracedFunction:
    """One function of a session.

    Attributes:
        number: its number in the BPF program.
        resolved: what it is on this kernel.
        points: where probes go; none for a function told by a condition in its host.
        method: how a pair of probes is attached; None when only entries are counted.
        what: what is special about it.
    """

    number: int
    resolved: Resolved
    points: tuple[ProbePoint, ...] = ()
    method: Method | None = None
    what: What = What.PLAIN

    @property
    def name(self) -> str:
        """The function's name in mainline."""
        return self.resolved.name

    @property
    def at_symbols(self) -> bool:
        """Whether its probes go to where symbols are, and not behind them."""
        return all(point.offset == 0 for point in self.points)

    @property
    def timed(self) -> bool:
        """Whether its calls have a time; else they are only counted."""
        condition = self.resolved.condition
        if condition is not None:
            return condition.kind is not Kind.ANONYMOUS
        return self.method is not None


@dataclass(slots=True)
class TracePlan:
    """The functions that are traced, and those of the wish that are not."""

    functions: list[TracedFunction] = field(default_factory=list)
    refused: list[Resolved] = field(default_factory=list)

    def knobs(self) -> dict[str, int]:
        """Return the knobs that say which number stands for which conditional function.

        They are called as the members of ``Kind``; MAP_PAGES is the only one of ``_WITHIN``.
        """
        count = len(self.functions)
        knobs = {"FUNCTIONS": count, **dict.fromkeys((kind.name for kind in Kind), count)}
        numbers = {one.name: one.number for one in self.functions}
        knobs["MAP_PAGES"] = numbers.get(_WITHIN[Kind.SINGLE_PAGE], count)
        for function in self.functions:
            condition = function.resolved.condition
            if condition is not None:
                knobs[condition.kind.name] = function.number
        return knobs


def make_plan(resolved: Sequence[Resolved], attach: Attach, *, preempts: bool = False) -> TracePlan:
    """Give each function its number and its way of being probed.

    Args:
        resolved: the functions of the wish, hosts of conditional ones included.
        attach: ``fentry`` or ``kprobe`` force one way; ``auto`` takes the better that goes.
        preempts: whether the kernel preempts its own code.
    """
    methods = methods_in_order(attach, preempts)
    plan = TracePlan()
    special = _special(resolved)
    for one in resolved:
        method = _method(one, methods)
        if method is None:
            plan.refused.append(one)
            continue
        number = len(plan.functions)
        if one.how is How.CONDITION:
            plan.functions.append(TracedFunction(number, one))
            continue
        points = tuple(ProbePoint(place.symbol, place.offset) for place in one.places)
        paired = None if one.how is How.INLINED else method
        what = special.get(one.symbol or one.name, What.PLAIN)
        plan.functions.append(TracedFunction(number, one, points, paired, what))
    return plan


def missing_hosts(resolved: Iterable[Resolved]) -> list[str]:
    """Return the hosts that conditions need and that the wish does not name."""
    resolved = list(resolved)
    # The symbol of a function told by a condition is its host's.
    there = {one.symbol for one in resolved if one.condition is None}
    there |= {one.name for one in resolved}
    wanted: dict[str, None] = {}
    for one in resolved:
        if one.condition is not None:
            condition = one.condition
            names = [condition.host, *(other.function for other in condition.excludes)]
            names += [_WITHIN[condition.kind]] if condition.kind in _WITHIN else []
            wanted |= dict.fromkeys(name for name in names if name not in there)
    return list(wanted)


def _special(resolved: Iterable[Resolved]) -> dict[str, What]:
    """Return what is special about each symbol."""
    special = {"handle_mm_fault": What.HANDLE_MM_FAULT}
    for one in resolved:
        if one.condition is not None:
            special[one.condition.host] = _HOST_OF[one.condition.kind]
            for other in one.condition.excludes:
                special[other.function] = What.OTHER_OUTCOME
    return special


def methods_in_order(attach: Attach, preempts: bool) -> tuple[Method, ...]:
    """Return the ways that may be taken, the best first.

    An fentry program disturbs least. But where the kernel preempts itself it can be preempted, and
    while it is, the kernel skips it for every other task on its CPU, for a whole time slice. With
    four threads on two CPUs (Linux 7.3, emulated) hundreds of hits were skipped. Kprobe programs
    are not preempted.
    """
    if attach != "auto":
        return (attach,)
    return ("kprobe", "fentry") if preempts else ("fentry", "kprobe")


def _method(one: Resolved, methods: Sequence[Method]) -> Method | None:
    """Return how a function is probed, or None if no way goes."""
    goes = {"kprobe": one.kprobe, "fentry": one.fentry and one.how is not How.INLINED}
    return next((method for method in methods if goes[method]), None)
