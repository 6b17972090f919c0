"""The trace against the samples: known answers, and what counts as the probes' own time."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from faultprof.analysis.cross_check import Checked, CrossCheck, cross_check
from faultprof.analysis.probe_frames import Place
from faultprof.analysis.selection import Selection
from faultprof.analysis.statistics import binomial_intervals
from faultprof.recording.frames import INFERRED, INLINED, Frame
from faultprof.recording.paths import PathCount
from faultprof.recording.reader import Recording
from faultprof.recording.traced import TracedPath
from faultprof.render.cross_check import check_text
from faultprof.render.terminal import Terminal
from faultprof.render.views import VIEWS, check_view
from tests.unit.recordings import in_memory
from tests.unit.traces import histogram, traced, traced_metadata

FAULT = "handle_mm_fault"
TRACED = {FAULT, "do_fault", "do_read_fault", "set_pte_range", "io_schedule"}


def frames(path: str) -> list[Frame]:
    """Return the frames of ``a;b;c``; do_read_fault is always told by a condition."""
    return [
        Frame(name, "", INFERRED if name == "do_read_fault" else "symbol")
        for name in path.split(";")
    ]


def place_of(path: str) -> Place:
    place, above = Place(), list[Frame]()
    for frame in frames(path):
        place = place.then(frame, above, frame.function if frame.function in TRACED else None)
        above.append(frame)
    return place


PLACES = {
    # What the functions do themselves.
    "exc_page_fault": "",
    "exc_page_fault;handle_mm_fault": FAULT,
    "handle_mm_fault;do_fault;kmem_cache_alloc": "handle_mm_fault do_fault",
    "handle_mm_fault;do_fault;do_read_fault;xas_load": "handle_mm_fault do_fault do_read_fault",
    # fentry: the body stands below a trampoline, and the function is on the stack twice.
    "handle_mm_fault;bpf_trampoline_1;handle_mm_fault;do_fault": "handle_mm_fault do_fault",
    "handle_mm_fault;do_fault;bpf_trampoline_2;do_fault;do_read_fault;x": (
        "handle_mm_fault do_fault do_read_fault"
    ),
    "handle_mm_fault;set_pte_range;bpf_trampoline_3;rmap": "handle_mm_fault set_pte_range",
    "do_fault;do_fault;bpf_trampoline_2;do_fault": "do_fault do_fault",
    # A trampoline of somebody else's on what we do not trace.
    "handle_mm_fault;down_read;bpf_trampoline_9;down_read;x": FAULT,
    # In a probe: the caller's time.
    "handle_mm_fault;bpf_trampoline_1": "PROBE",
    "handle_mm_fault;do_fault;bpf_trampoline_2": "PROBE handle_mm_fault",
    "handle_mm_fault;do_fault;bpf_trampoline_2;__bpf_prog_enter_recur": "PROBE handle_mm_fault",
    "handle_mm_fault;do_fault;bpf_trampoline_2;bpf_prog_ab_do_fault;htab": "PROBE handle_mm_fault",
    "handle_mm_fault;do_fault;do_read_fault;bpf_trampoline_2;bpf_prog_ab": "PROBE handle_mm_fault",
    "handle_mm_fault;do_fault;ftrace_trampoline;kprobe_ftrace_handler": "PROBE handle_mm_fault",
    "handle_mm_fault;do_fault;arch_rethook_trampoline;x": "PROBE handle_mm_fault do_fault",
    "handle_mm_fault;do_fault;optimized_callback;x": "PROBE handle_mm_fault do_fault",
    "do_fault;bpf_trampoline_2;do_fault;set_pte_range;bpf_trampoline_3;bpf_prog_1": (
        "PROBE do_fault"
    ),
    # Not directly below a traced function: none of them is taken away.
    "handle_mm_fault;x;bpf_trampoline_9;bpf_prog_9_x": "PROBE handle_mm_fault",
    "handle_mm_fault;io_schedule;schedule;__traceiter_sched_switch;bpf_prog_1_on_switch": (
        "PROBE handle_mm_fault io_schedule"
    ),
}


@pytest.mark.parametrize("path", PLACES)
def test_where_a_sample_stands_in_the_traced_tree(path: str) -> None:
    place = place_of(path)
    assert " ".join(["PROBE"] * place.probing + [*place.inside]) == PLACES[path]


# Textbook values; 4 digits.
@pytest.mark.parametrize(
    ("count", "total", "low", "high"),
    [
        (0, 10, 0.0, 0.3085),
        (5, 10, 0.1871, 0.8129),
        (10, 10, 0.6915, 1.0),
        (1, 400, 0.0001, 0.0138),
    ],
)
def test_exact_binomial_intervals(count: int, total: int, low: float, high: float) -> None:
    (found,) = binomial_intervals([count], total, 0.95)
    assert (found.value, round(found.low, 4), round(found.high, 4)) == (count / total, low, high)


def calls(path: str, ns: int, own: int, off_cpu: int | None = 0) -> TracedPath:
    durations = histogram({ns: 1})
    return TracedPath("t", tuple(frames(path)), 1, 0, ns, own, ns, ns, off_cpu, durations)


TREE = (
    calls("handle_mm_fault", 1100, 100, 100),
    calls("handle_mm_fault;do_fault", 1000, 400, 100),  # 900 of 1000 ns on the CPU
    calls("handle_mm_fault;do_fault;do_read_fault", 600, 350, 100),
    calls("handle_mm_fault;do_fault;do_read_fault;set_pte_range", 150, 150),
    calls("handle_mm_fault;do_fault;do_read_fault;io_schedule", 100, 100, 100),
    calls("walk", 500, 500),
)
PROBED = {"how": "symbol", "method": "fentry", "traced": True}
FUNCTIONS: dict[str, Any] = dict.fromkeys(("do_fault", FAULT, "io_schedule"), PROBED)
FUNCTIONS |= {
    "set_pte_range": PROBED | {"how": "renamed", "symbol": "do_set_pte.isra.0"},
    "do_read_fault": {"how": "condition", "symbol": "do_fault", "traced": True},
    "do_wp_page": PROBED,
    "clear_page": {"how": "unavailable", "traced": False},
}


def recording(samples: dict[str, int], tree: tuple[TracedPath, ...] = TREE) -> Recording:
    metadata = replace(traced_metadata(), functions=FUNCTIONS)
    runs = [[PathCount("t", tuple(frames(path)), count) for path, count in samples.items()]]
    return in_memory(lambda path: traced(path, [tree], runs, metadata))


def by_name(check: CrossCheck) -> dict[str, Checked]:
    return {one.frame.function: one for one in check.functions}


def test_shares_are_of_the_time_on_the_cpu_below_the_root() -> None:
    check = cross_check(
        recording(
            {
                "[user]": 1000,
                "handle_mm_fault": 90,
                "handle_mm_fault;do_fault": 400,
                "handle_mm_fault;do_fault;do_read_fault": 350,
                "handle_mm_fault;do_fault;do_read_fault;do_set_pte": 150,
                "handle_mm_fault;bpf_trampoline_1;handle_mm_fault;do_fault;bpf_trampoline_2": 10,
                "handle_mm_fault;bpf_trampoline_1;bpf_prog_1": 77,
            }
        )
    )
    assert (check.root, check.on_cpu_ns, check.samples) == (FAULT, 1000, 1000)
    assert check.in_probes == 10  # the 77 were before handle_mm_fault began
    shares = {name: (one.traced, one.samples) for name, one in by_name(check).items()}
    assert shares == {
        FAULT: (1.0, 1000),
        "do_fault": (0.9, 900),
        "do_read_fault": (0.5, 500),
        "set_pte_range": (0.15, 150),
        "io_schedule": (0.0, 0),
    }
    assert not check.disagreeing


def test_what_chance_does_not_explain_is_flagged() -> None:
    samples = {"handle_mm_fault": 70, "handle_mm_fault;do_fault;do_read_fault": 900}
    check = cross_check(recording({**samples, "handle_mm_fault;do_wp_page": 30}))
    # 15% were traced in set_pte_range: 0 of 1000 samples. do_wp_page was never seen called.
    apart = {one.frame.function for one in check.disagreeing}
    assert apart == {"set_pte_range", "do_read_fault", "do_wp_page"}
    explained = cross_check(recording(samples), overhead={"set_pte_range": 0.16})
    assert by_name(explained)["set_pte_range"].agrees


def test_few_samples_prove_nothing() -> None:
    check = cross_check(recording({"handle_mm_fault": 1, "handle_mm_fault;do_fault": 4}))
    assert (check.samples, check.disagreeing) == (5, ())


def test_what_samples_cannot_show_is_not_compared() -> None:
    check = cross_check(recording({"handle_mm_fault;do_fault": 500}))
    read = by_name(check)["do_read_fault"]
    assert (read.samples, read.agrees) == (None, None)
    assert read not in check.compared


def test_an_inlined_body_is_not_the_probed_symbol() -> None:
    found = recording({"handle_mm_fault;do_fault": 500})
    inlined = [Frame(FAULT), Frame("do_fault"), Frame("do_set_pte", "", INLINED)]
    runs = [[PathCount("t", tuple(inlined), 500)]]
    metadata = replace(traced_metadata(), functions=FUNCTIONS)
    found = in_memory(lambda path: traced(path, [TREE], runs, metadata))
    assert by_name(cross_check(found))["set_pte_range"].samples == 0


@pytest.mark.parametrize(
    ("samples", "tree", "root", "reason"),
    [
        ({"[user]": 9}, TREE, None, "no sample is in handle_mm_fault"),
        ({"x": 9}, (), None, "no call of handle_mm_fault was traced"),
        ({"x": 9}, TREE, "elsewhere", "no call of elsewhere was traced"),
        (
            {"handle_mm_fault": 9},
            (calls("handle_mm_fault", 9, 9, None),),
            None,
            "time off the CPU was not told from time on it",
        ),
    ],
)
def test_why_nothing_is_compared(
    samples: dict[str, int], tree: tuple[TracedPath, ...], root: str | None, reason: str
) -> None:
    check = cross_check(recording(samples, tree), root)
    assert check.why_not == reason
    assert check_text(check) == f"not checked against samples: {reason}"


def test_without_faults_the_root_is_what_took_most_time() -> None:
    check = cross_check(recording({"walk": 50}, (calls("walk", 9, 9), calls("run", 8, 8))))
    assert (check.root, check.samples) == ("walk", 50)


def view(name: str, found: Recording, selection: Selection | None = None) -> str:
    views = {**VIEWS, "check": check_view}
    return "\n".join(views[name](found, selection or Selection(), Terminal()))


def test_views_say_it() -> None:
    found = recording({"handle_mm_fault": 100, "handle_mm_fault;do_fault;do_read_fault": 900})
    said = view("tree", found).replace("\n#          ", "")
    assert "# check     3 of 5 functions have the share that they have in the 1,000 samples" in said
    assert "not do_read_fault (traced 50.00%, sampled" in said
    assert "set_pte_range (traced 15.00%, sampled 0.00% to 0.53%) (see --check)" in said
    table = view("check", found)
    assert "  15.00%    0.00%     0.00 to 0.53%         0  MORE  set_pte_range" in table
    assert "  50.00%   90.00%   87.31 to 92.30%       900  LESS  do_read_fault" in table
    assert max(map(len, table.splitlines())) <= 80
    trace = json.loads(view("json", found))["trace"]
    rows = {row["name"]: row for row in trace["cross_check"]["functions"]}
    assert trace["cross_check"]["samples"] == 1000
    assert (rows["set_pte_range"]["traced_percent"], rows["set_pte_range"]["samples"]) == (15.0, 0)
    assert [rows[name]["agrees"] for name in ("do_fault", "set_pte_range")] == [True, False]
    of_task = json.loads(view("json", found, Selection(comms=("t",))))
    assert of_task["trace"]["cross_check"] is None
