"""What compiling a file of probes/ yields: its maps and its programs' instructions.

Knows: how an instruction refers to a map, how constants are patched in, how all this is stored.
Leaves to others: compiling (``compiler``), loading (``program``).

A *template* is a program that is loaded many times, each time with constants of its own in the
place of placeholders. This is what libbpf does with read-only data: the verifier sees constants
and removes the branches that they rule out, so that one template costs no more at a hit than a
program made to measure.
"""

from __future__ import annotations

import json
import struct
import sys
import zlib
from collections.abc import Mapping
from dataclasses import asdict, dataclass

from faultprof.bpf.maps import MapSpec

# The placeholders of probes/patched.h.
FUNCTION_NUMBER, FUNCTION_WHAT = 0x0FA70001, 0x0FA70002

_INSTRUCTION = struct.Struct("=BBhi")
_MOVE_IMMEDIATE = 0xB7  # BPF_ALU64 | BPF_MOV | BPF_K
_LOAD_64 = 0x18  # BPF_LD | BPF_DW | BPF_IMM
_MAP_BY_FD = 1  # BPF_PSEUDO_MAP_FD, in the instruction's source register


@dataclass(frozen=True, slots=True)
class Bytecode:
    """A compiled file of probes/.

    Attributes:
        maps: in the order by whose numbers, from 0, the instructions refer to them.
        programs: instructions by function.
    """

    maps: tuple[MapSpec, ...]
    programs: dict[str, bytes]

    def to_bytes(self) -> bytes:
        """Return this as bytes for a file, with a checksum."""
        content = {
            "maps": [asdict(spec) for spec in self.maps],
            "programs": {name: code.hex() for name, code in self.programs.items()},
        }
        body = json.dumps(content).encode()
        return zlib.crc32(body).to_bytes(4, "little") + body

    @classmethod
    def from_bytes(cls, data: bytes) -> Bytecode | None:
        """Return what :meth:`to_bytes` stored; None when it is damaged."""
        if zlib.crc32(data[4:]).to_bytes(4, "little") != data[:4]:
            return None
        content = json.loads(data[4:])
        return cls(
            tuple(MapSpec(**spec) for spec in content["maps"]),
            {name: bytes.fromhex(code) for name, code in content["programs"].items()},
        )


def with_maps(code: bytes, replaced: Mapping[int, int]) -> bytes:
    """Return instructions with each reference to a map replaced: ``{from: to}``.

    Raises:
        KeyError: a map that is referred to is not in ``replaced``.
    """
    result = bytearray(code)
    for offset in range(0, len(code), _INSTRUCTION.size):
        opcode, registers, jump, value = _INSTRUCTION.unpack_from(code, offset)
        if opcode == _LOAD_64 and _source(registers) == _MAP_BY_FD:
            _INSTRUCTION.pack_into(result, offset, opcode, registers, jump, replaced[value])
    return bytes(result)


def has_placeholder(code: bytes, placeholder: int) -> bool:
    """Whether a template has a place for this constant."""
    return any(
        opcode == _MOVE_IMMEDIATE and value == placeholder
        for opcode, _, _, value in _INSTRUCTION.iter_unpack(code)
    )


def patched(code: bytes, constants: Mapping[int, int]) -> bytes:
    """Return instructions with the immediate of each placeholder's move replaced.

    Raises:
        ValueError: a placeholder is not there; the program would run with a wrong constant.
    """
    result = bytearray(code)
    missing = set(constants)
    for offset in range(0, len(code), _INSTRUCTION.size):
        opcode, registers, jump, value = _INSTRUCTION.unpack_from(code, offset)
        if opcode == _MOVE_IMMEDIATE and value in constants:
            _INSTRUCTION.pack_into(result, offset, opcode, registers, jump, constants[value])
            missing.discard(value)
    if missing:
        raise ValueError(f"no instruction loads the placeholders {sorted(missing)}")
    return bytes(result)


def _source(registers: int) -> int:
    """Return the source register of an instruction: which nibble depends on the byte order."""
    return registers >> 4 if sys.byteorder == "little" else registers & 0xF
