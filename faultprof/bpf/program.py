"""A compiled file of probes/: load its programs, attach raw tracepoints, read its maps.

Knows: where the probes and the header shim are, how bcc is told to do without kernel headers,
and how its failures become ours. This is the one place that catches bcc's bare ``Exception``.
Leaves to others: what a program means (capture) and which events it is bound to.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import TracebackType
from typing import IO, TYPE_CHECKING, Any, Literal, Self

from faultprof.bpf import maps
from faultprof.bpf.templates import Template
from faultprof.errors import FaultprofError, unsupported

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

_INCLUDE = re.compile(r'#include "([\w.]+)"')

ProgramType = Literal["perf_event", "raw_tracepoint", "kprobe", "tracing"]


def probes_dir() -> Path:
    """Return the folder of BPF programs: inside an installed package, or beside it in a clone."""
    package = Path(__file__).resolve().parent.parent
    installed = package / "_probes"
    return installed if installed.is_dir() else package.parent / "probes"


def import_bcc() -> Any:
    """Import and return the module ``bcc``.

    Raises:
        FaultprofError: it is not there (exit code 3).
    """
    try:
        import bcc
    except (ImportError, OSError) as error:  # OSError: libbcc is missing or broken
        raise unsupported(
            f"this Python cannot import bcc: {error}",
            "install python3-bpfcc (Debian) or python3-bcc (Fedora); a venv must be made by the "
            "system's python3 with --system-site-packages",
        ) from error
    return bcc


class Program:
    """One file of probes/, compiled for this kernel; a context manager that frees it.

    Args:
        name: file in probes/, e.g. ``sample.bpf.c``.
        knobs: macro definitions, passed as ``-D``.

    Raises:
        FaultprofError: no bcc, no permission, or the compiler refuses (exit code 3).
    """

    def __init__(self, name: str, knobs: Mapping[str, int]) -> None:
        self.name = name
        self._bcc = import_bcc()
        self._links: list[int] = []
        source = _with_includes(probes_dir() / name)
        flags = ["-O2", *(f"-D{knob}={value}" for knob, value in knobs.items())]
        with _shim_headers(), translated(f"compile {name}"):
            self._bpf = _without_autoload(self._bcc.BPF)(text=source.encode(), cflags=flags)

    def load(self, function: str, kind: ProgramType) -> int:
        """Load a program into the kernel and return its file descriptor."""
        with translated(f"load {function} of {self.name}"):
            return int(self._bpf.load_func(function.encode(), self._kind(kind)).fd)

    def _kind(self, kind: ProgramType) -> int:
        bpf = self._bcc.BPF
        return {
            "perf_event": int(bpf.PERF_EVENT),
            "raw_tracepoint": int(bpf.RAW_TRACEPOINT),
            "kprobe": int(bpf.KPROBE),
            "tracing": int(bpf.TRACING),
        }[kind]

    @property
    def lib(self) -> Any:
        """libbcc, for what bcc's Python does not offer."""
        return self._bcc.libbcc.lib

    def functions(self) -> list[str]:
        """Return the names of the file's programs, as bcc made them."""
        module = self._bpf.module
        count = self.lib.bpf_num_functions(module)
        return [self.lib.bpf_function_name(module, index).decode() for index in range(count)]

    def template(self, function: str) -> Template:
        """Return a program that is to be loaded with constants of its own."""
        return Template(self.lib, self._bpf.module, function)

    def load_template(
        self, template: Template, kind: ProgramType, name: str, constants: Mapping[int, int]
    ) -> int:
        """Load a copy of ``template`` under ``name``; the caller closes the file descriptor."""
        with translated(f"load {name}"):
            return template.load(self._kind(kind), name, constants)

    def attach_raw_tracepoint(self, tracepoint: str, function: str) -> None:
        """Run ``function`` at each hit of a tracepoint, on all tasks.

        Not through bcc's own method, which takes one program a tracepoint.

        Raises:
            FaultprofError: this kernel has no such tracepoint (exit code 3).
        """
        program = self.load(function, "raw_tracepoint")
        with translated(f"attach to tracepoint {tracepoint}"):
            link = self.lib.bpf_attach_raw_tracepoint(program, tracepoint.encode())
            if link < 0:
                raise _no_tracepoint(tracepoint, self._bcc.table.ct.get_errno())
        self._links.append(link)

    def write(self, table: str, index: int, value: bytes) -> None:
        """Set one element of an array map."""
        array = self._bpf[table.encode()]
        with translated(f"write {table}"):
            array[array.Key(index)] = array.Leaf.from_buffer_copy(value)

    def read(self, table: str, index: int) -> bytes:
        """Return one element of an array map."""
        array = self._bpf[table.encode()]
        with translated(f"read {table}"):
            return bytes(array[array.Key(index)])

    def clear(self, table: str) -> None:
        """Empty a hash map."""
        with translated(f"clear {table}"):
            self._bpf[table.encode()].clear()

    def push(self, table: str, value: int) -> None:
        """Put a number into a queue map."""
        queue = self._bpf[table.encode()]
        with translated(f"fill {table}"):
            queue.push(queue.Leaf(value))

    def read_per_cpu(self, table: str, index: int, words: int) -> list[tuple[int, ...]]:
        """Return one element of a per-CPU array map for each CPU, as 64-bit words."""
        import ctypes
        import struct

        array = self._bpf[table.encode()]
        with translated(f"read {table}"):
            values = array[array.Key(index)]
        size = 8 * words
        raw = ctypes.string_at(ctypes.addressof(values), size * len(values))
        return list(struct.iter_unpack(f"={words}Q", raw))

    def read_counters(self, table: str) -> list[int]:
        """Return an array map's values, summed over CPUs where it is a per-CPU map."""
        with translated(f"read {table}"):
            values = [value for _, value in sorted(self._items(table), key=lambda kv: kv[0])]
        return [int(sum(value)) if hasattr(value, "__len__") else int(value) for value in values]

    def _items(self, table: str) -> Iterator[tuple[int, Any]]:
        for key, value in self._bpf[table.encode()].items():
            yield key.value, getattr(value, "value", value)

    def read_hash(self, table: str) -> tuple[npt.NDArray[np.void], npt.NDArray[np.uint64]]:
        """Return a quiescent hash map's keys, as raw records, and its 64-bit values."""
        import numpy as np

        keys, values = self.read_hash_records(table)
        return keys, values.view(np.uint64)

    def read_hash_records(self, table: str) -> tuple[npt.NDArray[np.void], npt.NDArray[np.void]]:
        """Return a quiescent hash map's keys and values, both as raw records."""
        entries = self._bpf[table.encode()]
        sizeof = self._bcc.table.ct.sizeof
        with translated(f"read {table}"):
            return maps.read_hash(
                self.lib, entries.map_fd, sizeof(entries.Key), sizeof(entries.Leaf)
            )

    def close(self) -> None:
        """Detach everything and free the programs and maps; safe to repeat."""
        while self._links:
            os.close(self._links.pop())
        self._bpf.cleanup()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


def _with_includes(path: Path) -> str:
    """Return a program with the files of probes/ that it includes by ``#include "..."`` put in.

    bcc turns operations on maps into calls of helpers only in the main file
    (``is_rewritable_ext_func`` in its b_frontend_action.cc); in an included one they would stay
    calls through a pointer, which the verifier refuses. ``#line`` keeps messages pointing at the
    right place.
    """
    lines = [f'#line 1 "{path.name}"']
    for number, line in enumerate(path.read_text().splitlines(), start=1):
        match = _INCLUDE.fullmatch(line.strip())
        if match is None:
            lines.append(line)
        else:
            lines.append(_with_includes(path.parent / match[1]))
            lines.append(f'#line {number + 1} "{path.name}"')
    return "\n".join(lines)


def _without_autoload(bpf: Any) -> Any:
    """Return bcc's class without its habit of attaching programs by their names at once.

    Nothing may run before all that belongs together is attached, in our order.
    """

    class Quiet(bpf):  # type: ignore[misc]
        def _trace_autoload(self) -> None:
            pass

    return Quiet


def _no_tracepoint(tracepoint: str, number: int) -> FaultprofError:
    if number == errno.ENOENT:
        return unsupported(f"this kernel has no tracepoint {tracepoint}", "see 'faultprof doctor'")
    return unsupported(
        f"cannot attach to tracepoint {tracepoint}: {os.strerror(number)}",
        "raise the limit of open files (ulimit -n 4096), or see 'faultprof doctor'",
    )


@contextlib.contextmanager
def _shim_headers() -> Iterator[None]:
    """Point bcc to the header shim, so that it never looks for kernel headers."""
    name = "BCC_KERNEL_SOURCE"
    before = os.environ.get(name)
    os.environ[name] = str(probes_dir() / "shim")
    try:
        yield
    finally:
        if before is None:
            del os.environ[name]
        else:
            os.environ[name] = before


@contextlib.contextmanager
def translated(action: str) -> Iterator[None]:
    """Turn bcc's exceptions, and what libbcc prints to file descriptor 2, into one error.

    LLVM's code generator does not even raise: libbcc prints its complaint and calls exit(1).
    Only a wrong program of ours can cause that; tests/host compiles each with all its knobs.
    """
    with tempfile.TemporaryFile() as printed:
        try:
            with _stderr_to(printed.fileno()):
                yield
        except FaultprofError as error:
            error.detail = error.detail or _contents(printed)
            raise
        except Exception as error:  # bcc raises nothing narrower
            raise _explain(action, error, _contents(printed)) from error


def _contents(file: IO[bytes]) -> str:
    file.seek(0)
    return file.read().decode(errors="replace")


@contextlib.contextmanager
def _stderr_to(fd: int) -> Iterator[None]:
    saved = os.dup(2)
    try:
        os.dup2(fd, 2)
        yield
    finally:
        os.dup2(saved, 2)
        os.close(saved)


def _explain(action: str, error: Exception, detail: str) -> FaultprofError:
    text = f"{error}\n{detail}".strip()
    if "super-user" in text or "Operation not permitted" in text:
        return unsupported(
            f"cannot {action}: the kernel does not permit it",
            "run as root (sudo faultprof ...); 'faultprof doctor' tells whether it is lockdown",
            detail=text,
        )
    return unsupported(
        f"cannot {action}: {_first_line(str(error))}",
        "run 'faultprof doctor'; --verbose shows what bcc printed",
        detail=text,
    )


def _first_line(text: str) -> str:
    return text.strip().splitlines()[0] if text.strip() else "no reason given"
