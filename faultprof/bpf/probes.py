"""Entry and return probes on kernel functions, always in pairs.

Knows: the two ways to attach (kprobe and kretprobe, fentry and fexit), the order in which a pair
is attached, and that half a pair is taken off again.
Leaves to others: which functions, and what the programs do (tracing); what outlives a killed
process (janitor).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal

from faultprof.bpf.program import Program, ProgramType, translated
from faultprof.bpf.syscall import recursion_misses
from faultprof.bpf.templates import Template
from faultprof.errors import FaultprofError, unsupported

Method = Literal["kprobe", "fentry"]
Side = Literal["entry", "exit"]

# Return probes that may be under way at one time. The kernel's own default, twice the number of
# CPUs, is used up as soon as more tasks than that sleep in a function.
_MAX_ACTIVE = 4096

_TEMPLATE = "template"

_ENTRY, _RETURN = 0, 1  # enum bpf_probe_attach_type of libbcc


@dataclass(frozen=True, slots=True)
class ProbePoint:
    """Where a probe goes: a symbol and bytes behind it."""

    symbol: str
    offset: int = 0

    def __str__(self) -> str:
        return f"{self.symbol}+{self.offset}" if self.offset else self.symbol


class ProbeSet:
    """All probes of one compiled program; closing it detaches them.

    Args:
        program: compiled with the templates of the methods that are used.
    """

    def __init__(self, program: Program) -> None:
        self._program = program
        self._undo: list[Callable[[], None]] = []
        self._loaded: list[tuple[str, int]] = []
        self._lib = program.lib
        self._templates = {
            kind: self._template(kind)
            for kind in ("enter_", "leave_", "kfunc__", "kretfunc__", "hit_")
        }

    def attach_pair(self, point: ProbePoint, method: Method, constants: Mapping[int, int]) -> None:
        """Probe a function's entry and its returns.

        The entry first: of programs at one address the newest runs first, so that the time
        which the return probe takes to arm itself is not the function's.

        Raises:
            FaultprofError: one of the two cannot be attached; then neither is.
        """
        before = len(self._undo)
        try:
            if method == "fentry":
                self._attach_fentry("kfunc__", point, constants)
                self._attach_fentry("kretfunc__", point, constants)
            else:
                self._attach_kprobe("enter_", point, constants, _ENTRY)
                self._attach_kprobe("leave_", point, constants, _RETURN)
        except FaultprofError:
            self._detach_down_to(before)
            raise

    def attach_side(
        self, point: ProbePoint, method: Method, side: Side, constants: Mapping[int, int]
    ) -> None:
        """Probe a function's entry, or its returns, alone.

        Raises:
            FaultprofError: it cannot be attached.
        """
        is_entry = side == "entry"
        if method == "fentry":
            self._attach_fentry("kfunc__" if is_entry else "kretfunc__", point, constants)
        elif is_entry:
            self._attach_kprobe("enter_", point, constants, _ENTRY)
        else:
            self._attach_kprobe("leave_", point, constants, _RETURN)

    def attach_hit(self, point: ProbePoint, constants: Mapping[int, int]) -> None:
        """Count how often an instruction is reached."""
        self._attach_kprobe("hit_", point, constants, _ENTRY)

    def misses(self) -> dict[str, int]:
        """Return by symbol how often the kernel skipped a program because it ran already.

        A program that is preempted still runs: while it waits, other tasks that hit it on the
        same CPU are skipped. Kprobe programs are never preempted, fentry programs can be.
        """
        misses: dict[str, int] = {}
        for symbol, fd in self._loaded:
            count = recursion_misses(fd)
            if count:
                misses[symbol] = misses.get(symbol, 0) + count
        return misses

    def close(self) -> None:
        """Detach all probes; safe to repeat."""
        self._detach_down_to(0)

    def _template(self, prefix: str) -> Template | None:
        # bcc versions differ in what stands between its prefix and the function's name.
        for name in self._program.functions():
            if name.startswith(prefix) and name.endswith(_TEMPLATE):
                return self._program.template(name)
        return None

    def _load(
        self,
        kind: str,
        point: ProbePoint,
        program_type: ProgramType,
        constants: Mapping[int, int],
    ) -> int:
        template = self._templates[kind]
        if template is None:
            raise ValueError(f"{self._program.name} was compiled without {kind} templates")
        name = template.function.removesuffix(_TEMPLATE) + point.symbol
        # A return has less to know than an entry: each template takes what it has a place for.
        wanted = {key: value for key, value in constants.items() if template.has(key)}
        fd = self._program.load_template(template, program_type, name, wanted)
        self._loaded.append((point.symbol, fd))
        self._undo.append(lambda: self._unload(point.symbol, fd))
        return fd

    def _unload(self, symbol: str, fd: int) -> None:
        self._loaded.remove((symbol, fd))
        os.close(fd)

    def _attach_fentry(self, kind: str, point: ProbePoint, constants: Mapping[int, int]) -> None:
        fd = self._load(kind, point, "tracing", constants)
        with translated(f"attach to {point.symbol}"):
            link = self._lib.bpf_attach_kfunc(fd)
            if link < 0:
                raise _not_attached(point, "fentry")
        self._undo.append(lambda: os.close(link))

    def _attach_kprobe(
        self, kind: str, point: ProbePoint, constants: Mapping[int, int], side: int
    ) -> None:
        fd = self._load(kind, point, "kprobe", constants)
        event = _event_name(kind, point)
        if side == _RETURN:
            # libbcc writes no offset into a kretprobe's definition, but passes the name on.
            where, offset, most = str(point), 0, _MAX_ACTIVE
        else:
            where, offset, most = point.symbol, point.offset, 0
        with translated(f"attach to {point}"):
            perf = self._lib.bpf_attach_kprobe(
                fd, side, event.encode(), where.encode(), offset, most
            )
            if perf < 0:
                raise _not_attached(point, "kprobe")
        self._undo.append(lambda: self._detach_kprobe(perf, event, side))

    def _detach_kprobe(self, perf: int, event: str, side: int) -> None:
        self._lib.bpf_close_perf_event_fd(perf)
        if side == _RETURN:  # went through tracefs, where its definition outlives it
            with translated(f"detach {event}"):
                self._lib.bpf_detach_kprobe(event.encode())

    def _detach_down_to(self, count: int) -> None:
        while len(self._undo) > count:
            self._undo.pop()()


def _event_name(kind: str, point: ProbePoint) -> str:
    words = f"faultprof_{kind}{point.symbol}_{point.offset}"
    return "".join(char if char.isalnum() else "_" for char in words)


def _not_attached(point: ProbePoint, method: Method) -> FaultprofError:
    return unsupported(
        f"{method} cannot attach to {point.symbol}",
        "see 'faultprof functions' for what can be traced here",
    )
