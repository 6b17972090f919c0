"""What probes cost on a machine, as a calibration found it.

Knows: what a calibration consists of, how repeated measurements become one cost with an interval,
and its JSON: a recording's metadata holds it, and so does the user's cache.
Leaves to others: measuring (``capture.calibration``), subtracting (``analysis.compensation``).

A loop that is repeated many times has a shortest time that belongs to the code and longer ones that
belong to interrupts, a hypervisor and cold caches. The cost is the minimum. Its interval reaches up
to what 95 of 100 repeats stayed below, since a recording's own hits meet the same disturbances; and
down by the distance between the two shortest, by which the minimum may yet have been missed.

That is the least that a probe costs. What it costs in use, between other code, is more; a pair is
measured on the fault path too.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from typing import Any, NamedTuple

from faultprof import __version__
from faultprof.errors import FaultprofError, bad_recording
from faultprof.recording.metadata import CpuInfo, KernelInfo

_MOST_KINDS = 1_000


HIT = "count-only"
"""A kprobe that counts how often an instruction is reached."""

# What a pair's cost depends on beside how it is attached; stands behind the method.
CONDITION = "+condition"  # tells an inlined function by a condition
FAULT_FLAGS = "+fault"  # looks at a fault's flags
OCCUPANCY = "+occupancy"  # notes what its CPU is inside of; may come behind another one

SWITCH = "tracepoint"  # a context switch while the time off the CPU is recorded
SAMPLE = "sample"  # a sample of the stack


class Cost(NamedTuple):
    """A time in nanoseconds and its interval."""

    value: float
    low: float
    high: float

    def to_json(self) -> dict[str, float]:
        """Return plain data; a hundredth of a nanosecond is the last digit."""
        return {name: round(figure, 2) for name, figure in self._asdict().items()}


FREE = Cost(0, 0, 0)


def shortest(values: Sequence[float]) -> Cost:
    """Return the cost that repeated measurements (at least one) show, see above."""
    ordered = sorted(values)
    last = len(ordered) - 1
    least, next_to_it, highest = ordered[0], ordered[min(1, last)], ordered[int(0.95 * last + 0.5)]
    return Cost(least, 2 * least - next_to_it, highest)


@dataclass(frozen=True, slots=True)
class Parts:
    """Where the time of one pair goes; nanoseconds, each the shortest that was seen."""

    entry_to_clock: float
    clock_to_body: float
    body_to_clock: float
    clock_to_return: float


@dataclass(frozen=True, slots=True)
class Measured:
    """One kind of probe with so many threads hitting it at once.

    Args:
        kind: ``kprobe`` or ``fentry`` for a pair, with a feature behind it; or one of the constants
            above.
        threads: how many, each on a CPU of its own.
        repeats: how often it was measured.
        total_ns: all of one hit, or of one entry and return.
        inside_ns: the part inside the function's own interval; None where there is none.
        parts: the four parts of a pair; None where they were not told apart.
        in_place_ns: all of a pair on the fault path; None where it was not measured there.
    """

    kind: str
    threads: int
    repeats: int
    total_ns: Cost
    inside_ns: Cost | None = None
    parts: Parts | None = None
    in_place_ns: Cost | None = None

    @property
    def outside_ns(self) -> Cost:
        """What of a hit is not inside."""
        inside = self.inside_ns or FREE
        total = self.total_ns
        value = total.value - inside.value
        # Each bound from the same end: a slow repeat is slow in both parts.
        return Cost(value, min(value, total.low - inside.low), max(value, total.high - inside.high))

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Measured:
        """Rebuild from an element of ``probes``."""
        inside, parts, place = (data.get(f"{name}_ns") for name in ("inside", "parts", "in_place"))
        return cls(
            str(data["kind"]),
            int(data["threads"]),
            int(data["repeats"]),
            _cost(data["total_ns"]),
            None if inside is None else _cost(inside),
            None if parts is None else Parts(**{k: float(v) for k, v in parts.items()}),
            None if place is None else _cost(place),
        )

    def to_json(self) -> dict[str, Any]:
        """Return plain data."""
        return {
            "kind": self.kind,
            "threads": self.threads,
            "repeats": self.repeats,
            "total_ns": self.total_ns.to_json(),
            "inside_ns": None if self.inside_ns is None else self.inside_ns.to_json(),
            "outside_ns": self.outside_ns.to_json(),
            "parts_ns": None if self.parts is None else asdict(self.parts),
            "in_place_ns": None if self.in_place_ns is None else self.in_place_ns.to_json(),
        }


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


@dataclass(frozen=True, slots=True, kw_only=True)
class Calibration:
    """What probes cost on one machine.

    Args:
        kernel, cpu: the machine.
        measured: by kind and number of threads.
        missing: why a kind was not measured.
        created: when, ISO 8601, UTC.
        tool_version: by which version of faultprof.
    """

    kernel: KernelInfo
    cpu: CpuInfo
    measured: tuple[Measured, ...]
    missing: Mapping[str, str] = field(default_factory=dict)
    created: str = field(default_factory=_now)
    tool_version: str = __version__

    def fits(self, kernel: KernelInfo, cpu: CpuInfo) -> bool:
        """Whether it was taken on such a machine, by this version."""
        return (
            self.tool_version == __version__
            and self.kernel.build_id == kernel.build_id
            and self.cpu.model == cpu.model
        )

    def has(self, kinds: Iterable[str], threads: int = 1) -> bool:
        """Whether these kinds were measured, or found to be missing."""
        known = {one.kind for one in self.measured if one.threads == threads} | set(self.missing)
        return set(kinds) <= known

    def to_json(self) -> dict[str, Any]:
        """Return plain data, ready for ``json.dumps``."""
        return {
            "tool_version": self.tool_version,
            "created": self.created,
            "kernel": asdict(self.kernel),
            "cpu": asdict(self.cpu),
            "probes": [one.to_json() for one in self.measured],
            "missing": dict(self.missing),
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Calibration:
        """Rebuild from :meth:`to_json`.

        Raises:
            KeyError, TypeError, ValueError, AttributeError: when ``data`` has another shape.
        """
        probes = data["probes"]
        if len(probes) > _MOST_KINDS:
            raise ValueError("no machine has so many kinds of probes")
        return cls(
            kernel=KernelInfo.from_json(data["kernel"]),
            cpu=CpuInfo.from_json(data["cpu"]),
            measured=tuple(Measured.from_json(one) for one in probes),
            missing={str(kind): str(why) for kind, why in data.get("missing", {}).items()},
            created=str(data["created"]),
            tool_version=str(data["tool_version"]),
        )


def calibration_of(stored: Mapping[str, Any] | None) -> Calibration | None:
    """Return the calibration that a recording's metadata holds; None when it holds none.

    Raises:
        FaultprofError: exit code 4, when it is damaged.
    """
    if stored is None:
        return None
    try:
        return Calibration.from_json(stored)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise _damaged(error) from error


def _damaged(error: Exception) -> FaultprofError:
    return bad_recording(
        f"the recording's calibration is damaged ({type(error).__name__}: {error})",
        "record again",
    )


def _cost(data: Mapping[str, Any]) -> Cost:
    value, low, high = (float(data[key]) for key in ("value", "low", "high"))
    if not abs(value) + abs(low) + abs(high) < 1e15:  # false of nan as well
        raise ValueError("a cost out of all reason")
    return Cost(value, low, high)
