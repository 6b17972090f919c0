"""Constants that are patched into BPF instructions."""

from __future__ import annotations

import struct

import pytest

from faultprof.bpf.templates import patched

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
