"""Programs that are compiled once and loaded many times, with constants patched in.

Knows: how a placeholder looks in BPF instructions, and how libbcc is given instructions under a
name of our choice, from which it takes the function that an fentry program is for.
Leaves to others: which constants (tracing), attaching (probes).

This is what libbpf does with read-only data: the verifier sees constants and removes the branches
that they rule out, so that one template costs no more at a hit than a program made to measure.
"""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Mapping
from typing import Any

from faultprof.errors import FaultprofError, unsupported

_INSTRUCTION = struct.Struct("=BBhi")
_MOVE_IMMEDIATE = 0xB7  # BPF_ALU64 | BPF_MOV | BPF_K


class Template:
    """The instructions of one compiled function.

    Args:
        lib: libbcc, as ``bcc.libbcc.lib``.
        module: libbcc's handle of the compiled file.
        function: name of the function in it.

    Attributes:
        code: its instructions, maps included.
    """

    def __init__(self, lib: Any, module: Any, function: str) -> None:
        self._lib = lib
        self._module = module
        self.function = function
        name = function.encode()
        start = lib.bpf_function_start(module, name)
        self.code = ctypes.string_at(start, lib.bpf_function_size(module, name))

    def has(self, placeholder: int) -> bool:
        """Whether the program has a place for this constant."""
        return any(
            opcode == _MOVE_IMMEDIATE and immediate == placeholder
            for opcode, _, _, immediate in _INSTRUCTION.iter_unpack(self.code)
        )

    def load(self, kind: int, name: str, constants: Mapping[int, int]) -> int:
        """Load a copy with ``constants`` in place of their placeholders.

        Args:
            kind: the program's type, a number of ``enum bpf_prog_type``.
            name: for libbcc; of an fentry program also what it attaches to.
            constants: value by placeholder.

        Returns:
            The program's file descriptor; the caller closes it.

        Raises:
            FaultprofError: the kernel refuses the program (exit code 3).
        """
        code = patched(self.code, constants)
        fd = self._lib.bcc_func_load(
            self._module,
            kind,
            name.encode(),
            code,
            len(code),
            self._lib.bpf_module_license(self._module),
            self._lib.bpf_module_kern_version(self._module),
            0,
            None,
            0,
            None,
            -1,
        )
        if fd < 0:
            raise _refused(name)
        return int(fd)


def patched(code: bytes, constants: Mapping[int, int]) -> bytes:
    """Return instructions with the immediate of each placeholder's move replaced.

    Raises:
        ValueError: a placeholder is not there; the program would run with a wrong constant.
    """
    result = bytearray(code)
    missing = set(constants)
    for offset in range(0, len(code), _INSTRUCTION.size):
        opcode, registers, jump, immediate = _INSTRUCTION.unpack_from(code, offset)
        if opcode == _MOVE_IMMEDIATE and immediate in constants:
            _INSTRUCTION.pack_into(result, offset, opcode, registers, jump, constants[immediate])
            missing.discard(immediate)
    if missing:
        raise ValueError(f"no instruction loads the placeholders {sorted(missing)}")
    return bytes(result)


def _refused(name: str) -> FaultprofError:
    number = ctypes.get_errno()
    return unsupported(
        f"the kernel refuses the program {name} (error {number})",
        "run 'faultprof doctor'; --verbose shows what bcc printed",
    )
