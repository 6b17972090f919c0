"""What a recording is asked to be."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Literal

from faultprof.recording.contention import OCCUPANCY, PARTS

Mode = Literal["auto", "sample", "trace"]
Clock = Literal["auto", "cycles", "cpu-clock"]
Attach = Literal["auto", "kprobe", "fentry"]
Switch = Literal["auto", "on", "off"]


@dataclass(frozen=True, slots=True)
class RecordOptions:
    """What to record, how, and where to.

    Exactly one of ``command``, ``pid`` and ``everything`` gives the scope, but ``everything``
    may come with a command that says how long. ``duration`` is in seconds, ``frequency`` in hertz
    (None: what suits the mode). ``presets`` and ``functions`` name what is traced (none: the usual
    faults), ``mode`` auto leaves whether to ``capture.choice``. ``metrics`` are the numbers that
    are looked for in the output, as ``NAME=REGEX``. ``contention`` names the parts that are to be
    recorded besides, whatever it takes; with ``all_contention`` all others that can be had here.
    """

    default_frequency: ClassVar[int] = 999

    output: Path
    keep_old: bool = False
    command: tuple[str, ...] = ()
    pid: int | None = None
    everything: bool = False
    duration: float | None = None
    mode: Mode = "auto"
    frequency: int | None = None
    clock: Clock = "auto"
    max_stacks: int = 16384
    user_stacks: bool = False
    fault_labels: Switch = "auto"
    presets: tuple[str, ...] = ()
    functions: tuple[str, ...] = ()
    attach: Attach = "auto"
    off_cpu: bool = True
    calibrate: bool = True
    as_root: bool = False
    strict: bool = False
    metrics: tuple[str, ...] = ()
    contention: tuple[str, ...] = ()
    all_contention: bool = False

    @property
    def wants_trace(self) -> bool:
        """Whether something is asked for that only a trace can give."""
        asked = self.presets or self.functions or OCCUPANCY in self.contention
        return bool(asked) or self.attach != "auto"

    @property
    def contention_parts(self) -> tuple[str, ...]:
        """All parts of contention that are wanted, in the order of ``PARTS``."""
        return tuple(name for name in PARTS if self.all_contention or name in self.contention)

    def to_json(self) -> dict[str, Any]:
        """Return the options that shaped the data, for the recording's metadata."""
        return {
            "mode": self.mode,
            "frequency": self.frequency,
            "pid": self.pid,
            "everything": self.everything,
            "duration_s": self.duration,
            "max_stacks": self.max_stacks,
            "user_stacks": self.user_stacks,
            "fault_labels": self.fault_labels,
            "presets": list(self.presets),
            "functions": list(self.functions),
            "attach": self.attach,
            "off_cpu": self.off_cpu,
            "as_root": self.as_root,
            "metrics": list(self.metrics),
            "contention": list(self.contention_parts),
        }
