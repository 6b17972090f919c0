"""What a recording says about itself: the machine, the command, its runs, the quality ledger.

Knows: the JSON that stands in a recording's file metadata, in both directions.
Leaves to others: finding the facts out (``capture``, ``kernel``) and storing them (``writer``).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from typing import Any

from faultprof import __version__
from faultprof.recording.ledger import Ledger
from faultprof.recording.said import UsememReport
from faultprof.recording.schema import SCHEMA_VERSION

IMPORT = "import"  # the mode of a recording that was made of another tool's text


@dataclass(frozen=True, slots=True)
class KernelInfo:
    """The measured kernel: ``uname -r``, build id in hex ("" unknown), ``uname -m``."""

    release: str
    build_id: str = ""
    machine: str = ""

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> KernelInfo:
        """Rebuild from the object under ``kernel``."""
        return cls(
            str(data["release"]), str(data.get("build_id", "")), str(data.get("machine", ""))
        )


@dataclass(frozen=True, slots=True)
class CpuInfo:
    """The processor's model name ("" unknown) and how many CPUs were online (0 unknown)."""

    model: str = ""
    count: int = 0

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> CpuInfo:
        """Rebuild from the object under ``cpu``."""
        return cls(str(data.get("model", "")), int(data.get("count", 0)))


@dataclass(frozen=True, slots=True)
class RunInfo:
    """One execution of the command.

    Args:
        index: number of the run, from 0; rows of the recording refer to it.
        exit_status: the command's status (128+n for a signal); None when nothing was run (-p, -a).
        wall_s: seconds from the command's start to its end, or the time that was recorded.
        user_s: CPU seconds in user mode, all descendants together.
        sys_s: CPU seconds in the kernel, all descendants together.
        samples: samples taken in this run.
        on_cpu_s: seconds that the recorded tasks spent on CPUs, by the kernel's accounting; None
            when it is not known.
        metrics: what the run said about itself, by name, such as ``usemem.throughput``; numbers.
        usemem: usemem's report line by line, in the order in which its tasks printed it.
        contention: what each recorded part of contention has, by its name (``contention.PARTS``);
            the modules of ``analysis.contention`` say what that is.
    """

    index: int
    exit_status: int | None = None
    wall_s: float = 0.0
    user_s: float = 0.0
    sys_s: float = 0.0
    samples: int = 0
    on_cpu_s: float | None = None
    metrics: Mapping[str, float] = field(default_factory=dict)
    usemem: UsememReport = field(default_factory=UsememReport)
    contention: Mapping[str, Any] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """Return plain data; no ``usemem`` and ``contention`` where there is nothing of it."""
        data = asdict(self)
        for name, part in (("usemem", self.usemem), ("contention", self.contention)):
            if not part:
                del data[name]
        if self.usemem:
            data["usemem"] = self.usemem.to_json()
        return data

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> RunInfo:
        """Rebuild from one element of ``runs``."""
        status, on_cpu_s = data.get("exit_status"), data.get("on_cpu_s")
        return cls(
            index=int(data["index"]),
            exit_status=None if status is None else int(status),
            wall_s=float(data.get("wall_s", 0.0)),
            user_s=float(data.get("user_s", 0.0)),
            sys_s=float(data.get("sys_s", 0.0)),
            samples=int(data.get("samples", 0)),
            on_cpu_s=None if on_cpu_s is None else float(on_cpu_s),
            metrics={str(name): float(value) for name, value in data.get("metrics", {}).items()},
            usemem=UsememReport.from_json(data.get("usemem", {})),
            contention={str(name): one for name, one in data.get("contention", {}).items()},
        )


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


@dataclass(frozen=True, slots=True, kw_only=True)
class Metadata:
    """Everything that a recording holds besides its rows.

    Args:
        command: argument vector; empty when nothing was run (-p, -a).
        kernel: the kernel that was measured.
        mode: ``sample``; ``trace``, which has samples beside it; or ``import``.
        clock: what drove the sampler: ``cycles`` or ``cpu-clock``; "" without a sampler. Of an
            imported text its event, whichever it was, "" where it names none.
        frequency: samples per second and CPU that were asked for; 0 without a sampler.
        runs: the executions, in order.
        ledger: what was lost.
        host: name of the machine.
        cpu: its processors.
        options: the recorder's options by name, as given; plain JSON values.
        functions: how each logical function was found: ``{name: {"resolution", "symbol", ...}}``.
        calibration: what probes cost here; None when none were in place.
        imported: of an imported text: where it came from, what became of its lines, its tables
            (``file``, ``format``, ``lines``, ``unread``, ``tables``, ...); None of a measurement.
        created: when the recording was begun, ISO 8601, UTC.
        tool_version: version of faultprof that wrote it.
        schema_version: version of the file's layout.
    """

    command: tuple[str, ...]
    kernel: KernelInfo
    mode: str
    clock: str
    frequency: int
    runs: tuple[RunInfo, ...]
    ledger: Ledger
    host: str = ""
    cpu: CpuInfo = field(default_factory=CpuInfo)
    options: Mapping[str, Any] = field(default_factory=dict)
    functions: Mapping[str, Any] = field(default_factory=dict)
    calibration: Mapping[str, Any] | None = None
    imported: Mapping[str, Any] | None = None
    created: str = field(default_factory=_now)
    tool_version: str = __version__
    schema_version: int = SCHEMA_VERSION

    def to_json(self) -> dict[str, Any]:
        """Return plain data, ready for ``json.dumps``."""
        return {
            "schema_version": self.schema_version,
            "tool_version": self.tool_version,
            "created": self.created,
            "host": self.host,
            "kernel": asdict(self.kernel),
            "cpu": asdict(self.cpu),
            "command": list(self.command),
            "options": dict(self.options),
            "mode": self.mode,
            "clock": self.clock,
            "frequency": self.frequency,
            "runs": [run.to_json() for run in self.runs],
            "functions": dict(self.functions),
            "calibration": self.calibration,
            "ledger": self.ledger.to_json(),
            **({} if self.imported is None else {"imported": dict(self.imported)}),
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Metadata:
        """Rebuild from :meth:`to_json`; unknown keys are ignored.

        Raises:
            KeyError, TypeError, ValueError, AttributeError: when ``data`` has another shape.
        """
        return cls(
            schema_version=int(data["schema_version"]),
            tool_version=str(data["tool_version"]),
            created=str(data["created"]),
            host=str(data.get("host", "")),
            kernel=KernelInfo.from_json(data["kernel"]),
            cpu=CpuInfo.from_json(data.get("cpu", {})),
            command=tuple(str(word) for word in data["command"]),
            options=dict(data.get("options", {})),
            mode=str(data["mode"]),
            clock=str(data["clock"]),
            frequency=int(data["frequency"]),
            runs=tuple(RunInfo.from_json(run) for run in data["runs"]),
            functions=dict(data.get("functions", {})),
            calibration=data.get("calibration"),
            imported=data.get("imported"),
            ledger=Ledger.from_json(data["ledger"]),
        )
