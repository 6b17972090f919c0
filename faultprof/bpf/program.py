"""A compiled file of probes/ in the kernel: load its programs, attach tracepoints, use its maps.

Knows: that a program's maps are made first and live as long as it does; how the kernel's refusals
become ours.
Leaves to others: compiling (``compiler``), what a program means (capture), probes on functions
(``probes``).
"""

from __future__ import annotations

import errno
import os
import time
from collections.abc import Iterable, Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Literal, Self

from faultprof.bpf import syscall
from faultprof.bpf.bytecode import has_placeholder, patched, with_maps
from faultprof.bpf.compiler import compiled
from faultprof.bpf.maps import Map
from faultprof.errors import FaultprofError, unsupported

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

Kind = Literal["perf_event", "raw_tracepoint", "kprobe", "kprobe_multi", "fentry", "fexit"]

_TYPES: dict[Kind, tuple[syscall.ProgramType, int]] = {
    "perf_event": (syscall.ProgramType.PERF_EVENT, 0),
    "raw_tracepoint": (syscall.ProgramType.RAW_TRACEPOINT, 0),
    "kprobe": (syscall.ProgramType.KPROBE, 0),
    "kprobe_multi": (syscall.ProgramType.KPROBE, syscall.ATTACH_KPROBE_MULTI),
    "fentry": (syscall.ProgramType.TRACING, syscall.ATTACH_FENTRY),
    "fexit": (syscall.ProgramType.TRACING, syscall.ATTACH_FEXIT),
}

# The longest that a program which has begun may take to end, with all that interrupts it.
_SETTLE_SECONDS = 0.01


class Program:
    """One file of probes/ with its maps made; a context manager that frees it.

    Args:
        name: file in probes/, e.g. ``sample.bpf.c``.
        knobs: macro definitions, passed as ``-D``.
        lent: maps of another program that are used in place of own ones, by name; that program
            must be closed after this one.
        use_cache: whether bytecode of a former run will do.

    Raises:
        FaultprofError: no bcc, no permission, or the compiler refuses (exit code 3).
    """

    def __init__(
        self,
        name: str,
        knobs: Mapping[str, int],
        *,
        lent: Mapping[str, Map] | None = None,
        use_cache: bool = True,
    ) -> None:
        self.name = name
        self._code = compiled(name, knobs, use_cache=use_cache)
        self._lent = lent or {}
        self._maps: dict[str, Map] = {}
        self._descriptors: list[int] = []
        self._loaded: list[tuple[str, int]] = []  # the programs among these, by function
        try:
            for spec in self._code.maps:
                self._maps[spec.name] = self._lent.get(spec.name) or Map.create(spec)
        except OSError as error:
            self.close()
            raise _refused(f"make the maps of {name}", error) from error

    def functions(self) -> list[str]:
        """Return the names of the file's programs, as bcc made them."""
        return list(self._code.programs)

    def takes(self, function: str, placeholder: int) -> bool:
        """Whether a template has a place for this constant."""
        return has_placeholder(self._code.programs[function], placeholder)

    def load(self, function: str, kind: Kind) -> int:
        """Load a program and return its file descriptor, which lives as long as this object."""
        fd = self.load_copy(function, kind, name=function)
        self._descriptors.append(fd)
        self._loaded.append((function, fd))
        return fd

    def misses(self, function: str) -> int:
        """Return how often the kernel skipped a loaded program as it ran on that CPU already."""
        return sum(syscall.recursion_misses(fd) for name, fd in self._loaded if name == function)

    def load_copy(
        self,
        function: str,
        kind: Kind,
        *,
        name: str,
        constants: Mapping[int, int] | None = None,
        target: int = 0,
    ) -> int:
        """Load a copy of a program; the caller closes the file descriptor.

        Args:
            function: the program.
            kind: what it is loaded as.
            name: what ``bpftool prog`` calls it.
            constants: value by placeholder.
            target: BTF type id of the function that an fentry or fexit program is for.

        Raises:
            FaultprofError: the kernel refuses the program (exit code 3).
        """
        maps = {number: entry.fd for number, entry in enumerate(self._maps.values())}
        code = with_maps(patched(self._code.programs[function], constants or {}), maps)
        program_type, attach_type = _TYPES[kind]
        try:
            return syscall.load(
                program_type, code, name=name, attach_type=attach_type, attach_btf_id=target
            )
        except OSError as error:
            detail = syscall.refusal(
                program_type, code, attach_type=attach_type, attach_btf_id=target
            )
            raise _refused(f"load {name} of {self.name}", error, detail) from error

    def attach_raw_tracepoint(self, tracepoint: str, function: str) -> None:
        """Run ``function`` at each hit of a tracepoint, on all tasks.

        Raises:
            FaultprofError: this kernel has no such tracepoint (exit code 3).
        """
        program = self.load(function, "raw_tracepoint")
        try:
            self._descriptors.append(syscall.attach_raw_tracepoint(program, tracepoint))
        except FileNotFoundError as error:
            raise unsupported(
                f"this kernel has no tracepoint {tracepoint}", "see 'faultprof doctor'"
            ) from error
        except OSError as error:
            raise _refused(f"attach to tracepoint {tracepoint}", error) from error

    def map(self, name: str) -> Map:
        """Return a map, for another program to use."""
        return self._maps[name]

    def write(self, table: str, index: int, value: bytes) -> None:
        """Set one element of an array map."""
        self._maps[table].write(index, value)

    def read(self, table: str, index: int) -> bytes:
        """Return one element of an array map."""
        return self._maps[table].read(index)

    def push(self, table: str, value: int) -> None:
        """Put a number into a queue map."""
        self._maps[table].push(value)

    def read_per_cpu(self, table: str, index: int) -> list[tuple[int, ...]]:
        """Return one element of a per-CPU array map for each CPU, as 64-bit words."""
        return self._maps[table].read_per_cpu(index)

    def sum_per_cpu(self, table: str, index: int) -> list[int]:
        """Return one element of a per-CPU array map as 64-bit words, summed over CPUs."""
        return [sum(column) for column in zip(*self.read_per_cpu(table, index), strict=True)]

    def read_counters(self, table: str) -> list[int]:
        """Return an array map's values, summed over CPUs where it is a per-CPU map."""
        return self._maps[table].read_counters()

    def read_array(self, table: str, count: int) -> bytes:
        """Return the first ``count`` elements of an array map, read in as few calls as can be."""
        return self._maps[table].read_array(count)

    def read_hash(self, table: str) -> tuple[npt.NDArray[np.void], npt.NDArray[np.uint64]]:
        """Return a quiescent hash map's keys, as raw records, and its 64-bit values."""
        import numpy as np

        keys, values = self._maps[table].read_hash()
        return keys, values.view(np.uint64)

    def read_hash_records(self, table: str) -> tuple[npt.NDArray[np.void], npt.NDArray[np.void]]:
        """Return a quiescent hash map's keys and values, both as raw records."""
        return self._maps[table].read_hash()

    def zero(self, table: str, indices: Iterable[int]) -> None:
        """Set elements of an array map to zero, on every CPU where it is a per-CPU map."""
        self._maps[table].zero(indices)

    def clear(self, table: str) -> None:
        """Empty a hash map, whoever else takes entries out of it meanwhile."""
        self._maps[table].clear()

    def costs(self) -> tuple[int, int]:
        """Return how often the programs have run, and for how many ns, while that was measured."""
        return added_costs(syscall.run_stats(fd) for _, fd in self._loaded)

    def close(self) -> None:
        """Detach everything and free the programs and maps; safe to repeat."""
        self._loaded.clear()
        while self._descriptors:  # the newest first: a link before its program
            os.close(self._descriptors.pop())
        for name, entry in self._maps.items():
            if name not in self._lent:
                entry.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


def settle() -> None:
    """Wait until programs that have begun to run are through."""
    time.sleep(_SETTLE_SECONDS)


def added_costs(parts: Iterable[tuple[int, int]]) -> tuple[int, int]:
    """Return the sums of runs and of ns."""
    runs, ns = 0, 0
    for one_runs, one_ns in parts:
        runs, ns = runs + one_runs, ns + one_ns
    return runs, ns


def _refused(action: str, error: OSError, detail: str = "") -> FaultprofError:
    if error.errno in (errno.EPERM, errno.EACCES) and not detail:
        return unsupported(
            f"cannot {action}: the kernel does not permit it",
            "run as root (sudo faultprof ...); 'faultprof doctor' tells whether it is lockdown",
        )
    hint = "run 'faultprof doctor'; --verbose shows what the kernel says"
    if error.errno == errno.EMFILE:
        hint = "raise the limit of open files (ulimit -n 4096), or see 'faultprof doctor'"
    return unsupported(f"cannot {action}: {error.strerror}", hint, detail=detail)
