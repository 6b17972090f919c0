"""Occupancy: how many CPUs are inside a function at once, and what company does to its calls.

Knows: what the figures of the part mean (``capture.contention.occupancy`` says how they look), and
when durations that grow with the occupancy are more than chance.
Leaves to others: measuring; showing.

A function whose calls take the longer the more CPUs are inside is contended, whatever lock or cache
line is behind it. One whose calls take the same in company is not, however many are inside.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from faultprof.recording.contention import OCCUPANCY

if TYPE_CHECKING:
    from faultprof.recording.metadata import RunInfo

FEWEST_CALLS = 30
"""Calls at one occupancy from which on their mean duration is compared with others."""

_SURE = 3.0  # standard errors


@dataclass(frozen=True, slots=True)
class Met:
    """Calls that met the same occupancy at their entry.

    Attributes:
        occupancy: CPUs inside, the call's own included; of several that are added up, the highest.
        calls: how many looked.
        ns: what they took in all.
        off_cpu_ns: the part of it in which their tasks did not run.
        squares: sum of the squares of what each took, ns².
    """

    occupancy: int
    calls: int
    ns: int
    off_cpu_ns: int
    squares: int

    @property
    def mean_ns(self) -> float:
        """Mean duration of a call."""
        return self.ns / self.calls

    @property
    def error_ns(self) -> float:
        """Standard error of the mean."""
        variance = self.squares / self.calls - self.mean_ns**2
        return math.sqrt(max(0.0, variance) / self.calls)


@dataclass(frozen=True, slots=True)
class Excess:
    """The share of a function's time that it would not have taken alone, and its standard error."""

    share: float
    error: float

    @property
    def is_sure(self) -> bool:
        """Whether it is more than chance."""
        return self.share > _SURE * self.error


@dataclass(frozen=True, slots=True)
class FunctionOccupancy:
    """One function.

    Attributes:
        name: the function.
        inside: (CPUs, ns in which so many were inside), rising.
        met: by occupancy, rising.
        calls: all that returned, by the trace.
        on_cpu_ns: what these spent on CPUs.
        elapsed_ns: the time that the runs took.
    """

    name: str
    inside: tuple[tuple[int, int], ...]
    met: tuple[Met, ...]
    calls: int
    on_cpu_ns: int
    elapsed_ns: int

    @property
    def mean(self) -> float:
        """Mean number of CPUs inside, by the readings."""
        whole = sum(ns for _, ns in self.inside)
        return sum(cpus * ns for cpus, ns in self.inside) / whole if whole else 0.0

    @property
    def by_trace(self) -> float:
        """The same by the trace: time in the function, summed over CPUs, over elapsed time."""
        return self.on_cpu_ns / self.elapsed_ns if self.elapsed_ns else 0.0

    @property
    def most(self) -> int:
        """Most CPUs that were ever seen inside."""
        seen = [cpus for cpus, ns in self.inside if ns]
        return max([*seen, *(one.occupancy for one in self.met)], default=0)

    @property
    def excess(self) -> Excess | None:
        """What company costs, as a share of the time of the calls that looked.

        Against as many calls of the mean duration at the lowest occupancy. None where there is no
        such comparison: fewer than ``FEWEST_CALLS`` there or above.
        """
        enough = [one for one in self.met if one.calls >= FEWEST_CALLS]
        if len(enough) < 2:
            return None
        alone, ns = enough[0], sum(one.ns for one in enough)
        if not ns:
            return None
        calls = sum(one.calls for one in enough)
        # What the others' means are off by, and what the lowest one's error does to all.
        others = sum((one.calls * one.error_ns) ** 2 for one in enough[1:])
        baseline = (calls - alone.calls) * alone.error_ns
        return Excess(
            (ns - calls * alone.mean_ns) / ns, math.hypot(baseline, math.sqrt(others)) / ns
        )

    @property
    def lost_ns(self) -> float:
        """Time that company costs all calls; 0 where nothing is known of it."""
        return self.excess.share * self.on_cpu_ns if self.excess is not None else 0.0


@dataclass(frozen=True, slots=True)
class Occupancy:
    """All functions of some runs together.

    Attributes:
        cpus: that ran.
        frequency: readings a second that were due.
        every: of how many calls one looked, in the mean.
        readings: that were taken.
        missed: that were due, but came too late.
        elapsed_ns: the time that the runs took; the readings go on until all has been stopped, but
            nobody is inside any more.
        functions: by mean occupancy, falling.
        lost: counts by name.
    """

    cpus: int
    frequency: int
    every: int
    readings: int
    missed: int
    elapsed_ns: int
    functions: tuple[FunctionOccupancy, ...]
    lost: Mapping[str, int] = field(default_factory=dict)

    @property
    def contended(self) -> tuple[FunctionOccupancy, ...]:
        """The functions whose time grows with company beyond doubt, by time lost, falling."""
        found = [one for one in self.functions if one.excess is not None and one.excess.is_sure]
        return tuple(sorted(found, key=lambda one: -one.lost_ns))


def merged(infos: Iterable[RunInfo]) -> Occupancy:
    """Return what some runs have together.

    Args:
        infos: of runs that have the part, at least one.

    Raises:
        KeyError, TypeError, ValueError, AttributeError: that is not what the part writes.
    """
    infos = list(infos)
    runs = [info.contention[OCCUPANCY] for info in infos]
    elapsed = round(sum(info.wall_s for info in infos) * 1e9)
    names = dict.fromkeys(name for run in runs for name in run["functions"])
    functions = [
        _function(name, [run["functions"].get(name, {}) for run in runs], elapsed) for name in names
    ]
    lost = Counter[str]()
    for run in runs:
        lost.update({str(name): int(count) for name, count in run["lost"].items()})
    return Occupancy(
        cpus=max(int(run["cpus"]) for run in runs),
        frequency=int(runs[0]["frequency_hz"]),
        every=int(runs[0]["every"]),
        readings=sum(int(run["readings"]) for run in runs),
        missed=sum(int(run["missed_readings"]) for run in runs),
        elapsed_ns=elapsed,
        functions=tuple(sorted(functions, key=lambda one: -one.mean)),
        lost=dict(lost),
    )


def _function(name: str, runs: list[Mapping[str, Any]], elapsed_ns: int) -> FunctionOccupancy:
    """Add up one function's runs; those in which it was not called have nothing of it."""
    inside, met = Counter[int](), dict[int, list[int]]()
    for run in runs:
        for cpus, ns in run.get("inside", ()):
            inside[int(cpus)] += int(ns)
        for occupancy, *figures in run.get("calls", ()):
            before = met.get(int(occupancy), [0] * len(figures))
            met[int(occupancy)] = [a + int(b) for a, b in zip(before, figures, strict=True)]
    inside[0] = max(0, elapsed_ns - sum(ns for cpus, ns in inside.items() if cpus))
    traced = [run["traced"] for run in runs if run]
    return FunctionOccupancy(
        name=name,
        inside=tuple(sorted(inside.items())),
        met=tuple(Met(occupancy, *met[occupancy]) for occupancy in sorted(met)),
        calls=sum(int(one["calls"]) for one in traced),
        on_cpu_ns=sum(int(one["ns"]) for one in traced),
        elapsed_ns=elapsed_ns,
    )
