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
TRACE = ("SCOPE_ALL", "OFFCPU")
TRACE_KINDS = ("FENTRY", "KPROBE", "KPROBE_MANY", "HITS")  # of programs; each stands by itself

SAMPLE_NUMBERS = {"MAX_STACKS": 64, "FAULT_WRITE_BIT": 2}
TRACE_NUMBERS = {
    "FUNCTIONS": 9,
    "MAX_NODES": 16,
    "MAX_TASKS": 16,
    "MULTIPLICITY": 1,
    **dict.fromkeys(
        ("READ_FAULT", "COW_FAULT", "SHARED_FAULT", "SINGLE_PAGE", "ANONYMOUS", "MAP_PAGES"), 9
    ),
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

LOCKS_NUMBERS = {
    "MAX_WAITS": 16,
    "MAX_STACKS": 16,
    "MAX_TASKS": 16,
    "MULTIPLICITY": 1,
    "SIZE_MMAP_LOCK": 40,
    **dict.fromkeys(
        (
            "OFFSET_TASK_STRUCT_STACK",
            "OFFSET_TASK_STRUCT_MM",
            "OFFSET_TASK_STRUCT_SIGHAND",
            "OFFSET_MM_STRUCT_MMAP_LOCK",
            "OFFSET_MM_STRUCT_PAGE_TABLE_LOCK",
            "OFFSET_SIGHAND_STRUCT_SIGLOCK",
        ),
        8,
    ),
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


@pytest.mark.parametrize("switches", _combinations(("SCOPE_ALL", "TRACED")), ids=str)
def test_locks(switches: dict[str, int]) -> None:
    programs = _compile("locks.bpf.c", {**LOCKS_NUMBERS, **switches})
    assert {"on_begin", "on_end"} <= programs


@pytest.mark.parametrize("switches", _combinations(("SCOPE_ALL",)), ids=str)
def test_faults(switches: dict[str, int]) -> None:
    bits = {"FAULT_PRESENT_BIT": 1, "FAULT_WRITE_BIT": 2, "FAULT_EXEC_BIT": 16}
    programs = _compile("faults.bpf.c", {**bits, **switches})
    assert {"on_user_fault", "on_kernel_fault"} <= programs


@pytest.mark.parametrize("kinds", [*((kind,) for kind in TRACE_KINDS), TRACE_KINDS], ids=str)
@pytest.mark.parametrize("switches", _combinations(TRACE), ids=str)
def test_trace(switches: dict[str, int], kinds: tuple[str, ...]) -> None:
    switches = switches | {kind: int(kind in kinds) for kind in TRACE_KINDS}
    programs = _compile("trace.bpf.c", {**TRACE_NUMBERS, **switches})
    assert ("enter_template" in programs) == bool(switches["KPROBE"])
    assert ("enter_many" in programs) == bool(switches["KPROBE_MANY"])
    assert ("hit_template" in programs) == bool(switches["HITS"])
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


def test_a_trace_without_numbers_per_call() -> None:
    knobs = dict.fromkeys(("SCOPE_ALL", "OFFCPU", "MULTIPLICITY"), 0)
    kinds = dict.fromkeys(TRACE_KINDS, 1)
    programs = _compile("trace.bpf.c", {**TRACE_NUMBERS, **knobs, **kinds})
    assert {"enter_template", "enter_many", "hit_template"} <= programs


def test_a_trace_whose_probes_can_be_padded() -> None:
    knobs = {**dict.fromkeys(TRACE, 0), **dict.fromkeys(TRACE_KINDS, 1), "PAD": 1}
    programs = _compile("trace.bpf.c", {**TRACE_NUMBERS, **knobs})
    assert {"enter_template", "enter_many", "hit_template"} <= programs


BORROW = """
import json, sys
from faultprof.bpf.program import Program
from faultprof.capture.scope import Scope
lending, borrowing = json.loads(sys.argv[1]), json.loads(sys.argv[2])
scope = Scope(int(sys.argv[3]) or None)
with Program("trace.bpf.c", {**lending, **scope.knobs()}) as lender:
    scope.attach(lender)
    borrowed = scope.borrowed(lender)
    knobs = {**borrowing, **borrowed.knobs()}
    with Program("sample.bpf.c", knobs, lent=borrowed.lent_maps()) as borrower:
        borrowed.attach(borrower)
        started = [borrower.read("scope_state", 0)[4]]
        borrowed.start(borrower)
        started.append(borrower.read("scope_state", 0)[4])
        scope.start(lender)
        started.append(borrower.read("scope_state", 0)[4])
        print(*started)
    print(lender.read("scope_state", 0)[4])  # still there when the borrower has gone
"""


@pytest.mark.parametrize("pid", [0, 1])
def test_the_sampler_beside_a_trace_borrows_its_scope(pid: int) -> None:
    """The lender starts both, and keeps what it lent."""
    knobs = {"FENTRY": 0, "KPROBE": 1, "OFFCPU": 1, **TRACE_NUMBERS}
    sampling = {**SAMPLE_NUMBERS, "USER_STACKS": 0, "FAULT_LABELS": 0}
    command = [sys.executable, "-c", BORROW, json.dumps(knobs), json.dumps(sampling), str(pid)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["0", "0", "1", "1"]
