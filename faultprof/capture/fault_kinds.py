"""Page faults by kind, counted while something runs.

Knows: what the exception's error code tells, and the kernel's own counts of minor and major faults.
Leaves to others: which functions handle them (tracing), rates (analysis).

Where the architecture's tracepoints are not known, only minor and major faults are told apart.
"""

from __future__ import annotations

import platform
from contextlib import ExitStack
from pathlib import Path

from faultprof.bpf.perf_event import SW_PAGE_FAULTS_MAJ, SW_PAGE_FAULTS_MIN
from faultprof.bpf.program import Program
from faultprof.capture.scope import Scope, TaskCounter

# enum kind of probes/faults.bpf.c; "kernel": of all the others, those that kernel code took.
KINDS = ("read", "write", "protection", "exec", "kernel")
MINOR, MAJOR = "minor", "major"

# Bits of the error code. x86: Intel SDM volume 3, 4.7.
_BITS = {"x86_64": {"FAULT_PRESENT_BIT": 1, "FAULT_WRITE_BIT": 2, "FAULT_EXEC_BIT": 16}}
_TRACEPOINTS = {"page_fault_user": "on_user_fault", "page_fault_kernel": "on_kernel_fault"}

_VMSTAT = Path("/proc/vmstat")


class FaultCounter:
    """Counts the faults of the tasks in scope; frees everything when closed.

    Args:
        scope: whose faults; followed by another program, which is to be closed after this.

    Raises ``FaultprofError`` (exit code 3) when the programs cannot be loaded.
    """

    def __init__(self, scope: Scope) -> None:
        self._program: Program | None = None
        with ExitStack() as undo:
            bits = _BITS.get(platform.machine())
            if bits:
                knobs = {**scope.knobs(), **bits}
                program = Program("faults.bpf.c", knobs, lent=scope.lent_maps())
                self._program = undo.enter_context(program)
                for tracepoint, function in _TRACEPOINTS.items():
                    self._program.attach_raw_tracepoint(tracepoint, function)
            self._minor = TaskCounter(scope, SW_PAGE_FAULTS_MIN)
            undo.callback(self._minor.close)
            self._major = TaskCounter(scope, SW_PAGE_FAULTS_MAJ)
            undo.callback(self._major.close)
            self._undo = undo.pop_all()

    def read(self) -> dict[str, int]:
        """Return the faults so far by kind; kinds that nobody can tell are left out.

        ``minor`` and ``major`` are the kernel's own counts, of all tasks since the machine was
        started where all are in scope.
        """
        counts: dict[str, int] = {}
        if self._program is not None:
            counts = dict(zip(KINDS, self._program.read_counters("faults"), strict=True))
        minor, major = self._minor.read(), self._major.read()
        if minor is None or major is None:
            return counts | _of_the_machine()
        return counts | {MINOR: minor.value, MAJOR: major.value}

    def costs(self) -> tuple[int, int]:
        """Return how often the programs have run, and for how many ns, while that was measured."""
        return self._program.costs() if self._program is not None else (0, 0)

    def close(self) -> None:
        """Detach and free everything; safe to repeat."""
        self._undo.close()


def _of_the_machine() -> dict[str, int]:
    """Return the faults of all tasks, from /proc/vmstat."""
    counts = dict(line.split() for line in _VMSTAT.read_text().splitlines())
    major = int(counts["pgmajfault"])
    return {MINOR: int(counts["pgfault"]) - major, MAJOR: major}
