"""What compensation recovers, and what delays do further: run by hand, not collected.

In a guest of an exact machine, each takes minutes on a busy host:
python -m pytest -p no:cacheprovider -p no:hypothesispytest --confcutdir=tests/kernels/guest
tests/kernels/guest/truth_answers.py

Seen so far on Linux 6.12, as numbers: below a parent that calls it 1, 10 and 100 times, a pair took
1954, 1927 and 1887 ns by kprobe (in the loop 1908, on the fault path 1968), and 1137, 1112 and
1073 ns by fentry (1050; 1131). The test of the dose failed by both ways, at a place not yet looked
at; the others have not been run to their end.
"""

from __future__ import annotations

import ctypes
import json
import os
from contextlib import closing
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

import pytest

from tests.kernels.guest.perturbing import perturb

NODE = "__handle_mm_fault"
DOSE_NS = 10_000
PAGES = 1000


@pytest.fixture(scope="module")
def view() -> Any:
    """Read what is to be known of the kernel."""
    from faultprof.kernel.view import KernelView

    return KernelView.read()


# Delays.


@pytest.mark.usefixtures("small_pages")
@pytest.mark.parametrize("method", ["kprobe", "fentry"])
def test_a_dose_is_measured_at_its_function_and_nowhere_else(
    pages: str, method: str, tmp_path: Path
) -> None:
    options = ("--keep", str(tmp_path), "--attach", method)
    perturb(NODE, f"0,{DOSE_NS}ns", 2, *options, command=(pages, str(PAGES)))
    without = _self_ns(tmp_path / "delay-0ns.fprof")
    dosed = _self_ns(tmp_path / f"delay-{DOSE_NS}ns.fprof")
    often = {path for path, (calls, _) in dosed.items() if calls >= PAGES / 2}
    assert any(path[-1] == NODE for path in often)
    grown = {path[-1]: dosed[path][1] - without[path][1] for path in often}
    print({name: round(ns) for name, ns in grown.items()})
    assert grown.pop(NODE) == pytest.approx(DOSE_NS, rel=0.05)
    assert len(grown) >= 2
    for name, ns in grown.items():
        assert abs(ns) < 0.05 * DOSE_NS, name


def _self_ns(recording: Path) -> dict[tuple[str, ...], tuple[int, float]]:
    """Return the calls of each path, and the ns that one of them takes by itself."""
    import faultprof

    tree = faultprof.load(recording).trace()
    found: dict[tuple[str, ...], tuple[int, float]] = {}
    paths: list[tuple[str, ...]] = []
    for node in tree.nodes:
        above = paths[node.parent] if node.parent >= 0 else ()
        paths.append((*above, node.frame.function))
        if node.calls.timed_calls:
            found[paths[-1]] = node.calls.calls, node.calls.self_ns / node.calls.calls
    return found


@pytest.mark.usefixtures("small_pages")
def test_what_is_delayed_can_be_chosen(pages: str) -> None:
    """One of so many calls, on some CPUs, of several functions, by random times."""
    command, delays = (pages, "2000"), "0,20us"
    found = perturb(NODE, delays, 2, "--every", "10", command=command)
    assert found["calls"] == pytest.approx(200, rel=0.1)
    found = perturb(NODE, delays, 2, "--on-cpu", "1,3-5", command=command)
    assert (found["calls"], found["verdict"]) == (0, "no effect")
    found = perturb(NODE, delays, 2, "--on-cpu", "0", command=command)
    assert found["calls"] == pytest.approx(2_000, rel=0.1)
    found = perturb(NODE, delays, 3, "--jitter", "--at", "handle_mm_fault", command=command)
    assert found["calls"] == pytest.approx(4_000, rel=0.1)
    # Of two functions at once the index is still one; 4,000 times between none and 40 us each.
    assert found["index"]["value"] == pytest.approx(1.0, abs=0.15)
    (dose,) = (one for one in found["doses"] if one["delay_ns"])
    assert dose["achieved_ns"] == pytest.approx(20_000, rel=0.05)


# Compensation.

CALLS = (1, 10, 100)
REPEATS = 50
PARENT, CHILD = "__x64_sys_process_vm_readv", "pin_user_pages_remote"


class _Vector(ctypes.Structure):
    _fields_ = (("base", ctypes.c_void_p), ("length", ctypes.c_size_t))


class Reader:
    """Calls the parent so that it calls the child so many times; what is passed is made once."""

    def __init__(self, calls: int) -> None:
        self._libc = ctypes.CDLL(None, use_errno=True)
        self._source = ctypes.create_string_buffer(4096)
        self._target = ctypes.create_string_buffer(4096)
        start = ctypes.addressof(self._source)
        local = (_Vector * 1)(_Vector(ctypes.addressof(self._target), calls))
        remote = (_Vector * calls)(*(_Vector(start + 16 * n, 1) for n in range(calls)))
        one, many, none = ctypes.c_ulong(1), ctypes.c_ulong(calls), ctypes.c_ulong(0)
        read = self._libc.process_vm_readv
        self._call = partial(read, os.getpid(), local, one, remote, many, none)

    def __call__(self) -> None:
        for _ in range(20):
            self._call()


@pytest.mark.parametrize("method", ["kprobe", "fentry"])
def test_a_child_that_is_probed_too_is_taken_out_of_its_parent(view: Any, method: Any) -> None:
    """What the parent takes alone is what is left of it when the child's pairs are taken out.

    Both times have the parent's own b + c in them, which so need not be known.
    """
    from faultprof.analysis.compensation import costs_of
    from faultprof.capture.calibration import calibrate

    calibration = calibrate(methods=(method,), beside=False)
    for one in calibration.measured:
        print(one)
    pair = costs_of(calibration)[method].total
    alone = _ns_of_a_call(view, method, (PARENT,))
    both = _ns_of_a_call(view, method, (PARENT, CHILD))
    covered = {}
    for calls in CALLS:
        truth, raw = median(alone[calls]), median(both[calls])
        left = raw - calls * pair.value
        inside = [ns - calls * pair.high <= truth <= ns - calls * pair.low for ns in both[calls]]
        covered[calls] = sum(inside)
        print(
            f"{method} {calls}: alone {truth:.0f}, raw {raw:.0f} ({raw / truth - 1:+.1%}),"
            f" compensated {left:.0f} ({left / truth - 1:+.2%}), a pair took"
            f" {(raw - truth) / calls:.0f} of {pair}, {covered[calls]} of {REPEATS} covered"
        )
        assert raw > 1.3 * truth
    assert all(count >= 0.9 * REPEATS for count in covered.values())


def _ns_of_a_call(view: Any, method: Any, names: tuple[str, ...]) -> dict[int, list[float]]:
    """Return by calls of the child what a call of the parent takes, in the mean of each repeat."""
    from faultprof.capture.options import RecordOptions
    from faultprof.capture.scope import Scope
    from faultprof.capture.trace_setup import trace_plan
    from faultprof.capture.tracing import Tracer

    plan = trace_plan(RecordOptions(Path(), functions=names, attach=method), view)
    found: dict[int, list[float]] = {}
    with closing(Tracer(Scope(os.getpid()), plan, view.types, off_cpu=False)) as tracer:
        assert not tracer.failed
        tracer.start()
        for calls in CALLS:
            read = Reader(calls)
            read()
            found[calls] = []
            for _ in range(REPEATS):
                before = _so_far(tracer)
                read()
                after = _so_far(tracer)
                found[calls].append((after[1] - before[1]) / (after[0] - before[0]))
    return found


def _so_far(tracer: Any) -> tuple[int, int]:
    """Return calls and ns of the parent so far."""
    totals = tracer.totals().get((PARENT,))
    return (totals.calls, totals.inclusive_ns) if totals is not None else (0, 0)


@pytest.mark.usefixtures("small_pages")
def test_the_line_through_padded_probes_leads_to_the_command_without_probes(pages: str) -> None:
    from tests.running import run

    options = ("--verify", "--repeat", "3", "--metric", "sys", "--json")
    done = run("calibrate", *options, "--", pages, "2000", timeout=600)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    print(found)
    once, twice, four = (sum(one["values"]) / 3 for one in found["padded"])
    without = found["unprobed"]["value"]
    assert without < once < twice < four
    assert abs(found["gap"]["value"]) < 0.1 * (once - without)
