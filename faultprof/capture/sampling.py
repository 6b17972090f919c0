"""The sampling engine: a BPF program on a timer that counts stacks.

Knows: when its timers run, the layout of probes/sample.bpf.c's keys, what its counters mean.
Leaves to others: which tasks (scope), names for addresses (paths), when to stop (wait).
"""

from __future__ import annotations

import os
import resource
from contextlib import ExitStack, closing
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from faultprof.bpf.perf_event import SW_TASK_CLOCK, Clock
from faultprof.bpf.program import Program
from faultprof.capture.scope import Scope, TaskCounter
from faultprof.capture.timers import Timers
from faultprof.errors import FaultprofError
from faultprof.kernel.cpus import online_cpus

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

KERNEL_DEPTH = 127
USER_DEPTH = 32

# A stack takes about 1.1 KB of kernel memory, 2.1 KB with its user part.
_MOST_STACKS = 1 << 20

# enum stat of the program.
_STATS = ("runs", "no_kernel_stack", "truncated", "map_full", "map_busy", "keys")

_RATE_LIMIT = Path("/proc/sys/kernel/perf_event_max_sample_rate")


@dataclass(frozen=True, slots=True)
class SamplingOptions:
    """How to sample: hertz, clock, distinct stacks that the map holds, what else to take."""

    frequency: int
    clock: Clock
    max_stacks: int
    user_stacks: bool
    fault_labels: bool


@dataclass(frozen=True, slots=True)
class Samples:
    """What the kernel counted in one run.

    Attributes:
        keys: structured array, one row a distinct stack, fields of :func:`key_dtype`.
        counts: samples of each.
        stats: the program's own counters, by the names in ``_STATS``.
        on_cpu_s: seconds that the recorded tasks ran, by the kernel's clock of each task; None
            when every task was recorded.
    """

    keys: npt.NDArray[np.void]
    counts: npt.NDArray[np.uint64]
    stats: dict[str, int]
    on_cpu_s: float | None


def key_dtype(user_stacks: bool) -> np.dtype[np.void]:
    """Return the layout of ``struct stack_key`` in probes/sample.bpf.c."""
    import numpy as np

    fields: list[tuple[str, object] | tuple[str, object, tuple[int, ...]]] = [
        ("comm", "S16"),
        ("kernel_depth", "u4"),
        ("fault", "u4"),
        ("kernel", "u8", (KERNEL_DEPTH,)),
    ]
    if user_stacks:
        frame = [("status", "i4"), ("build_id", "V20"), ("offset", "u8")]
        fields += [("user_depth", "u8"), ("user", frame, (USER_DEPTH,))]
    return np.dtype(fields)


def check_frequency(frequency: int) -> None:
    """Refuse a frequency that this kernel would refuse.

    Raises:
        FaultprofError: below 1 Hz or above kernel.perf_event_max_sample_rate.
    """
    if frequency < 1:
        raise FaultprofError(
            f"a frequency of {frequency} Hz takes no samples", "give -F 1 or more, e.g. -F 999"
        )
    try:
        limit = int(_RATE_LIMIT.read_text())
    except (OSError, ValueError):
        return  # the kernel will say it when the event is opened
    if frequency > limit:
        raise FaultprofError(
            f"{frequency} Hz is above this kernel's limit of {limit} Hz",
            f"give -F {limit} or less, or raise kernel.perf_event_max_sample_rate with sysctl",
        )


def check_max_stacks(count: int) -> None:
    """Refuse a stack map that is empty or would take gigabytes of kernel memory."""
    if not 1 <= count <= _MOST_STACKS:
        raise FaultprofError(
            f"a map of {count} stacks cannot be made", f"give --max-stacks 1 to {_MOST_STACKS}"
        )


class Sampler:
    """Compiled and loaded, its timers opened but not started; frees everything when closed."""

    def __init__(self, scope: Scope, options: SamplingOptions) -> None:
        self._scope = scope
        self._options = options
        with ExitStack() as undo:
            program = Program("sample.bpf.c", self._knobs(), lent=scope.lent_maps())
            self._program = undo.enter_context(program)
            function = self._program.load("on_sample", "perf_event")
            if options.fault_labels:
                self._attach_labels()
            scope.attach(self._program)
            self._clock = TaskCounter(scope, SW_TASK_CLOCK)
            undo.callback(lambda: self._clock.close())  # the last run's
            self._timers = undo.enter_context(
                closing(Timers(function, options.clock, options.frequency, online_cpus()))
            )
            self._undo = undo.pop_all()

    def start(self) -> None:
        """Start the timers; a held command is sampled from its exec(2) on."""
        self._scope.start(self._program)
        self._timers.start()

    def stop(self) -> Samples:
        """Stop sampling and return what was counted."""
        self._timers.stop()
        clock = self._clock.read()
        on_cpu_s = clock.running_ns / 1e9 if clock is not None else None
        keys, counts = self._program.read_hash("counts")
        stats = dict(zip(_STATS, self._program.read_counters("stats"), strict=True))
        stats["lost_tasks"] = self._scope.stop(self._program)
        return Samples(keys.view(key_dtype(self._options.user_stacks)), counts, stats, on_cpu_s)

    def peek(self) -> Samples:
        """Return what has been counted so far, while it goes on; without the tasks' own clock."""
        keys, counts = self._program.read_hash("counts")
        stats = dict(zip(_STATS, self._program.read_counters("stats"), strict=True))
        return Samples(keys.view(key_dtype(self._options.user_stacks)), counts, stats, None)

    def go_on(self) -> None:
        """Forget what was counted, after :meth:`stop`, and sample the same tasks again."""
        self._clock.restart()
        self._program.clear("counts")
        self._program.zero("stats", range(len(_STATS)))
        self._scope.resume(self._program)
        self._timers.start()

    def costs(self) -> tuple[int, int]:
        """Return how often the programs have run, and for how many ns, while that was measured."""
        return self._program.costs()

    def next_run(self, scope: Scope) -> None:
        """Forget what was counted, after :meth:`stop`, and sample other tasks from now on."""
        self._scope = scope
        scope.move_to(self._program)
        self._clock.close()
        self._clock = TaskCounter(scope, SW_TASK_CLOCK)
        self._program.clear("counts")
        self._program.zero("stats", range(len(_STATS)))

    def lend_scope(self) -> Scope:
        """Return the scope for an engine beside this one, so that tasks are followed once.

        Where this one borrows it, too, the lender remains who it is.
        """
        if self._scope.lender is not None:
            return self._scope
        return self._scope.borrowed(self._program)

    def close(self) -> None:
        """Detach and free everything; safe to repeat."""
        self._undo.close()

    def _knobs(self) -> dict[str, int]:
        return {
            **self._scope.knobs(),
            "MAX_STACKS": self._options.max_stacks,
            "USER_STACKS": int(self._options.user_stacks),
            "FAULT_LABELS": int(self._options.fault_labels),
            "FAULT_WRITE_BIT": fault_write_bit() or 0,
        }

    def _attach_labels(self) -> None:
        for tracepoint in ("page_fault_user", "page_fault_kernel"):
            self._program.attach_raw_tracepoint(tracepoint, "on_fault")


def fault_write_bit() -> int | None:
    """Return the bit that says "write" in the error code of exceptions:page_fault_*.

    None where the architecture has no such tracepoints or we do not know their code. x86: bit 1
    (Intel SDM volume 3, 4.7).
    """
    return {"x86_64": 2}.get(os.uname().machine)


def allow_many_events() -> None:
    """Raise the limit of open files to what is allowed: one event a thread or CPU is needed."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
