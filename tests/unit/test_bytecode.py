"""Bytecode: constants and maps patched into instructions, and what is stored of it."""

from __future__ import annotations

import struct
import sys

import pytest

from faultprof.bpf.bytecode import Bytecode, has_placeholder, patched, with_maps
from faultprof.bpf.maps import MapSpec
from faultprof.kernel.cpus import possible_cpus

INSTRUCTION = struct.Struct("=BBhi")
MOVE, ADD = 0xB7, 0x07


def _code(*instructions: tuple[int, int]) -> bytes:
    return b"".join(INSTRUCTION.pack(opcode, 1, 0, value) for opcode, value in instructions)


def test_only_moves_of_the_placeholder_change() -> None:
    code = _code((MOVE, 0x0FA70001), (ADD, 0x0FA70001), (MOVE, 5), (MOVE, 0x0FA70001))
    assert patched(code, {0x0FA70001: 42}) == _code(
        (MOVE, 42), (ADD, 0x0FA70001), (MOVE, 5), (MOVE, 42)
    )


def test_a_placeholder_that_is_not_there_is_an_error() -> None:
    with pytest.raises(ValueError, match="placeholders"):
        patched(_code((MOVE, 1)), {2: 3})


def _map_reference(number: int) -> bytes:
    """Two instructions: BPF_LD_IMM64 with BPF_PSEUDO_MAP_FD, then the upper half."""
    registers = 1 | 1 << 4 if sys.byteorder == "little" else 1 << 4 | 1
    return INSTRUCTION.pack(0x18, registers, 0, number) + INSTRUCTION.pack(0, 0, 0, 0)


def test_only_references_to_maps_change() -> None:
    number = INSTRUCTION.pack(0x18, 1, 0, 3) + INSTRUCTION.pack(0, 0, 0, 0)  # a 64-bit constant
    code = _map_reference(3) + number + _code((MOVE, 3)) + _map_reference(4)
    changed = with_maps(code, {3: 70, 4: 80})
    assert changed == _map_reference(70) + number + _code((MOVE, 3)) + _map_reference(80)


def test_a_reference_to_an_unknown_map_is_an_error() -> None:
    with pytest.raises(KeyError):
        with_maps(_map_reference(3), {4: 80})


def test_a_template_is_known_by_its_placeholder() -> None:
    assert has_placeholder(_code((ADD, 7), (MOVE, 7)), 7)
    assert not has_placeholder(_code((ADD, 7)), 7)


BYTECODE = Bytecode(
    (MapSpec("counts", 1, 4, 8, 64, 0), MapSpec("stats", 6, 4, 12, 2, 0)),
    {"on_sample": _code((MOVE, 1)), "on_fork": b""},
)


def test_what_is_stored_comes_back() -> None:
    assert Bytecode.from_bytes(BYTECODE.to_bytes()) == BYTECODE


@pytest.mark.parametrize("at", [0, 5, 50, -1])
def test_a_damaged_file_is_none(at: int) -> None:
    data = bytearray(BYTECODE.to_bytes())
    data[at] ^= 1
    assert Bytecode.from_bytes(bytes(data)) is None


@pytest.mark.parametrize("length", [0, 3, 4, 40])
def test_a_truncated_file_is_none(length: int) -> None:
    assert Bytecode.from_bytes(BYTECODE.to_bytes()[:length]) is None


def test_values_per_cpu_are_padded_to_words() -> None:
    counts, stats = BYTECODE.maps
    assert counts.record_size == 8
    assert stats.record_size == 16 * len(possible_cpus())
