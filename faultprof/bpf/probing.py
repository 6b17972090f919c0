"""Trying what a kernel offers: each attempt does the thing for a moment, and undoes it.

Knows: the smallest programs and events that tell whether a feature works.
Leaves to others: what an outcome means to the user (``capture.doctor``).

The attempts at the kernel's own features speak to the kernel directly, so that they also tell
what is there when bcc is not. Nothing stays attached: every attempt closes what it opened.
"""

from __future__ import annotations

import ctypes
import errno
import mmap
import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from faultprof.bpf import syscall
from faultprof.bpf.bcc_package import BccPackage, find_bcc
from faultprof.bpf.perf_event import (
    CLOCK_EVENTS,
    Clock,
    EventSpec,
    PerfEvent,
)
from faultprof.bpf.program import Program
from faultprof.bpf.syscall import ProgramType, instruction
from faultprof.errors import FaultprofError, unsupported
from faultprof.kernel.btf_types import BtfTypes
from faultprof.kernel.files import ROOT, read_int
from faultprof.kernel.tracefs import TRACEPOINT_GROUPS

# Attachable wherever anything is (FIELD.md, section 1), and hit by each page that is touched.
TARGET = "handle_mm_fault"

_TRIAL_FREQUENCY = 99
_CLOCK_PATIENCE_NS = 5_000_000
_PAGES_TOUCHED = 16

# Codes and numbers of linux/bpf.h.
_EXIT = instruction(0x95)
_HELPER_PROBE_READ_KERNEL = 113


def _return(value: int) -> bytes:
    return instruction(0xB7, dst=0, immediate=value) + _EXIT


# A perf event counts only those hits for which its program returns other than 0.
_COUNTED = _return(1)
_NOTHING = _return(0)
_READ_KERNEL_MEMORY = (
    instruction(0xBF, dst=1, src=10)  # r1 = frame pointer
    + instruction(0x07, dst=1, immediate=-8)  # r1 -= 8: where to
    + instruction(0xB7, dst=2, immediate=8)  # r2 = 8 bytes
    + instruction(0xB7, dst=3, immediate=0)  # r3 = where from; never run, any will do
    + instruction(0x85, immediate=_HELPER_PROBE_READ_KERNEL)
    + _NOTHING
)


@dataclass(frozen=True, slots=True)
class Attempt:
    """The outcome of trying something: it worked, or the reason why not.

    ``error`` is the kernel's error number, 0 where the failure did not come from the kernel.
    """

    works: bool
    reason: str = ""
    error: int = 0

    @property
    def not_permitted(self) -> bool:
        """Whether the kernel refused this process, whatever it may offer to others."""
        return self.error in (errno.EPERM, errno.EACCES)


class _UnusableError(Exception):
    """It did not come to a refusal by the kernel: a part is missing, or does not do its work."""


@dataclass(frozen=True, slots=True)
class Attempts:
    """Everything that was tried.

    Attributes:
        bpf: load a program that samples.
        read_kernel: load a program that reads kernel memory (forbidden by lockdown).
        clocks: for each event to sample with, whether it counts.
        kprobe: attach at :data:`TARGET` and see hits.
        fentry: attach at :data:`TARGET`.
        tracepoints: attach, by name.
        bcc_package: which bcc this Python imports.
        bcc: compile and load with bcc.
        bcc_fentry: the same with an fentry program, attached.
    """

    bpf: Attempt
    read_kernel: Attempt
    clocks: dict[Clock, Attempt]
    kprobe: Attempt
    fentry: Attempt
    tracepoints: dict[str, Attempt]
    bcc_package: BccPackage
    bcc: Attempt
    bcc_fentry: Attempt


def try_everything(sysroot: Path = ROOT) -> Attempts:
    """Try all features; ``sysroot`` is only where /sys tells what an attempt must know."""
    fentry = try_fentry(sysroot)
    package = find_bcc(sysroot)
    bcc, bcc_fentry = _try_bcc(package, fentry, sysroot)
    return Attempts(
        bpf=_attempt(_load_sampler),
        read_kernel=_attempt(_load_reader),
        clocks={clock: try_clock(clock) for clock in CLOCK_EVENTS},
        kprobe=try_kprobe(sysroot),
        fentry=fentry,
        tracepoints={
            name: _attempt(partial(_attach_tracepoint, name))
            for group in TRACEPOINT_GROUPS
            for name in group.names
        },
        bcc_package=package,
        bcc=bcc,
        bcc_fentry=bcc_fentry,
    )


def sampling_clock() -> Clock:
    """Return the best event to sample with: ``cycles`` where it counts, else ``cpu-clock``.

    Raises:
        FaultprofError: neither counts (exit code 3).
    """
    for clock in CLOCK_EVENTS:
        outcome = try_clock(clock)
        if outcome.works:
            return clock
    hint = "see 'faultprof doctor'"
    raise unsupported(f"no perf event to sample with: {outcome.reason}", hint)


def try_clock(clock: Clock) -> Attempt:
    """Try to count with an event; some virtual machines open ``cycles`` and never count it."""
    return _attempt(partial(_count, clock))


def try_kprobe(sysroot: Path = ROOT) -> Attempt:
    """Try to attach a kprobe and to see it hit; they can be switched off while they attach."""
    return _attempt(partial(_hit_kprobe, sysroot))


def try_fentry(sysroot: Path = ROOT) -> Attempt:
    """Try to attach an fentry program."""
    return _attempt(partial(_attach_fentry, sysroot))


def try_kprobe_multi() -> Attempt:
    """Try whether many kprobes can be attached at once (Linux 5.18, with fprobe)."""
    return _attempt(_link_kprobes)


def _attempt(action: Callable[[], None]) -> Attempt:
    try:
        action()
    except _UnusableError as error:
        return Attempt(False, str(error))
    except OSError as error:
        text = error.strerror or str(error)
        name = errno.errorcode.get(error.errno or 0)
        return Attempt(False, f"{text} ({name})" if name else text, error.errno or 0)
    return Attempt(True)


def _load_sampler() -> None:
    with syscall.loaded(ProgramType.PERF_EVENT, _COUNTED):
        pass


def _load_reader() -> None:
    with syscall.loaded(ProgramType.KPROBE, _READ_KERNEL_MEMORY):
        pass


def _count(clock: Clock) -> None:
    kind, config = CLOCK_EVENTS[clock]
    event = PerfEvent.open(EventSpec(kind, config, _TRIAL_FREQUENCY), pid=0)
    try:
        event.enable()
        deadline = time.monotonic_ns() + _CLOCK_PATIENCE_NS
        while event.read().value == 0:
            if time.monotonic_ns() > deadline:
                raise _UnusableError(f"the {clock} event opens but does not count")
    finally:
        event.close()


def _hit_kprobe(sysroot: Path) -> None:
    kind = read_int(sysroot / "sys/bus/event_source/devices/kprobe/type")
    if kind is None:
        raise _UnusableError("this kernel has no kprobe events")
    name = ctypes.create_string_buffer(TARGET.encode())  # must outlive the call that opens it
    with syscall.loaded(ProgramType.KPROBE, _COUNTED) as program:
        event = PerfEvent.open(EventSpec(kind, 0, config1=ctypes.addressof(name)), pid=0)
        try:
            event.set_program(program)
            event.enable()
            _touch_pages()
            if event.read().value == 0:
                raise _UnusableError(
                    "attaches, but is not hit (/sys/kernel/debug/kprobes/enabled?)"
                )
        finally:
            event.close()


def _link_kprobes() -> None:
    # Nothing is attached: a kernel that can do it only finds no such function.
    kind, how = ProgramType.KPROBE, syscall.ATTACH_KPROBE_MULTI
    with syscall.loaded(kind, _NOTHING, attach_type=how) as program:
        try:
            os.close(syscall.link_kprobes(program, {"": 0}, returns=False))
        except OSError as error:
            if error.errno not in (errno.ESRCH, errno.ENOENT):
                raise


def _attach_fentry(sysroot: Path) -> None:
    with (
        syscall.loaded(
            ProgramType.TRACING,
            _NOTHING,
            attach_type=syscall.ATTACH_FENTRY,
            attach_btf_id=_target_id(sysroot),
        ) as program,
        syscall.attached_raw_tracepoint(program, None),
    ):
        pass


def _attach_tracepoint(name: str) -> None:
    with (
        syscall.loaded(ProgramType.RAW_TRACEPOINT, _NOTHING) as program,
        syscall.attached_raw_tracepoint(program, name),
    ):
        pass


def _try_bcc(package: BccPackage, fentry: Attempt, sysroot: Path) -> tuple[Attempt, Attempt]:
    """Try bcc without and with fentry; compiling takes long, so the latter alone where it works."""
    if package.version is None:
        absent = Attempt(False, f"no bcc: {package.reason}")
        return absent, absent
    if fentry.works:
        with_fentry = _compile_and_load(sysroot, fentry=True)
        if with_fentry.works:
            return with_fentry, with_fentry
    else:
        with_fentry = Attempt(False, "this kernel has no fentry")
    return _compile_and_load(sysroot, fentry=False), with_fentry


def _compile_and_load(sysroot: Path, *, fentry: bool) -> Attempt:
    try:
        with Program("feature.bpf.c", {"FENTRY": int(fentry)}, use_cache=False) as program:
            program.load("on_sample", "perf_event")
            if fentry:
                _attach_compiled_fentry(program, sysroot)
    except (FaultprofError, OSError, _UnusableError) as error:
        return Attempt(False, str(error))
    return Attempt(True)


def _attach_compiled_fentry(program: Program, sysroot: Path) -> None:
    # bcc versions differ in what they put before the target's name.
    function = next(name for name in program.functions() if name.endswith(TARGET))
    fd = program.load_copy(function, "fentry", name=TARGET, target=_target_id(sysroot))
    try:
        with syscall.attached_raw_tracepoint(fd, None):
            pass
    finally:
        os.close(fd)


def _target_id(sysroot: Path) -> int:
    types = BtfTypes.read(sysroot)
    target = types.function_id(TARGET) if types is not None else None
    if target is None:
        raise _UnusableError(f"BTF does not name {TARGET}")
    return target


def _touch_pages() -> None:
    """Take some page faults, whatever the size of huge pages."""
    size = os.sysconf("SC_PAGE_SIZE")
    for _ in range(_PAGES_TOUCHED):
        with mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS) as page:
            page[0] = 1
