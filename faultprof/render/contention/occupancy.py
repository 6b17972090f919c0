"""The section on occupancy: two tables, and the JSON under ``occupancy``.

Knows: the columns.
Leaves to others: the figures (``analysis.contention.occupancy``).

The object has ``cpus``, ``frequency_hz``, ``every`` (of how many calls one looked at the
occupancy, in the mean), ``readings``, ``missed_readings``, ``elapsed_ns``, ``lost`` and
``functions``: by name, those with the most CPUs inside first, ``mean`` and ``mean_by_trace`` (CPUs
inside), ``most`` (that were ever seen), ``inside`` ([CPUs, ns in which so many were inside], ...),
``calls`` and ``on_cpu_ns`` of all that returned, ``by_occupancy`` (``occupancy`` at the entry,
``calls`` that looked, their ``mean_ns``, its ``error_ns`` and ``off_cpu_ns`` in all) and ``excess``
(``share`` of the time that company cost, its ``error``, whether it is ``sure``; null without
comparison).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from faultprof.analysis.contention.occupancy import (
    FEWEST_CALLS,
    FunctionOccupancy,
    Met,
    Occupancy,
    merged,
)
from faultprof.recording.metadata import RunInfo
from faultprof.render.header import entry
from faultprof.render.terminal import Terminal, sanitise
from faultprof.render.units import NOTHING, duration

_SINGLE = 8  # CPUs up to which each number has a column of its own

_READ = (
    "mean: CPUs inside, by the readings; trace: the same by the trace (time in the function, "
    "summed over CPUs, over elapsed time); most: that were ever seen inside; then the percentage "
    "of the time in which so many were inside"
)
_LOOKED = (
    "mean duration of a call by how many CPUs were inside at its entry, its own included; company: "
    "the share of the time that the calls would not have taken at the lowest of these, in brackets "
    f"where it may be chance. Below {FEWEST_CALLS} calls no mean is shown"
)


def lines(runs: Sequence[RunInfo], terminal: Terminal) -> Iterator[str]:
    """Yield the section."""
    data = merged(runs)
    yield from entry("read", _how(data), terminal)
    if not data.functions:
        yield "no traced function was called"
        return
    groups = _groups(data.cpus)
    yield from entry("columns", _READ, terminal)
    yield from _table(_TITLES + _heads(groups), [_inside(one, groups) for one in data.functions])
    yield from entry("columns", _LOOKED, terminal)
    rows = [_met(one, groups[1:], terminal) for one in data.functions if one.met]
    yield from _table(("calls", "company", *_heads(groups[1:])), rows)
    yield from entry("contended", _contended(data), terminal)


def as_json(runs: Sequence[RunInfo]) -> dict[str, Any]:
    """Return the object."""
    data = merged(runs)
    return {
        "cpus": data.cpus,
        "frequency_hz": data.frequency,
        "every": data.every,
        "readings": data.readings,
        "missed_readings": data.missed,
        "elapsed_ns": data.elapsed_ns,
        "lost": dict(data.lost),
        "functions": {one.name: _function_json(one) for one in data.functions},
    }


def _function_json(one: FunctionOccupancy) -> dict[str, Any]:
    excess = one.excess
    return {
        "mean": round(one.mean, 4),
        "mean_by_trace": round(one.by_trace, 4),
        "most": one.most,
        "inside": [list(pair) for pair in one.inside],
        "calls": one.calls,
        "on_cpu_ns": one.on_cpu_ns,
        "by_occupancy": [
            {
                "occupancy": met.occupancy,
                "calls": met.calls,
                "mean_ns": round(met.mean_ns, 1),
                "error_ns": round(met.error_ns, 1),
                "off_cpu_ns": met.off_cpu_ns,
            }
            for met in one.met
        ],
        "excess": None
        if excess is None
        else {
            "share": round(excess.share, 4),
            "error": round(excess.error, 4),
            "sure": excess.is_sure,
        },
    }


def _how(data: Occupancy) -> str:
    missed = f" ({data.missed:,} came too late)" if data.missed else ""
    return (
        f"{data.cpus} CPUs, {data.readings:,} times in {data.elapsed_ns / 1e9:.2f} s{missed}; "
        f"one call in {data.every} looked at its entry"
    )


def _contended(data: Occupancy) -> str:
    found = data.contended
    if not found:
        return "no function took longer in company, beyond chance"
    shown = [
        f"{sanitise(one.name)} ({100 * one.excess.share:.0f}% of its time)"
        for one in found[:3]
        if one.excess is not None
    ]
    return f"longer in company: {', '.join(shown)}"


# The tables.

_TITLES = ("mean", "trace", "most")
_Group = tuple[int, int]  # from and to which number of CPUs a column is


def _groups(cpus: int) -> list[_Group]:
    """Return the columns: one for each number of CPUs, of many as long as what lies below."""
    groups = [(count, count) for count in range(min(cpus, _SINGLE) + 1)]
    while groups[-1][1] < cpus:
        last = groups[-1][1]
        groups.append((last + 1, min(2 * last, cpus)))
    return groups


def _heads(groups: Sequence[_Group]) -> tuple[str, ...]:
    return tuple(str(low) if low == high else f"{low}-{high}" for low, high in groups)


def _inside(one: FunctionOccupancy, groups: Sequence[_Group]) -> tuple[str, ...]:
    whole = max(1, sum(ns for _, ns in one.inside))
    shares = [sum(ns for cpus, ns in one.inside if low <= cpus <= high) for low, high in groups]
    return (
        f"{one.mean:.2f}",
        f"{one.by_trace:.2f}",
        str(one.most),
        *(f"{100 * share / whole:.1f}" if share else NOTHING for share in shares),
        one.name,
    )


def _met(one: FunctionOccupancy, groups: Sequence[_Group], terminal: Terminal) -> tuple[str, ...]:
    excess = one.excess
    company = NOTHING
    if excess is not None:
        company = f"{100 * excess.share:.0f}%" if excess.is_sure else f"({100 * excess.share:.0f}%)"
    means = [
        _mean([met for met in one.met if low <= met.occupancy <= high]) for low, high in groups
    ]
    return (
        f"{sum(met.calls for met in one.met):,}",
        company,
        *(duration(mean, terminal.glyphs) for mean in means),
        one.name,
    )


def _mean(met: Sequence[Met]) -> float | None:
    calls = sum(one.calls for one in met)
    return sum(one.ns for one in met) / calls if calls >= FEWEST_CALLS else None


def _table(titles: Sequence[str], rows: Sequence[tuple[str, ...]]) -> Iterator[str]:
    """Yield rows whose last cell is a function's name, not filled up."""
    widths = [
        max(len(title), *(len(row[place]) for row in rows)) if rows else len(title)
        for place, title in enumerate(titles)
    ]
    head = "  ".join(title.rjust(width) for title, width in zip(titles, widths, strict=True))
    yield f"# {head}  function"
    for row in rows:
        cells = zip(row[:-1], widths, strict=True)
        yield f"  {'  '.join(cell.rjust(width) for cell, width in cells)}  {sanitise(row[-1])}"
