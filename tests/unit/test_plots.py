"""Plots: their figures are the recording's, names are harmless, and files are what they say."""

from __future__ import annotations

import math
import re
import xml.etree.ElementTree as ET
from collections import Counter
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from faultprof.analysis.areas import Area
from faultprof.analysis.calls import Calls
from faultprof.analysis.measurement import Measurement, Side
from faultprof.analysis.parts import have_faults, parts_of, recording_parts
from faultprof.analysis.selection import Selection
from faultprof.analysis.trace_tree import TraceTree
from faultprof.analysis.weights import Measure, weigh
from faultprof.errors import FaultprofError
from faultprof.recording.histogram import histogram_of
from faultprof.render.plots.durations import Series, durations_figure, heights
from faultprof.render.plots.metrics import metrics_figure, unit
from faultprof.render.plots.parts import Bar, parts_figure
from faultprof.render.plots.style import file_of, styled
from tests.running import run
from tests.unit.recordings import SESSION, Runs, held, random_runs, recorded
from tests.unit.test_render import NASTY
from tests.unit.traces import TRACED, held_trace, histogram, traced

EVERYTHING = Selection()


def calls_taking(durations: dict[int, int]) -> Calls:
    """Return calls, so many of so many ns."""
    count = sum(durations.values())
    total = sum(ns * n for ns, n in durations.items())
    return Calls(
        calls=count,
        timed_calls=count,
        timed=True,
        inclusive_ns=total,
        durations_ns=total,
        min_ns=min(durations),
        max_ns=max(durations),
        histogram=histogram_of(histogram(durations)),
    )


# Histograms.


@given(st.dictionaries(st.integers(0, 2**40), st.integers(1, 1000), min_size=1, max_size=8))
def test_the_area_below_a_line_is_100_percent(durations: dict[int, int]) -> None:
    edges, steps = heights(calls_taking(durations))
    assert edges == sorted(set(edges))
    doublings = [math.log2(right / left) for left, right in pairwise(edges)]
    areas = [step * width for step, width in zip(steps, doublings, strict=True)]
    assert sum(areas) == pytest.approx(100)
    assert edges[0] <= max(0.5, min(durations))
    assert edges[-1] >= max(durations)


def test_known_heights() -> None:
    # 4 to 7 ns have a bucket each; from 8 ns on there are four to a doubling, 2 ns wide.
    edges, steps = heights(calls_taking({4: 1, 8: 3}))
    assert edges == [4, 5, 6, 7, 8, 10]
    assert steps[1:4] == [0, 0, 0]
    assert steps[0] == pytest.approx(25 / math.log2(5 / 4))
    assert steps[4] == pytest.approx(75 / math.log2(10 / 8))


def test_functions_and_recordings_can_be_told_apart() -> None:
    calls = calls_taking({100: 5})
    series = [Series(fn, label, calls) for label in ("a", "b") for fn in ("f", "_g")]
    with styled():
        axes = durations_figure(series).axes[0]
        legend = [text.get_text() for text in axes.get_legend().get_texts()]
        lines = axes.get_legend().get_lines()
    looks = {(line.get_color(), line.get_linestyle()) for line in lines}
    assert len(looks) == 4
    assert [text.split(":")[0] for text in legend] == ["f (a)", "f (b)", "_g (a)", "_g (b)"]
    assert legend[0] == "f (a): 5 calls, p50 100 ns, p99 100 ns"


def test_too_many_to_be_told_apart() -> None:
    calls = calls_taking({100: 5})
    with styled(), pytest.raises(FaultprofError, match="cannot be told apart"):
        durations_figure([Series(f"f{n}", "a", calls) for n in range(7)])


# Parts.


@settings(max_examples=25)
@given(runs=random_runs())
def test_parts_are_the_whole(runs: Runs) -> None:
    tree = weigh(held(runs), EVERYTHING, Measure.SAMPLES)
    parts = parts_of(tree)
    assert parts.total == tree.sides[0].root
    assert list(parts.weights) == list(Area)
    if parts.total:
        assert sum(map(parts.percent, Area)) == pytest.approx(100)


def test_known_parts() -> None:
    parts = recording_parts(held(SESSION), Selection(root="do_fault"), Measure.SAMPLES)
    assert {area: n for area, n in parts.weights.items() if n} == {
        Area.FILEMAP: 186,  # next_uptodate_folio 180, ext4_filemap_fault 6
        Area.ENTRY: 20,  # set_pte_range
        Area.OTHER: 40,  # folio_add_file_rmap_ptes
    }
    assert parts.faults is None


def test_parts_of_a_fault() -> None:
    recording = held_trace(TRACED)
    selection = Selection(root="handle_mm_fault")
    parts = recording_parts(recording, selection, Measure.TIME)
    tree = TraceTree.from_recording(recording).below("handle_mm_fault")
    assert (parts.total, parts.faults) == (tree.root_ns, 923_008)
    assert have_faults([recording], EVERYTHING, Measure.TIME)
    assert not have_faults([recording, held([[]])], EVERYTHING, Measure.SAMPLES)
    with styled():
        figure = parts_figure([Bar("a", parts), Bar("b", parts)], Measure.TIME, "handle_mm_fault")
    axes = figure.axes[0]
    per_fault_us = parts.total / 923_008 / 1000
    ends = [patch.get_x() + patch.get_width() for patch in axes.patches]
    assert max(ends) == pytest.approx(per_fault_us)
    assert axes.get_xlabel() == "time in the functions themselves, µs per fault"
    drawn = Counter(round(patch.get_width() / per_fault_us, 6) for patch in axes.patches)
    exact = Counter(round(n / parts.total, 6) for n in parts.weights.values() if n)
    assert all(drawn[share] == 2 * count for share, count in exact.items())


# Metrics.


def side(label: str, values: dict[str, list[float]]) -> Side:
    return Side(label, {name: Measurement(tuple(all_)) for name, all_ in values.items()})


def test_every_run_is_a_dot() -> None:
    runs = [3.0, 1.0, 2.0, 2.5]
    with styled():
        figure = metrics_figure(
            [side("a", {"wall_s": runs}), side("b", {"wall_s": [4.0], "x": [1.0]})]
        )
    first, second = figure.axes
    assert [axes.get_title(loc="left") for axes in figure.axes] == ["wall_s", "x"]
    assert first.get_ylabel() == "seconds"
    dots = [line for line in first.lines if line.get_marker() == "o"]
    assert [list(line.get_ydata()) for line in dots] == [runs, [4.0]]
    assert list(dots[0].get_xdata()) == sorted(dots[0].get_xdata())
    assert len(first.collections) == 1  # one run alone has no interval
    assert [text.get_text() for text in second.get_xticklabels()] == ["a\n0 runs", "b\n1 run"]


def test_units() -> None:
    assert unit("wall_s") == unit("usemem.free_time") == "seconds"
    assert (unit("usemem.stddev%"), unit("usemem.throughput")) == ("percent", "KB/s")
    assert unit("latency") == ""


def test_metrics_are_chosen() -> None:
    one = side("a", {f"m{n}": [1.0] for n in range(20)})
    with styled():
        assert len(metrics_figure([one], ["m1*"]).axes) == 11
        with pytest.raises(FaultprofError, match="20 metrics are too many"):
            metrics_figure([one])
        with pytest.raises(FaultprofError, match="no metric matches z"):
            metrics_figure([one], ["z"])


# Files.


def test_names_are_harmless() -> None:
    names = [*NASTY, "$x$", r"$\frac", "__f", "a\\b{}"]
    calls = calls_taking({100: 5})
    parts = recording_parts(held(SESSION), EVERYTHING, Measure.SAMPLES)
    with styled():
        figures: list[Any] = [
            durations_figure([Series(name, name, calls) for name in names[:4]]),
            durations_figure([Series(name, name, calls) for name in names[-4:]]),
            metrics_figure([side(name, {f"{name}m": [1.0, 2.0]}) for name in names]),
            parts_figure([Bar(name, parts) for name in names], Measure.SAMPLES, names[0]),
        ]
        texts = [file_of(figure, "svg").decode() for figure in figures]
    for text in texts:
        tags = {element.tag for element in ET.fromstring(text).iter()}
        assert not any(tag.endswith("script") for tag in tags)
        assert not re.search("[\x00-\x08\x0b-\x1f\u202a-\u202e\u2066-\u2069]", text)
    for name in ("$x$", "__f", "&lt;script&gt;alert(1)&lt;/script&gt;"):
        assert name in texts[3]


def test_files_are_what_they_say_and_repeat() -> None:
    begins = {"png": b"\x89PNG", "svg": b"<?xml", "pdf": b"%PDF"}
    for kind, start in begins.items():
        contents = set()
        for _ in range(2):
            with styled():
                figure = metrics_figure([side("a", {"wall_s": [1.0, 2.0]})])
                contents.add(file_of(figure, kind))
        assert len(contents) == 1
        assert contents.pop().startswith(start)


def test_the_command(tmp_path: Path) -> None:
    traced(tmp_path / "a.fprof", TRACED)
    done = run(
        "plot", "parts", "a.fprof", "-o", "x.svg", cwd=tmp_path, env={"HOME": "/nonexistent"}
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "faultprof: wrote x.svg\n")
    assert "handle_mm_fault and below" in (tmp_path / "x.svg").read_text()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["hist", "a.fprof"], "hist needs the functions"),
        (["hist", "a.fprof", "-f", "do_fault"], "holds no trace"),
        (["parts", "a.fprof", "-f", "do_fault"], "--function is for hist only"),
        (["parts", "a.fprof", "-o", "x.gif"], "x.gif is neither .png, .svg nor .pdf"),
    ],
)
def test_mistakes(arguments: list[str], message: str, tmp_path: Path) -> None:
    recorded(tmp_path / "a.fprof", SESSION)
    done = run("plot", *arguments, cwd=tmp_path)
    assert done.returncode == 2
    assert message in done.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["a.fprof"]
