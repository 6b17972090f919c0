"""Entry and return probes on kernel functions, always in pairs.

Knows: the ways to attach (kprobe and kretprobe, one by one or many at once; fentry and fexit), the
order in which a pair is attached, that half a pair is taken off again, and how many hits the
kernel says that it skipped.
Leaves to others: which functions, and what the programs do (tracing); what outlives a killed
process (janitor).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal

from faultprof.bpf import syscall
from faultprof.bpf.compiler import import_bcc, translated
from faultprof.bpf.janitor import missed_events_of
from faultprof.bpf.program import Kind, Program, added_costs
from faultprof.errors import FaultprofError, unsupported

Method = Literal["kprobe", "fentry"]
Side = Literal["entry", "exit"]

# Return probes that may be under way at one time. The kernel's own default, twice the number of
# CPUs, is used up as soon as more tasks than that sleep in a function.
_MAX_ACTIVE = 4096

_TEMPLATE = "template"

_FENTRY: dict[Side, tuple[str, Kind]] = {
    "entry": ("kfunc__", "fentry"),
    "exit": ("kretfunc__", "fexit"),
}

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
        function_id: gives a function's type id in the kernel's BTF, None where it has none.
    """

    def __init__(self, program: Program, function_id: Callable[[str], int | None]) -> None:
        self._program = program
        self._undo: list[Callable[[], None]] = []
        self._loaded: list[tuple[str, int]] = []
        self._shared: list[int] = []  # programs of many functions
        self._links: list[int] = []  # theirs
        self._function_id = function_id
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
                self._attach_fentry("kfunc__", "fentry", point, constants)
                self._attach_fentry("kretfunc__", "fexit", point, constants)
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
        if method == "fentry":
            prefix, kind = _FENTRY[side]
            self._attach_fentry(prefix, kind, point, constants)
        elif side == "entry":
            self._attach_kprobe("enter_", point, constants, _ENTRY)
        else:
            self._attach_kprobe("leave_", point, constants, _RETURN)

    def attach_together(self, cookies: Mapping[str, int], *, returns: bool = True) -> None:
        """Probe the entries and returns of many functions by kprobes, attached all at once.

        The kernel attaches one by one at the price of a grace period each: in an emulated machine
        it took 7 s for 53 functions and 10 s to detach them, against 0.3 s and 0.2 s at once.

        Args:
            cookies: by symbol, what tells the functions apart in their common program.
            returns: whether the returns are probed too.

        Raises:
            FaultprofError: one of the functions cannot be probed, or this kernel cannot do it (see
                ``probing.try_kprobe_multi``); then none is.
        """
        before = len(self._undo)
        try:
            self._link("enter_many", cookies, returns=False)
            if returns:
                self._link("leave_many", cookies, returns=True)
        except (OSError, FaultprofError) as error:
            self._detach_down_to(before)
            raise _not_attached(ProbePoint(", ".join(cookies)), "kprobe") from error

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
            count = syscall.recursion_misses(fd)
            if count:
                misses[symbol] = misses.get(symbol, 0) + count
        return misses

    def kprobe_misses(self) -> int:
        """Return how many hits the kprobes had without a program being run, as far as it is known.

        Of those attached at once the kernel tells since Linux 6.7. Of those attached one by one
        it tells for the returns; the entries go through perf, which does not.
        """
        links = sum(syscall.kprobe_multi_misses(link) or 0 for link in self._links)
        busy = sum(syscall.recursion_misses(program) for program in self._shared)
        return links + busy + missed_events_of(os.getpid())

    def costs(self) -> tuple[int, int]:
        """Return how often the programs have run, and for how many ns, while that was measured."""
        programs = [*(fd for _, fd in self._loaded), *self._shared]
        return added_costs(syscall.run_stats(fd) for fd in programs)

    def close(self) -> None:
        """Detach all probes; safe to repeat."""
        self._detach_down_to(0)

    def _template(self, prefix: str) -> str | None:
        # bcc versions differ in what stands between its prefix and the function's name.
        for name in self._program.functions():
            if name.startswith(prefix) and name.endswith(_TEMPLATE):
                return name
        return None

    def _load(
        self,
        prefix: str,
        kind: Kind,
        point: ProbePoint,
        constants: Mapping[int, int],
        target: int = 0,
    ) -> int:
        template = self._templates[prefix]
        if template is None:
            raise ValueError(f"{self._program.name} was compiled without {prefix} templates")
        # A return has less to know than an entry: each template takes what it has a place for.
        wanted = {key: c for key, c in constants.items() if self._program.takes(template, key)}
        fd = self._program.load_copy(
            template, kind, name=f"{prefix}{point.symbol}", constants=wanted, target=target
        )
        self._loaded.append((point.symbol, fd))
        self._undo.append(lambda: self._unload(point.symbol, fd))
        return fd

    def _unload(self, symbol: str, fd: int) -> None:
        self._loaded.remove((symbol, fd))
        os.close(fd)

    def _link(self, function: str, cookies: Mapping[str, int], *, returns: bool) -> None:
        program = self._program.load_copy(function, "kprobe_multi", name=function)
        self._keep(program, self._shared)
        self._keep(syscall.link_kprobes(program, cookies, returns=returns), self._links)

    def _keep(self, fd: int, among: list[int]) -> None:
        def give_up() -> None:
            among.remove(fd)
            os.close(fd)

        among.append(fd)
        self._undo.append(give_up)

    def _attach_fentry(
        self, prefix: str, kind: Kind, point: ProbePoint, constants: Mapping[int, int]
    ) -> None:
        target = self._function_id(point.symbol)
        if target is None:
            raise _not_attached(point, "fentry")
        fd = self._load(prefix, kind, point, constants, target)
        try:
            link = syscall.attach_raw_tracepoint(fd, None)
        except OSError as error:
            raise _not_attached(point, "fentry") from error
        self._undo.append(lambda: os.close(link))

    def _attach_kprobe(
        self, prefix: str, point: ProbePoint, constants: Mapping[int, int], side: int
    ) -> None:
        fd = self._load(prefix, "kprobe", point, constants)
        event = _event_name(prefix, point, fd)
        if side == _RETURN:
            # libbcc writes no offset into a kretprobe's definition, but passes the name on.
            where, offset, most = str(point), 0, _MAX_ACTIVE
        else:
            where, offset, most = point.symbol, point.offset, 0
        with translated(f"attach to {point}"):
            perf = import_bcc().libbcc.lib.bpf_attach_kprobe(
                fd, side, event.encode(), where.encode(), offset, most
            )
            if perf < 0:
                raise _not_attached(point, "kprobe")
        self._undo.append(lambda: self._detach_kprobe(perf, event, side))

    def _detach_kprobe(self, perf: int, event: str, side: int) -> None:
        import_bcc().libbcc.lib.bpf_close_perf_event_fd(perf)
        if side == _RETURN:  # went through tracefs, where its definition outlives it
            with translated(f"detach {event}"):
                import_bcc().libbcc.lib.bpf_detach_kprobe(event.encode())

    def _detach_down_to(self, count: int) -> None:
        while len(self._undo) > count:
            self._undo.pop()()


def _event_name(prefix: str, point: ProbePoint, program: int) -> str:
    """Return a name that no other probe of this process has, also not of the same function.

    The kernel permits 64 letters, with ``_bcc_PID`` behind.
    """
    words = f"fprof_{prefix}{point.symbol}_{point.offset}_{program}"
    return "".join(char if char.isalnum() else "_" for char in words)


def _not_attached(point: ProbePoint, method: Method) -> FaultprofError:
    return unsupported(
        f"{method} cannot attach to {point.symbol}",
        "see 'faultprof functions' for what can be traced here",
    )
