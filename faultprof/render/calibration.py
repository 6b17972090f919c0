"""A calibration as a table for a terminal, and as a phrase for a report's header.

Knows: the columns, and what each kind of probe is in words.
Leaves to others: the figures (``recording.calibration``).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from faultprof.recording.calibration import (
    CONDITION,
    FAULT_FLAGS,
    HIT,
    OCCUPANCY,
    SAMPLE,
    SWITCH,
    Calibration,
    Cost,
    Measured,
)
from faultprof.render.header import entry
from faultprof.render.terminal import Terminal, sanitise
from faultprof.render.units import NOTHING

_WORDS = {
    "kprobe": "kprobe and kretprobe",
    "fentry": "fentry and fexit",
    HIT: "kprobe that only counts",
    SWITCH: "context switch, with off-CPU times",
    SAMPLE: "sample of the stack",
}
_FEATURES = {
    CONDITION: ", with a condition",
    FAULT_FLAGS: ", with a fault's flags",
    OCCUPANCY: ", with occupancy",
}
_TITLES = ("threads", "ns a hit", "interval", "in place", "inside", "outside", "a", "b", "c", "d")
_MEANING = (
    "of a pair; a: entry to clock, b: clock to body, c: body to clock, d: clock to return; inside "
    "(b + c) is in the function's own time, outside (a + d) in its caller's"
)
_COST = (
    "the shortest of many passes through a loop in the kernel; the interval reaches to what 95 of "
    "100 passes stayed below; in place: on the fault path, in the median, and to what 95 of 100 "
    "batches of faults stayed below"
)


def calibration_lines(calibration: Calibration, terminal: Terminal) -> Iterator[str]:
    """Yield what probes cost, a line for each kind and number of threads."""
    kernel, cpu = calibration.kernel, calibration.cpu
    yield from entry("kernel", f"{kernel.release} ({kernel.machine})", terminal)
    yield from entry("cpu", f"{cpu.count} x {cpu.model or 'unknown'}", terminal)
    yield from entry("measured", f"{calibration.created}: {_COST}", terminal)
    if any(one.inside_ns for one in calibration.measured):
        yield from entry("columns", _MEANING, terminal)
    yield "#"
    yield from _table(calibration.measured)
    for kind, why in calibration.missing.items():
        yield from entry("missing", f"{words(kind)}: {why}", terminal)


def _table(measured: tuple[Measured, ...]) -> Iterator[str]:
    names = [words(one.kind) for one in measured]
    width = max([len(name) for name in names], default=0)
    rows = [_TITLES, *(_cells(one) for one in measured)]
    widths = [max(len(row[place]) for row in rows) for place in range(len(_TITLES))]
    for name, row in zip(["# probe", *names], rows, strict=True):
        figures = "  ".join(cell.rjust(room) for cell, room in zip(row, widths, strict=True))
        yield f"{name.ljust(width)}  {figures}"


def _cells(one: Measured) -> tuple[str, ...]:
    pair = one.inside_ns is not None
    parts, place = one.parts, one.in_place_ns
    four = (
        (parts.entry_to_clock, parts.clock_to_body, parts.body_to_clock, parts.clock_to_return)
        if parts is not None
        else ()
    )
    return (
        str(one.threads),
        f"{one.total_ns.value:.0f}",
        interval(one.total_ns),
        NOTHING if place is None else f"{place.value:.0f} to {place.high:.0f}",
        f"{one.inside_ns.value:.0f}" if one.inside_ns is not None else NOTHING,
        f"{one.outside_ns.value:.0f}" if pair else NOTHING,
        *(f"{part:.0f}" for part in four),
        *[NOTHING] * (4 - len(four)),
    )


def interval(cost: Cost) -> str:
    """Return the bounds in whole nanoseconds."""
    return f"{cost.low:.0f} to {cost.high:.0f}"


def words(kind: str) -> str:
    """Say what a kind of probe is."""
    plain, plus, feature = kind.partition("+")
    return sanitise(_WORDS.get(plain, plain) + _FEATURES.get(plus + feature, plus + feature))


UNKNOWN = "times include the probes' own, which is not known here; measure it: faultprof calibrate"

_AT_LEAST = (
    "That is the least, from a tight loop: on a colder path a probe costs more, and a compensated "
    "time is still too long"
)


def cost_text(calibration: Calibration, functions: Mapping[str, Any]) -> str:
    """Say what a recording's probes cost when it was made."""
    used = {one.get("method") for one in functions.values() if isinstance(one, dict)}
    pairs = [one for one in calibration.measured if one.kind in used and one.threads == 1]
    costs = "; ".join(map(_of_a_call, pairs))
    least = "" if all(one.in_place_ns for one in pairs) else f". {_AT_LEAST}"
    return f"{costs or 'of these probes not known'}; calibrated {calibration.created}{least}"


def _of_a_call(pair: Measured) -> str:
    place = pair.in_place_ns
    if place is None:
        return f"{words(pair.kind)} {pair.total_ns.value:.0f} ns a call ({interval(pair.total_ns)})"
    return (
        f"{words(pair.kind)} {place.value:.0f} ns a call on the fault path (from "
        f"{pair.total_ns.value:.0f}, in a tight loop, to {place.high:.0f})"
    )
