"""From a file of probes/ to bytecode: by bcc, or from the cache.

Knows: where the probes and the header shim are, how bcc is told to do without kernel headers, how
its failures become ours (the one place that catches its bare ``Exception``), and when bytecode of
a former run will do.
Leaves to others: loading and attaching (``program``, ``probes``).

Compiling takes half of the time until a command starts, and ten seconds under emulation: bcc runs
clang and reads all of /proc/kallsyms. So the outcome is kept.
"""

from __future__ import annotations

import contextlib
import ctypes
import hashlib
import os
import re
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import IO, Any

from faultprof.bpf.bytecode import Bytecode, with_maps
from faultprof.bpf.maps import MapSpec
from faultprof.errors import FaultprofError, unsupported
from faultprof.kernel.cache import CacheDirectory, cache_root

_INCLUDE = re.compile(r'#include "([\w.]+)"')

# Counts changes of what the cache's files hold.
_FORMAT = "1"

# Of some 20 KB each: more than one works with at a time, and no burden on a home.
_KEPT = 100


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


def compiled(name: str, knobs: Mapping[str, int], *, use_cache: bool = True) -> Bytecode:
    """Return a file of probes/ compiled for this kernel.

    Args:
        name: file in probes/, e.g. ``sample.bpf.c``.
        knobs: macro definitions, passed as ``-D``.
        use_cache: whether a former compilation of the same will do.

    Raises:
        FaultprofError: no bcc, no permission, or the compiler refuses (exit code 3).
    """
    source = _with_includes(probes_dir() / name)
    flags = ["-O2", *(f"-D{knob}={value}" for knob, value in knobs.items())]
    if not use_cache:
        return _compile(name, source, flags)
    # The caller's own, never an invoking user's: the kernel runs what is in here.
    cache, key = CacheDirectory(cache_root() / "bpf"), _cache_key(source, flags)
    data = cache.read_own(key)
    bytecode = Bytecode.from_bytes(data) if data is not None else None
    if bytecode is not None:
        cache.touch(key)
        return bytecode
    bytecode = _compile(name, source, flags)
    if cache.write(key, bytecode.to_bytes()):
        cache.keep_newest(_KEPT, "[0-9a-f]{64}")
    return bytecode


def _cache_key(source: str, flags: list[str]) -> str:
    """Return a name for all that the bytecode depends on; bcc's version is not part of it."""
    kernel = os.uname()
    parts = [_FORMAT, source, *flags, kernel.release, kernel.version, kernel.machine]
    for path in sorted((probes_dir() / "shim").rglob("*")):
        if path.is_file():
            parts += [path.name, path.read_text()]
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()


def _compile(name: str, source: str, flags: list[str]) -> Bytecode:
    bcc = import_bcc()
    with _shim_headers(), translated(f"compile {name}"):
        bpf = _without_autoload(bcc.BPF)(text=source.encode(), cflags=flags)
        try:
            return _bytecode_of(bcc.libbcc.lib, bpf.module)
        finally:
            bpf.cleanup()


def _bytecode_of(lib: Any, module: Any) -> Bytecode:
    """Take bytecode out of libbcc's module, which has made the maps and refers to them."""
    _declare(lib)
    tables = range(lib.bpf_num_tables(module))
    numbers = {lib.bpf_table_fd_id(module, table): table for table in tables}
    programs = {}
    for index in range(lib.bpf_num_functions(module)):
        function = lib.bpf_function_name(module, index)
        start = lib.bpf_function_start(module, function)
        code = ctypes.string_at(start, lib.bpf_function_size(module, function))
        programs[function.decode()] = with_maps(code, numbers)
    return Bytecode(tuple(_map_spec(lib, module, table) for table in tables), programs)


def _map_spec(lib: Any, module: Any, table: int) -> MapSpec:
    return MapSpec(
        name=lib.bpf_table_name(module, table).decode(),
        type=lib.bpf_table_type_id(module, table),
        key_size=lib.bpf_table_key_size_id(module, table),
        value_size=lib.bpf_table_leaf_size_id(module, table),
        max_entries=lib.bpf_table_max_entries_id(module, table),
        flags=lib.bpf_table_flags_id(module, table),
    )


def _declare(lib: Any) -> None:
    """Tell ctypes the signatures of libbcc's bcc_common.h that bcc's Python leaves out."""
    lib.bpf_num_tables.argtypes, lib.bpf_num_tables.restype = [ctypes.c_void_p], ctypes.c_size_t
    for name, result in (
        ("name", ctypes.c_char_p),
        ("fd_id", ctypes.c_int),
        ("key_size_id", ctypes.c_size_t),
        ("leaf_size_id", ctypes.c_size_t),
    ):
        function = getattr(lib, f"bpf_table_{name}")
        function.argtypes, function.restype = [ctypes.c_void_p, ctypes.c_size_t], result


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
