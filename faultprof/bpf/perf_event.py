"""perf events as the kernel offers them: open, bind to a BPF program, read, close.

Knows: perf_event_open(2), its attribute structure and its ioctls.
Leaves to others: which tasks to sample and what a refused event means to the user (capture).

bcc's own ``attach_perf_event`` is not used: it neither starts a counter at exec(2) nor gives
its counts and times back, and both are what makes the number of samples checkable.
"""

from __future__ import annotations

import ctypes
import fcntl
import os
import platform
import struct
from dataclasses import dataclass
from typing import Literal, NamedTuple, Self

# asm/unistd.h of each architecture.
_SYSCALL_NUMBER = {"x86_64": 298, "aarch64": 241, "ppc64le": 319, "s390x": 331, "riscv64": 241}

TYPE_HARDWARE = 0
TYPE_SOFTWARE = 1
HW_CPU_CYCLES = 0
SW_CPU_CLOCK = 0
SW_TASK_CLOCK = 1
SW_PAGE_FAULTS = 2
SW_PAGE_FAULTS_MIN = 5
SW_PAGE_FAULTS_MAJ = 6

Clock = Literal["cycles", "cpu-clock"]

CLOCK_EVENTS: dict[Clock, tuple[int, int]] = {
    "cycles": (TYPE_HARDWARE, HW_CPU_CYCLES),
    "cpu-clock": (TYPE_SOFTWARE, SW_CPU_CLOCK),
}
"""Type and config of what can drive a sampler, the best first."""

_FORMAT_TOTAL_TIME_ENABLED = 1 << 0
_FORMAT_TOTAL_TIME_RUNNING = 1 << 1

_FLAG_DISABLED = 1 << 0
_FLAG_INHERIT = 1 << 1
_FLAG_EXCLUDE_HV = 1 << 6
_FLAG_EXCLUDE_IDLE = 1 << 7
_FLAG_FREQ = 1 << 10
_FLAG_ENABLE_ON_EXEC = 1 << 12

_OPEN_CLOEXEC = 1 << 3

_IOC_ENABLE = 0x2400
_IOC_DISABLE = 0x2401
_IOC_SET_BPF = 0x40042408

ANY_CPU = -1
ALL_TASKS = -1


class _Attr(ctypes.Structure):
    """``struct perf_event_attr`` up to its fifth published size, known since Linux 4.1."""

    _fields_ = (
        ("type", ctypes.c_uint32),
        ("size", ctypes.c_uint32),
        ("config", ctypes.c_uint64),
        ("sample_freq", ctypes.c_uint64),
        ("sample_type", ctypes.c_uint64),
        ("read_format", ctypes.c_uint64),
        ("flags", ctypes.c_uint64),
        ("wakeup_events", ctypes.c_uint32),
        ("bp_type", ctypes.c_uint32),
        ("config1", ctypes.c_uint64),
        ("config2", ctypes.c_uint64),
        ("branch_sample_type", ctypes.c_uint64),
        ("sample_regs_user", ctypes.c_uint64),
        ("sample_stack_user", ctypes.c_uint32),
        ("clockid", ctypes.c_int32),
        ("sample_regs_intr", ctypes.c_uint64),
        ("aux_watermark", ctypes.c_uint32),
        ("sample_max_stack", ctypes.c_uint16),
        ("reserved", ctypes.c_uint16),
    )


class Count(NamedTuple):
    """What an event counted, over all that inherited it; times in nanoseconds."""

    value: int
    enabled_ns: int
    running_ns: int


@dataclass(frozen=True, slots=True)
class EventSpec:
    """An event to open: its kind, its sampling frequency in hertz (0: count only), its start.

    ``inherit``: children of the task are followed, however deep.
    ``start_on_exec``: the event starts when the task calls exec(2), as perf record does it.
    ``config1``: what some types look at besides, such as a kprobe's address of a function's name.
    """

    type: int
    config: int
    frequency: int = 0
    inherit: bool = False
    start_on_exec: bool = False
    exclude_idle: bool = False
    config1: int = 0

    def _flags(self) -> int:
        flags = _FLAG_DISABLED | _FLAG_EXCLUDE_HV
        if self.frequency:
            flags |= _FLAG_FREQ
        if self.inherit:
            flags |= _FLAG_INHERIT
        if self.start_on_exec:
            flags |= _FLAG_ENABLE_ON_EXEC
        if self.exclude_idle:
            flags |= _FLAG_EXCLUDE_IDLE
        return flags

    def attr(self) -> _Attr:
        """Return the kernel's structure for this event, disabled."""
        return _Attr(
            type=self.type,
            size=ctypes.sizeof(_Attr),
            config=self.config,
            sample_freq=self.frequency,
            read_format=_FORMAT_TOTAL_TIME_ENABLED | _FORMAT_TOTAL_TIME_RUNNING,
            flags=self._flags(),
            config1=self.config1,
        )


class PerfEvent:
    """One open event; closing it detaches its program."""

    def __init__(self, fd: int) -> None:
        self._fd = fd

    @classmethod
    def open(cls, spec: EventSpec, *, pid: int, cpu: int = ANY_CPU) -> Self:
        """Open ``spec`` for task ``pid`` (or ``ALL_TASKS``) on ``cpu`` (or ``ANY_CPU``).

        Raises:
            OSError: as perf_event_open(2); EINVAL also for a frequency above the kernel's limit.
        """
        attr = spec.attr()
        libc = ctypes.CDLL(None, use_errno=True)
        fd = libc.syscall(
            ctypes.c_long(_syscall_number()),
            ctypes.byref(attr),
            ctypes.c_int(pid),
            ctypes.c_int(cpu),
            ctypes.c_int(-1),
            ctypes.c_ulong(_OPEN_CLOEXEC),
        )
        if fd < 0:
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number), "perf_event_open")
        return cls(fd)

    def set_program(self, program_fd: int) -> None:
        """Run a loaded BPF program at each sample."""
        fcntl.ioctl(self._fd, _IOC_SET_BPF, program_fd)

    def enable(self) -> None:
        """Start the event now."""
        fcntl.ioctl(self._fd, _IOC_ENABLE, 0)

    def disable(self) -> None:
        """Stop the event, and those that children inherited from it."""
        fcntl.ioctl(self._fd, _IOC_DISABLE, 0)

    def read(self) -> Count:
        """Return the count so far, children's included."""
        return Count(*struct.unpack("=QQQ", os.read(self._fd, 24)))

    def close(self) -> None:
        """Close the event; safe to repeat."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


def _syscall_number() -> int:
    machine = platform.machine()
    number = _SYSCALL_NUMBER.get(machine)
    if number is None:
        raise OSError(0, f"the number of perf_event_open is not known for {machine}")
    return number
