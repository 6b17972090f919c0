"""bpf(2) as the kernel offers it: load instructions, attach to a raw tracepoint or many kprobes.

Knows: the system call, the attribute structures of programs and the encoding of instructions.
Leaves to others: maps (``maps``), where instructions come from (``compiler``: bcc, from the C in
probes/), what an attempt tells (``probing``).
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import platform
import struct
import sys
from collections.abc import Iterator, Mapping
from enum import IntEnum
from functools import cache

# asm/unistd.h of each architecture.
_SYSCALL_NUMBER = {"x86_64": 321, "aarch64": 280, "ppc64le": 361, "s390x": 351, "riscv64": 280}

_COMMAND_PROG_LOAD = 5
_COMMAND_PROG_TEST_RUN = 10
_COMMAND_OBJ_GET_INFO_BY_FD = 15
_COMMAND_RAW_TRACEPOINT_OPEN = 17
_COMMAND_LINK_CREATE = 28
_COMMAND_ENABLE_STATS = 32

# Where struct bpf_prog_info has run_time_ns and run_cnt (Linux 5.1), in bytes.
_RUN_STATS_AT = 192

# Where it has recursion_misses (Linux 5.12).
_RECURSION_MISSES_AT = 208

# Where struct bpf_link_info of a kprobe.multi link has its count of functions (Linux 6.6) and how
# often these were missed (6.7), in bytes.
_MULTI_COUNT_AT = 24
_MULTI_MISSED_AT = 32

ATTACH_FENTRY = 24  # BPF_TRACE_FENTRY
ATTACH_FEXIT = 25  # BPF_TRACE_FEXIT
ATTACH_KPROBE_MULTI = 42  # BPF_TRACE_KPROBE_MULTI

_NAME_LENGTH = 15  # BPF_OBJ_NAME_LEN less the zero byte

_LOG_BYTES = 1 << 20


class ProgramType(IntEnum):
    """``enum bpf_prog_type``, as far as faultprof uses it."""

    KPROBE = 2
    PERF_EVENT = 7
    RAW_TRACEPOINT = 17
    TRACING = 26


class _LoadAttr(ctypes.Structure):
    """``union bpf_attr`` as BPF_PROG_LOAD reads it, up to ``attach_btf_id`` (Linux 5.5)."""

    _fields_ = (
        ("prog_type", ctypes.c_uint32),
        ("insn_cnt", ctypes.c_uint32),
        ("insns", ctypes.c_uint64),
        ("license", ctypes.c_uint64),
        ("log_level", ctypes.c_uint32),
        ("log_size", ctypes.c_uint32),
        ("log_buf", ctypes.c_uint64),
        ("kern_version", ctypes.c_uint32),
        ("prog_flags", ctypes.c_uint32),
        ("prog_name", ctypes.c_char * 16),
        ("prog_ifindex", ctypes.c_uint32),
        ("expected_attach_type", ctypes.c_uint32),
        ("prog_btf_fd", ctypes.c_uint32),
        ("func_info_rec_size", ctypes.c_uint32),
        ("func_info", ctypes.c_uint64),
        ("func_info_cnt", ctypes.c_uint32),
        ("line_info_rec_size", ctypes.c_uint32),
        ("line_info", ctypes.c_uint64),
        ("line_info_cnt", ctypes.c_uint32),
        ("attach_btf_id", ctypes.c_uint32),
    )


class _RawTracepointAttr(ctypes.Structure):
    """``union bpf_attr`` as BPF_RAW_TRACEPOINT_OPEN reads it."""

    _fields_ = (
        ("name", ctypes.c_uint64),
        ("prog_fd", ctypes.c_uint32),
    )


class _TestRunAttr(ctypes.Structure):
    """``union bpf_attr`` as BPF_PROG_TEST_RUN reads it, up to ``batch_size`` (Linux 5.18)."""

    _fields_ = (
        ("prog_fd", ctypes.c_uint32),
        ("retval", ctypes.c_uint32),
        ("data_size_in", ctypes.c_uint32),
        ("data_size_out", ctypes.c_uint32),
        ("data_in", ctypes.c_uint64),
        ("data_out", ctypes.c_uint64),
        ("repeat", ctypes.c_uint32),
        ("duration", ctypes.c_uint32),
        ("ctx_size_in", ctypes.c_uint32),
        ("ctx_size_out", ctypes.c_uint32),
        ("ctx_in", ctypes.c_uint64),
        ("ctx_out", ctypes.c_uint64),
        ("flags", ctypes.c_uint32),
        ("cpu", ctypes.c_uint32),
        ("batch_size", ctypes.c_uint32),
        ("padding", ctypes.c_uint32),
    )


class _KprobeMultiAttr(ctypes.Structure):
    """``union bpf_attr`` as BPF_LINK_CREATE reads it for many kprobes (Linux 5.18)."""

    _fields_ = (
        ("prog_fd", ctypes.c_uint32),
        ("target_fd", ctypes.c_uint32),
        ("attach_type", ctypes.c_uint32),
        ("flags", ctypes.c_uint32),
        ("returns", ctypes.c_uint32),
        ("count", ctypes.c_uint32),
        ("symbols", ctypes.c_uint64),
        ("addresses", ctypes.c_uint64),
        ("cookies", ctypes.c_uint64),
    )


class _EnableStatsAttr(ctypes.Structure):
    """``union bpf_attr`` as BPF_ENABLE_STATS reads it: 0 is BPF_STATS_RUN_TIME."""

    _fields_ = (("type", ctypes.c_uint32),)


class _InfoAttr(ctypes.Structure):
    """``union bpf_attr`` as BPF_OBJ_GET_INFO_BY_FD reads it."""

    _fields_ = (
        ("bpf_fd", ctypes.c_uint32),
        ("info_len", ctypes.c_uint32),
        ("info", ctypes.c_uint64),
    )


def enable_run_stats() -> int:
    """Make the kernel count and time the runs of all BPF programs until the result is closed.

    That costs each run some 20 ns.

    Raises:
        OSError: as bpf(2); EINVAL on kernels before 5.8.
    """
    return bpf(_COMMAND_ENABLE_STATS, _EnableStatsAttr())


def run_stats(program_fd: int) -> tuple[int, int]:
    """Return how often a program has run while that was counted, and for how many ns."""
    info = _info(program_fd, _RUN_STATS_AT + 16)
    ns, runs = struct.unpack_from("=QQ", info, _RUN_STATS_AT)
    return runs, ns


def recursion_misses(program_fd: int) -> int:
    """Return how often the kernel skipped a program because it was running on the CPU already.

    0 on kernels that do not count it: of kprobes before Linux 6.7.
    """
    info = _info(program_fd, _RECURSION_MISSES_AT + 8)
    misses: int = struct.unpack_from("=Q", info, _RECURSION_MISSES_AT)[0]
    return misses


def run_raw_tracepoint(program_fd: int, *arguments: int) -> None:
    """Run a raw tracepoint's program once, here and now, as if the tracepoint had been hit.

    Raises:
        OSError: as bpf(2); EINVAL on kernels before 5.10.
    """
    values = (ctypes.c_uint64 * len(arguments))(*arguments)
    attr = _TestRunAttr(
        prog_fd=program_fd,
        ctx_size_in=ctypes.sizeof(values),
        ctx_in=ctypes.addressof(values),
    )
    bpf(_COMMAND_PROG_TEST_RUN, attr)


def kprobe_multi_misses(link_fd: int) -> int | None:
    """Return how many hits :func:`link_kprobes`' functions had without the program being run.

    None on kernels that do not tell.
    """
    info = _info(link_fd, _MULTI_MISSED_AT + 8)
    if struct.unpack_from("=I", info, _MULTI_COUNT_AT)[0] == 0:
        return None
    misses: int = struct.unpack_from("=Q", info, _MULTI_MISSED_AT)[0]
    return misses


def _info(fd: int, size: int) -> bytes:
    info = ctypes.create_string_buffer(size)
    bpf(_COMMAND_OBJ_GET_INFO_BY_FD, _InfoAttr(fd, size, ctypes.addressof(info)))
    return info.raw


def instruction(
    code: int, *, dst: int = 0, src: int = 0, offset: int = 0, immediate: int = 0
) -> bytes:
    """Encode one instruction: ``struct bpf_insn`` of linux/bpf.h."""
    low, high = (dst, src) if sys.byteorder == "little" else (src, dst)
    return struct.pack("=BBhi", code, high << 4 | low, offset, immediate)


def load(
    kind: ProgramType,
    instructions: bytes,
    *,
    name: str = "faultprof_probe",
    attach_type: int = 0,
    attach_btf_id: int = 0,
    log: ctypes.Array[ctypes.c_char] | None = None,
) -> int:
    """Load a program and return its file descriptor.

    Args:
        kind: the program's type.
        instructions: ``struct bpf_insn`` each, with the file descriptors of maps in place.
        name: shown by ``bpftool prog``; cut to what the kernel takes.
        attach_type: what a program of type ``TRACING`` attaches as.
        attach_btf_id: and to which function of the kernel proper.
        log: buffer that gets the verifier's account, which takes it longer.

    Raises:
        OSError: as bpf(2).
    """
    code = ctypes.create_string_buffer(instructions, len(instructions))
    license_text = ctypes.create_string_buffer(b"GPL")
    attr = _LoadAttr(
        prog_type=kind,
        insn_cnt=len(instructions) // 8,
        insns=ctypes.addressof(code),
        license=ctypes.addressof(license_text),
        log_level=int(log is not None),
        log_size=len(log) if log is not None else 0,
        log_buf=ctypes.addressof(log) if log is not None else 0,
        prog_name=object_name(name),
        expected_attach_type=attach_type,
        attach_btf_id=attach_btf_id,
    )
    return bpf(_COMMAND_PROG_LOAD, attr)


def refusal(
    kind: ProgramType, instructions: bytes, *, attach_type: int = 0, attach_btf_id: int = 0
) -> str:
    """Return what the verifier has against a program that :func:`load` could not load."""
    log = ctypes.create_string_buffer(_LOG_BYTES)
    with contextlib.suppress(OSError):
        fd = load(kind, instructions, attach_type=attach_type, attach_btf_id=attach_btf_id, log=log)
        os.close(fd)
    return log.value.decode(errors="replace")


@contextlib.contextmanager
def loaded(
    kind: ProgramType, instructions: bytes, *, attach_type: int = 0, attach_btf_id: int = 0
) -> Iterator[int]:
    """Load a program as :func:`load` does and yield its descriptor; leaving the block frees it."""
    fd = load(kind, instructions, attach_type=attach_type, attach_btf_id=attach_btf_id)
    with _owned(fd) as program:
        yield program


def object_name(name: str) -> bytes:
    """Return ``name`` as the kernel takes it for a program or map."""
    allowed = "".join(char if char.isascii() and char.isalnum() else "_" for char in name)
    return allowed.encode()[:_NAME_LENGTH]


def attach_raw_tracepoint(program_fd: int, name: str | None) -> int:
    """Attach a program to a raw tracepoint and return the link, which detaches it when closed.

    ``name`` is None for a program that names its target itself, as an fentry program does.

    Raises:
        OSError: as bpf(2); ENOENT when this kernel has no such tracepoint.
    """
    text = ctypes.create_string_buffer(name.encode()) if name else None
    attr = _RawTracepointAttr(
        name=ctypes.addressof(text) if text is not None else 0, prog_fd=program_fd
    )
    return bpf(_COMMAND_RAW_TRACEPOINT_OPEN, attr)


def link_kprobes(program_fd: int, cookies: Mapping[str, int], *, returns: bool) -> int:
    """Attach a program to the entries or to the returns of many functions, all at once.

    Args:
        program_fd: loaded with ``ATTACH_KPROBE_MULTI``.
        cookies: by symbol, what the program finds there by bpf_get_attach_cookie().
        returns: whether to attach to the returns.

    Returns:
        The link's file descriptor; closing it detaches the program from all functions.

    Raises:
        OSError: as bpf(2); then it is attached to none.
    """
    names = [symbol.encode() for symbol in cookies]
    symbols = (ctypes.c_char_p * len(names))(*names)
    numbers = (ctypes.c_uint64 * len(names))(*cookies.values())
    attr = _KprobeMultiAttr(
        prog_fd=program_fd,
        attach_type=ATTACH_KPROBE_MULTI,
        returns=int(returns),
        count=len(names),
        symbols=ctypes.addressof(symbols),
        cookies=ctypes.addressof(numbers),
    )
    return bpf(_COMMAND_LINK_CREATE, attr)


@contextlib.contextmanager
def attached_raw_tracepoint(program_fd: int, name: str | None) -> Iterator[int]:
    """Attach as :func:`attach_raw_tracepoint` does; leaving the block detaches."""
    with _owned(attach_raw_tracepoint(program_fd, name)) as link:
        yield link


@contextlib.contextmanager
def _owned(fd: int) -> Iterator[int]:
    try:
        yield fd
    finally:
        os.close(fd)


def bpf(command: int, attr: ctypes.Structure) -> int:
    """Make the system call and return its result, of most commands a file descriptor.

    Raises:
        OSError: as bpf(2).
    """
    result = _libc().syscall(
        ctypes.c_long(_syscall_number()),
        ctypes.c_int(command),
        ctypes.byref(attr),
        ctypes.c_uint(ctypes.sizeof(attr)),
    )
    if result < 0:
        error = ctypes.get_errno()
        raise OSError(error, os.strerror(error), "bpf")
    return int(result)


@cache
def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)


@cache
def _syscall_number() -> int:
    machine = platform.machine()
    if machine not in _SYSCALL_NUMBER:
        raise OSError(0, f"the number of bpf(2) is not known for {machine}")
    return _SYSCALL_NUMBER[machine]
