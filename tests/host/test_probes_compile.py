"""Every program of probes/ compiles with every combination of its knobs.

In a process of its own: when LLVM's code generator refuses a program, libbcc calls exit(1).
"""

from __future__ import annotations

import itertools
import json
import subprocess
import sys

import pytest

from faultprof.capture.contention.folio_probes import BITS, NAME_OFFSETS, OFFSETS
from faultprof.capture.occupancy_knobs import OccupancyKnobs

SAMPLE = ("SCOPE_ALL", "USER_STACKS", "FAULT_LABELS")
TRACE = ("SCOPE_ALL", "OFFCPU")
TRACE_KINDS = ("FENTRY", "KPROBE", "KPROBE_MANY", "HITS")  # of programs; each stands by itself

SAMPLE_NUMBERS = {"MAX_STACKS": 64, "FAULT_WRITE_BIT": 2}
FAULT_NUMBERS = {
    **dict.fromkeys(
        (
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
}
RESULT_NUMBERS = {
    "RESULT_NOPAGE": 256,
    "RESULT_RETRY": 1024,
    "RESULT_MAJOR": 4,
    "RESULT_ERROR": 115,
    "RESULT_FALLBACK": 2048,
}
TRACE_NUMBERS = {
    "FUNCTIONS": 9,
    "MAX_NODES": 16,
    "MAX_TASKS": 16,
    "MULTIPLICITY": 1,
    **dict.fromkeys(
        ("READ_FAULT", "COW_FAULT", "SHARED_FAULT", "SINGLE_PAGE", "ANONYMOUS", "MAP_PAGES"), 9
    ),
    "OFFSET_TASK_STRUCT_STACK": 8,
    **FAULT_NUMBERS,
    "FLAG_FALLBACK": 2048,
    **OccupancyKnobs(functions=9, cpus=4).knobs(),
    "OCCUPANCY": 0,
}
ORDER_NUMBERS = {
    "FUNCTIONS": 2,
    "OFFSET_TASK_STRUCT_NVCSW": 8,
    "OFFSET_TASK_STRUCT_NIVCSW": 16,
    "OFFSET_FOLIO_FLAGS": 0,
    "OFFSET_FOLIO_ORDER": 64,
    "HEAD_BIT": 64,
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
    assert "on_timer" not in programs
    fentry = {name for name in programs if name.startswith(("kfunc__", "kretfunc__"))}
    assert len(fentry) == 2 * switches["FENTRY"]


@pytest.mark.parametrize("switches", _combinations(TRACE), ids=str)
def test_trace_with_occupancy(switches: dict[str, int]) -> None:
    kinds = dict.fromkeys(TRACE_KINDS, 1)
    programs = _compile("trace.bpf.c", {**TRACE_NUMBERS, **switches, **kinds, "OCCUPANCY": 1})
    assert {"on_switch", "on_timer", "on_tick"} <= programs


def test_calibrate() -> None:
    assert _compile("calibrate.bpf.c", {"LOOPS": 1000}) == {"drive", "drive_once"}


@pytest.mark.parametrize("method", ["FENTRY", "KPROBE"])
def test_perturb(method: str) -> None:
    numbers = {"FUNCTIONS": 2, "COARSE": 260, "OFFSET_TASK_STRUCT_STACK": 32, "SCOPE_ALL": 0}
    programs = _compile("perturb.bpf.c", {"FENTRY": 0, "KPROBE": 0, **numbers, method: 1})
    assert "on_fork" in programs
    assert len([name for name in programs if name.endswith("template")]) == 2


@pytest.mark.parametrize("method", ["FENTRY", "KPROBE"])
@pytest.mark.parametrize("everything", [0, 1])
@pytest.mark.parametrize(
    ("name", "knob"),
    [("fault_around.bpf.c", "SET_ONE"), ("outcomes.bpf.c", "ANONYMOUS_BY_VMA")],
)
def test_parts_that_follow_faults(name: str, knob: str, everything: int, method: str) -> None:
    numbers = {"FENTRY": 0, "KPROBE": 0, "MAX_TASKS": 16, **FAULT_NUMBERS, **RESULT_NUMBERS}
    for value in (0, 1):
        programs = _compile(name, {**numbers, "SCOPE_ALL": everything, knob: value, method: 1})
        assert "on_task_free" in programs
        assert len([name for name in programs if name.endswith("template")]) == 2


@pytest.mark.parametrize("switches", _combinations(("SCOPE_ALL", "NAMES")), ids=str)
def test_folio(switches: dict[str, int]) -> None:
    offsets = {**OFFSETS, **NAME_OFFSETS}
    numbers = {"FUNCTIONS": 6, "MAX_TASKS": 16, "MAX_FILES": 16, "MAX_PAGES": 16, "KPROBE": 1}
    numbers["MAX_PLACES"] = 16
    knobs = {**dict.fromkeys((*offsets, *BITS), 8), **numbers, "KPROBE_MANY": 1, **switches}
    programs = _compile("folio.bpf.c", knobs)
    assert {"enter_template", "leave_template", "enter_many", "leave_many"} <= programs
    assert ("on_fork" in programs) != bool(switches["SCOPE_ALL"])


@pytest.mark.parametrize("method", ["FENTRY", "KPROBE"])
@pytest.mark.parametrize("everything", [0, 1])
def test_order(method: str, everything: int) -> None:
    knobs = {"FENTRY": 0, "KPROBE": 0, **ORDER_NUMBERS, "SCOPE_ALL": everything, method: 1}
    programs = _compile("order.bpf.c", knobs)
    assert {"on_sample", "hit_template"} <= programs
    assert len([name for name in programs if name.endswith("template")]) == 3


LOAD = """
import json, sys
from faultprof.bpf.program import Program
with Program(sys.argv[1], json.loads(sys.argv[2])) as program:
    program.load("on_timer", "raw_tracepoint")
    program.load("on_tick", "perf_event")
    program.load("on_switch", "raw_tracepoint")
    for name in ("enter_template", "leave_template"):
        constants = {0x0FA70001: 7, 0x0FA70002: 0}
        program.load_copy(name, "kprobe", name="x", constants=constants)
"""


@pytest.mark.parametrize(("functions", "cpus"), [(9, 1), (70, 64), (60, 256)])
def test_occupancy_of_a_large_machine_passes_the_verifier(functions: int, cpus: int) -> None:
    """It follows the reading of each CPU's slot for each function."""
    none = dict.fromkeys(("READ_FAULT", "COW_FAULT", "SHARED_FAULT", "SINGLE_PAGE"), functions)
    others = dict.fromkeys(("ANONYMOUS", "MAP_PAGES", "FUNCTIONS"), functions)
    knobs = {**TRACE_NUMBERS, **none, **others, **OccupancyKnobs(functions, cpus).knobs()}
    knobs |= {"SCOPE_ALL": 0, "OFFCPU": 1, "FENTRY": 0, "KPROBE": 1, "KPROBE_MANY": 0, "HITS": 0}
    command = [sys.executable, "-c", LOAD, "trace.bpf.c", json.dumps(knobs)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


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
