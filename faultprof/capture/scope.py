"""Which tasks are recorded: the command, a running process, or all; each with its descendants.

Knows: the programs and maps of probes/scope.h, and counters of the time that the tasks run.
Leaves to others: what is done to the tasks in scope (sampling).
"""

from __future__ import annotations

import errno
import signal
import struct
from dataclasses import dataclass, replace
from pathlib import Path

from faultprof.bpf.maps import Map
from faultprof.bpf.perf_event import TYPE_SOFTWARE, Count, EventSpec, PerfEvent
from faultprof.bpf.program import Program
from faultprof.capture.wait import no_such_process
from faultprof.errors import FaultprofError, unsupported

# struct scope_state: root_tgid, started, lost_tasks.
_STATE = struct.Struct("=IIQ")

_TRACEPOINTS = {
    "sched_process_exec": "on_exec",
    "sched_process_fork": "on_fork",
    "sched_process_free": "on_free",
}


@dataclass(frozen=True, slots=True)
class Scope:
    """What to record.

    Attributes:
        pid: the process; None for every task.
        held: whether it has yet to call exec(2).
        lender: a program whose scope is used, which started with this one; None for one's own.
    """

    pid: int | None
    held: bool = False
    lender: Program | None = None

    @property
    def everything(self) -> bool:
        """Whether every task of the machine is in scope."""
        return self.pid is None

    def knobs(self) -> dict[str, int]:
        """Return the knobs that probes/scope.h needs."""
        return {"SCOPE_ALL": int(self.everything)}

    def lent_maps(self) -> dict[str, Map]:
        """Return the maps of another program that are to be used in place of own ones."""
        if self.lender is None:
            return {}
        return {name: self.lender.map(name) for name in self._maps()}

    def _maps(self) -> tuple[str, ...]:
        return ("scope_state",) if self.everything else ("scope_state", "scope_tasks")

    def borrowed(self, lender: Program) -> Scope:
        """Return this scope as ``lender`` follows it, which has been attached.

        The lender must be closed after the borrower.
        """
        return replace(self, lender=lender)

    def attach(self, program: Program) -> None:
        """Make ``program``, which includes scope.h, follow the tasks in scope."""
        if self.lender is not None:
            return
        self._set(program, started=False)
        if self.pid is None:
            return
        for tracepoint, function in _TRACEPOINTS.items():
            if tracepoint != "sched_process_exec" or self.held:
                program.attach_raw_tracepoint(tracepoint, function)

    def move_to(self, program: Program) -> None:
        """Make ``program``, which followed another process and has been stopped, follow ours.

        What that process has left behind is no longer in scope.
        """
        if self.lender is not None:
            return
        if self.pid is not None:
            program.clear("scope_tasks")
        self._set(program, started=False)

    def start(self, program: Program) -> None:
        """Let ``program`` work; where the process is held, its exec(2) does that."""
        if not self.held and self.lender is None:
            self._set(program, started=True)

    def resume(self, program: Program) -> None:
        """Let ``program`` work again, after :meth:`stop`, on the tasks that it follows."""
        if self.lender is None:
            self._set(program, started=True)

    def stop(self, program: Program) -> int:
        """Make ``program`` ignore what comes; return how many tasks were not followed.

        Tasks are lost when the map of tasks is full; a borrower leaves that count to the lender.
        """
        if self.lender is not None:
            return 0
        lost = int(_STATE.unpack(program.read("scope_state", 0))[2])
        self._set(program, started=False)
        return lost

    def _set(self, program: Program, *, started: bool) -> None:
        # A process's number is never 0: it stands for "none".
        program.write("scope_state", 0, _STATE.pack(self.pid or 0, int(started), 0))


class TaskCounter:
    """Counts a software event over the tasks in scope, apart from all BPF programs.

    The kernel's own per-task counter, inherited by children as ``perf stat`` does it: what we
    count can be checked by it.

    Args:
        scope: whose tasks; nothing is counted when every task is in scope.
        config: a number of ``enum perf_sw_ids``.

    Raises ``FaultprofError``: the process is gone, or perf events are not permitted.
    """

    def __init__(self, scope: Scope, config: int) -> None:
        self._events: list[PerfEvent] = []
        self._before = Count(0, 0, 0)
        if scope.pid is None:
            return
        spec = EventSpec(TYPE_SOFTWARE, config, inherit=True, start_on_exec=scope.held)
        seen: set[int] = set()
        # A thread born while we look is inherited from one that we have, or found next time.
        while new := _threads(scope) - seen:
            for tid in sorted(new):
                self._open(spec, tid)
            seen |= new
        if not self._events:
            raise _ended_early() if scope.held else no_such_process(scope.pid)
        if not scope.held:
            for event in self._events:
                event.enable()

    def read(self) -> Count | None:
        """Return what was counted so far; None when every task is in scope."""
        if not self._events:
            return None
        counted = self._counted()
        return Count(*(now - then for now, then in zip(counted, self._before, strict=True)))

    def restart(self) -> None:
        """Count from 0 again, with all that the tasks have forked meanwhile."""
        self._before = self._counted()

    def close(self) -> None:
        """Stop counting; safe to repeat."""
        for event in self._events:
            event.close()
        self._events.clear()

    def _counted(self) -> Count:
        counts = [event.read() for event in self._events]
        return Count(*(sum(column) for column in zip(Count(0, 0, 0), *counts, strict=True)))

    def _open(self, spec: EventSpec, tid: int) -> None:
        try:
            self._events.append(PerfEvent.open(spec, pid=tid))
        except OSError as error:
            if error.errno != errno.ESRCH:
                self.close()
                raise open_error(error, "software") from error
            # The thread ended between the listing and the call: nothing to count.


def _ended_early() -> FaultprofError:
    return FaultprofError(
        "the command was killed before it could start", "try again", 128 + signal.SIGKILL
    )


def open_error(error: OSError, clock: str) -> FaultprofError:
    """Return what a refused perf event means to the user."""
    if error.errno in (errno.EACCES, errno.EPERM):
        return unsupported(
            "the kernel does not permit perf events here",
            "run as root (sudo faultprof ...); see 'faultprof doctor'",
        )
    if error.errno in (errno.ENOENT, errno.EOPNOTSUPP, errno.ENODEV):
        return unsupported(
            f"this machine has no {clock} event to sample with", "give --clock cpu-clock"
        )
    if error.errno == errno.EMFILE:
        return unsupported(
            "too many threads or CPUs to open an event for each", "raise the limit: ulimit -n 65536"
        )
    return unsupported(
        f"cannot open a {clock} event: {error.strerror or error}", "see 'faultprof doctor'"
    )


def _threads(scope: Scope) -> set[int]:
    if scope.held and scope.pid is not None:
        return {scope.pid}
    try:
        return {int(entry.name) for entry in Path(f"/proc/{scope.pid}/task").iterdir()}
    except (FileNotFoundError, ProcessLookupError):
        return set()
