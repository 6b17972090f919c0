"""Occupancy: what its figures mean, what the tables say, what it costs."""

from __future__ import annotations

from typing import Any

import pytest

from faultprof.analysis.compensation import Kinds, ProbeCost, cost_of
from faultprof.analysis.contention.occupancy import Met, merged
from faultprof.analysis.statistics import Estimate
from faultprof.capture.contention.occupancy import on_cpu_of
from faultprof.capture.occupancy_knobs import OccupancyKnobs
from faultprof.capture.trace_knobs import TASK_HEAD, frame_layout
from faultprof.capture.trace_totals import NodeTotals
from faultprof.recording.contention import OCCUPANCY
from faultprof.recording.metadata import RunInfo
from faultprof.render.contention import occupancy as section
from faultprof.render.contention.worst import contended_entries
from faultprof.render.terminal import ASCII, Terminal

SECOND = 1_000_000_000
PLAIN = Terminal(glyphs=ASCII)


def met(occupancy: int, calls: int, mean: int, deviation: int = 0) -> list[int]:
    """Return calls that took so long, with such a standard deviation."""
    return [occupancy, calls, calls * mean, 0, calls * (mean**2 + deviation**2)]


def data(**functions: dict[str, Any]) -> dict[str, Any]:
    """Return what the part leaves of a second with 1000 readings on four CPUs."""
    return {
        "cpus": 4,
        "frequency_hz": 997,
        "every": 64,
        "readings": 1000,
        "missed_readings": 3,
        "read_ns": SECOND,
        "functions": functions,
        "lost": {},
    }


def infos(*runs: dict[str, Any]) -> list[RunInfo]:
    """Return runs of a second each."""
    return [RunInfo(0, wall_s=1.0, contention={OCCUPANCY: run}) for run in runs]


BUSY = {
    "inside": [[1, SECOND // 5], [4, 7 * SECOND // 10]],
    "calls": [met(1, 100, 1000, 100), met(2, 50, 1500, 100), met(4, 400, 3000, 100)],
    "traced": {"calls": 40_000, "ns": 3 * SECOND},
}
QUIET = {
    "inside": [[1, SECOND // 100]],
    "calls": [met(1, 400, 500, 300), met(2, 100, 505, 300)],
    "traced": {"calls": 9_000, "ns": SECOND // 100},
}


def test_the_mean_by_readings_and_by_trace() -> None:
    (busy,) = merged(infos(data(busy=BUSY))).functions
    assert busy.mean == pytest.approx(3.0)
    assert busy.by_trace == pytest.approx(3.0)
    assert busy.most == 4


def test_the_most_is_what_anyone_saw() -> None:
    """A call may see more than any reading."""
    one = {**QUIET, "calls": [met(3, 1, 500)]}
    assert merged(infos(data(one=one))).functions[0].most == 3


def test_company_costs_what_the_calls_would_not_have_taken_alone() -> None:
    busy, quiet = merged(infos(data(busy=BUSY, quiet=QUIET))).functions
    assert busy.excess is not None
    taken = 100 * 1000 + 50 * 1500 + 400 * 3000
    assert busy.excess.share == pytest.approx(1 - 550 * 1000 / taken)
    assert busy.excess.is_sure
    assert quiet.excess is not None
    assert quiet.excess.share == pytest.approx(100 * 5 / (400 * 500 + 100 * 505))
    assert not quiet.excess.is_sure
    assert [one.name for one in merged(infos(data(busy=BUSY, quiet=QUIET))).contended] == ["busy"]


def test_too_few_calls_are_compared_with_nothing() -> None:
    few = {**BUSY, "calls": [met(1, 29, 1000), met(4, 400, 3000)]}
    assert merged(infos(data(few=few))).functions[0].excess is None


def test_the_error_of_a_mean() -> None:
    assert Met(1, *met(1, 100, 1000, 50)[1:]).error_ns == pytest.approx(5.0)


def test_runs_add_up() -> None:
    """A run in which a function was not called has readings with nobody inside."""
    (busy,) = merged(infos(data(busy=BUSY), data())).functions
    assert busy.inside == ((0, 11 * SECOND // 10), (1, SECOND // 5), (4, 7 * SECOND // 10))
    assert busy.mean == pytest.approx(1.5)
    assert busy.by_trace == pytest.approx(1.5)
    (twice,) = merged(infos(data(busy=BUSY), data(busy=BUSY))).functions
    assert [one.calls for one in twice.met] == [200, 100, 800]
    assert twice.mean == pytest.approx(3.0)


def test_a_call_within_itself_counts_its_time_once() -> None:
    def node(ns: int, off: int | None = 0) -> NodeTotals:
        return NodeTotals(2, 0, ns, ns, 1, ns, off, ())

    totals = {
        ("f",): node(100, 30),
        ("f", "g"): node(50),
        ("f", "g", "f"): node(20),
        ("h",): node(7, None),
    }
    assert on_cpu_of(totals) == {
        "f": {"calls": 4, "ns": 70},
        "g": {"calls": 2, "ns": 50},
        "h": {"calls": 2, "ns": 7},
    }


def text(*runs: dict[str, Any]) -> str:
    return "\n".join(section.lines(infos(*runs), PLAIN))


def test_the_section() -> None:
    shown = text(data(busy=BUSY, quiet=QUIET)).splitlines()
    assert "4 CPUs, 1,000 times in 1.00 s (3 came too late); one call in 64" in " ".join(shown)
    busy, busy_met = (line.split() for line in shown if line.endswith(" busy"))
    assert busy == ["3.00", "3.00", "4", "10.0", "20.0", "-", "-", "70.0", "busy"]
    assert busy_met == ["550", "60%", "1.00", "us", "1.50", "us", "-", "3.00", "us", "busy"]
    (quiet_met,) = (
        line.split()
        for line in shown
        if line.endswith(" quiet") and "us" not in line and "ns" in line
    )
    assert quiet_met[:2] == ["500", "(0%)"]
    assert "longer in company: busy (60% of its time)" in " ".join(shown)


def test_many_cpus_share_columns() -> None:
    many = {**data(busy={**BUSY, "inside": [[90, SECOND // 2]]}), "cpus": 100}
    heads = next(
        line
        for line in text(many).splitlines()
        if line.startswith("#") and "trace " in line and "33-64" in line
    )
    assert heads.split()[4:] == [*"012345678", "9-16", "17-32", "33-64", "65-100", "function"]


def test_the_object() -> None:
    found = section.as_json([RunInfo(0, wall_s=1.0, contention={OCCUPANCY: data(busy=BUSY)})])
    assert found["functions"]["busy"]["mean"] == 3.0
    assert found["functions"]["busy"]["excess"]["sure"] is True
    assert found["functions"]["busy"]["by_occupancy"][0] == {
        "occupancy": 1,
        "calls": 100,
        "mean_ns": 1000.0,
        "error_ns": 10.0,
        "off_cpu_ns": 0,
    }
    assert (
        section.as_json([RunInfo(0, wall_s=1.0, contention={OCCUPANCY: data()})])["functions"] == {}
    )


def test_nothing_was_called() -> None:
    assert "no traced function was called" in text(data())


@pytest.mark.parametrize(
    ("cpus", "every", "step", "steps"),
    [(1, 64, 1, 1), (4, 64, 1, 4), (100, 1600, 2, 50), (256, 4096, 4, 64)],
)
def test_knobs(cpus: int, every: int, step: int, steps: int) -> None:
    knobs = OccupancyKnobs(functions=65, cpus=cpus)
    assert (knobs.every, knobs.step, knobs.steps) == (every, step, steps)
    assert knobs.frame_bytes == 8 + 2 * 8


def test_a_frame_is_longer_with_occupancy() -> None:
    plain, longer = frame_layout(None), frame_layout(OccupancyKnobs(functions=64, cpus=4))
    assert (plain.size, longer.size) == (112, 128)
    assert TASK_HEAD.size % 8 == 0


def cost(inner: float, outer: float) -> ProbeCost:
    return ProbeCost(Estimate(inner, inner - 1, inner + 1), Estimate(outer, outer - 1, outer + 1))


def test_what_occupancy_adds_to_a_pair_counts_for_one_with_another_feature() -> None:
    costs = {"kprobe": cost(10, 20), "kprobe+fault": cost(12, 25), "kprobe+occupancy": cost(13, 60)}
    assert cost_of("kprobe+occupancy", costs) == costs["kprobe+occupancy"]
    with_both = cost_of("kprobe+fault+occupancy", costs)
    assert with_both is not None
    assert (with_both.inner.value, with_both.outer.value) == (15, 65)
    assert with_both.inner.low <= 15 <= with_both.inner.high
    # The condition was not calibrated, nor is it known what fentry costs with occupancy.
    assert cost_of("kprobe+condition+occupancy", costs) == cost_of("kprobe+occupancy", costs)
    assert cost_of("fentry+occupancy", {"fentry": cost(1, 2)}) == cost(1, 2)
    assert cost_of("fentry+occupancy", {}) is None


def test_kinds_of_a_recording_with_occupancy() -> None:
    functions = {
        "handle_mm_fault": {"how": "symbol", "symbol": "handle_mm_fault", "method": "kprobe"},
        "alpha": {"how": "symbol", "symbol": "alpha", "method": "fentry"},
        "rmap": {"how": "inlined", "symbol": "rmap", "method": None},
    }
    kinds = Kinds(functions, occupancy=True)
    assert kinds.of("handle_mm_fault") == "kprobe+fault+occupancy"
    assert kinds.of("alpha") == "fentry+occupancy"
    assert kinds.of("rmap") == "count-only"


def test_the_plot_has_a_line_for_each_function_that_company_costs() -> None:
    from faultprof.render.plots.occupancy import chosen, draw_occupancy
    from faultprof.render.plots.style import new_figure, styled

    few = {**BUSY, "calls": [met(1, 3, 1000)]}
    runs = [RunInfo(0, wall_s=1.0, contention={OCCUPANCY: data(quiet=QUIET, few=few, busy=BUSY)})]
    assert [one.name for one in chosen(merged(runs))] == [
        "busy",
        "quiet",
    ]
    with styled():
        axes = new_figure(2.0).subplots()
        draw_occupancy(axes, runs)
        busy, quiet = (container[0] for container in axes.containers)
    assert busy.get_xydata().tolist() == [[1, 1000], [2, 1500], [4, 3000]]
    assert quiet.get_xydata().tolist() == [[1, 500], [2, 505]]
    assert axes.get_yscale() == "log"


def test_the_plot_of_too_few_calls_says_so() -> None:
    from faultprof.render.plots.occupancy import draw_occupancy
    from faultprof.render.plots.style import new_figure, styled

    with styled():
        axes = new_figure(2.0).subplots()
        draw_occupancy(axes, [RunInfo(0, wall_s=1.0, contention={OCCUPANCY: data()})])
        assert [text.get_text() for text in axes.texts] == ["too few calls"]


def test_a_report_names_the_innermost_function_that_company_costs_most() -> None:
    """What its callers lose is the same time again."""
    outer = {**BUSY, "traced": {"calls": 40_000, "ns": 4 * SECOND}}
    small = {**BUSY, "traced": {"calls": 40_000, "ns": SECOND}}
    run = infos(data(outer=outer, busy=BUSY, small=small, quiet=QUIET))
    ((key, text),) = contended_entries(run)
    assert key == "contended"
    lost = f"{3 * (1 - 550_000 / 1_375_000):.2f} s of the 3.00 s"
    assert text.startswith(f"busy: {lost} that CPUs spent in it, more than calls alone in it take")
    assert list(contended_entries(infos(data(quiet=QUIET)))) == []
