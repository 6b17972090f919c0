"""Every program of probes/ compiles with every combination of its knobs.

In a process of its own: when LLVM's code generator refuses a program, libbcc calls exit(1).
"""

from __future__ import annotations

import itertools
import json
import subprocess
import sys

import pytest

SAMPLE = ("SCOPE_ALL", "USER_STACKS", "FAULT_LABELS")
TRACE = ("SCOPE_ALL", "FENTRY", "KPROBE", "OFFCPU")

SAMPLE_NUMBERS = {"MAX_STACKS": 64, "FAULT_WRITE_BIT": 2}
TRACE_NUMBERS = {
    "FUNCTIONS": 9,
    "MAX_NODES": 16,
    "MAX_TASKS": 16,
    **dict.fromkeys(("READ_FAULT", "COW_FAULT", "SHARED_FAULT", "SINGLE_PAGE", "ANONYMOUS"), 9),
    **dict.fromkeys(
        (
            "OFFSET_TASK_STRUCT_STACK",
            "OFFSET_VM_FAULT_FLAGS",
            "OFFSET_VM_FAULT_VMA",
            "OFFSET_VM_AREA_STRUCT_VM_FLAGS",
            "OFFSET_VM_AREA_STRUCT_VM_OPS",
            "OFFSET_VM_OPERATIONS_STRUCT_FAULT",
        ),
        8,
    ),
    "FLAG_WRITE": 1,
    "FLAG_TRIED": 32,
    "FLAG_VMA_LOCK": 4096,
    "FLAG_FALLBACK": 2048,
}

COMPILE = """
import json, sys
from faultprof.bpf.program import Program
with Program(sys.argv[1], json.loads(sys.argv[2])) as program:
    print(*program.functions())
"""


def _combinations(switches: tuple[str, ...]) -> list[dict[str, int]]:
    return [
        dict(zip(switches, values, strict=True))
        for values in itertools.product((0, 1), repeat=len(switches))
    ]


def _compile(name: str, knobs: dict[str, int]) -> set[str]:
    done = subprocess.run(
        [sys.executable, "-c", COMPILE, name, json.dumps(knobs)], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return set(done.stdout.split())


@pytest.mark.parametrize("switches", _combinations(SAMPLE), ids=str)
def test_sample(switches: dict[str, int]) -> None:
    programs = _compile("sample.bpf.c", {**SAMPLE_NUMBERS, **switches})
    assert "on_sample" in programs
    assert ("on_fault" in programs) == bool(switches["FAULT_LABELS"])
    assert ("on_fork" in programs) != bool(switches["SCOPE_ALL"])


@pytest.mark.parametrize("switches", _combinations(TRACE), ids=str)
def test_trace(switches: dict[str, int]) -> None:
    programs = _compile("trace.bpf.c", {**TRACE_NUMBERS, **switches})
    assert ("enter_template" in programs) == bool(switches["KPROBE"])
    assert ("on_switch" in programs) == bool(switches["OFFCPU"])
    fentry = {name for name in programs if name.startswith(("kfunc__", "kretfunc__"))}
    assert len(fentry) == 2 * switches["FENTRY"]


def test_calibrate() -> None:
    assert _compile("calibrate.bpf.c", {"LOOPS": 1000}) == {"drive", "drive_once"}


@pytest.mark.parametrize("method", ["FENTRY", "KPROBE"])
def test_perturb(method: str) -> None:
    numbers = {"FUNCTIONS": 2, "COARSE": 260, "OFFSET_TASK_STRUCT_STACK": 32, "SCOPE_ALL": 0}
    programs = _compile("perturb.bpf.c", {"FENTRY": 0, "KPROBE": 0, **numbers, method: 1})
    assert "on_fork" in programs
    assert len([name for name in programs if name.endswith("template")]) == 2
