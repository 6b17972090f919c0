"""Every view of traced calls: they agree, stay in their layout, and are harmless."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from syrupy.assertion import SnapshotAssertion

from faultprof.analysis.selection import Selection
from faultprof.analysis.trace_tree import TraceTree
from faultprof.errors import ExitCode, FaultprofError
from faultprof.recording.frames import Frame
from faultprof.recording.histogram import NO_END_NS, bucket_of, histogram_of
from faultprof.recording.reader import Recording
from faultprof.recording.traced import TracedPath
from faultprof.render.folded import folded_frame, folded_name
from faultprof.render.names import label
from faultprof.render.terminal import ASCII, UNICODE, Terminal
from faultprof.render.trace_histogram import bars, histogram_lines
from faultprof.render.units import duration, prose, three_digits
from faultprof.render.views import VIEWS
from tests.unit.recordings import SESSION, held, recorded
from tests.unit.test_render import NASTY, body, lines, unfolded, walk
from tests.unit.traces import (
    TRACED,
    Call,
    Tasks,
    events,
    held_calls,
    held_trace,
    histogram,
    random_tasks,
    traced,
    traced_metadata,
)

PIPE = Terminal()
TERMINAL = Terminal(width=80, colour=True)
PLAIN = Terminal(width=80, glyphs=ASCII)
COMPLETE = Selection()
USUAL = Selection(min_percent=0.5)
FIGURES = ("calls", "inclusive_ns", "self_ns", "min_ns", "max_ns", "p50_ns", "p99_ns", "offcpu_ns")


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Recording:
    return traced(tmp_path_factory.mktemp("session") / "x.fprof", TRACED)


def as_json(recording: Recording, selection: Selection = COMPLETE) -> dict[str, Any]:
    report: dict[str, Any] = json.loads("\n".join(lines("json", recording, selection)))
    trace: dict[str, Any] = report["trace"]
    return trace


def nodes_of(trace: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the nodes of a JSON tree that are calls, without a top that stands for all."""
    return [node for node in walk(trace["tree"]) if "calls" in node]


def frame_of(one: dict[str, Any]) -> Frame:
    return Frame(one["name"], one["module"], one["resolution"])


# Snapshots of the fixed session.


@pytest.mark.parametrize("terminal", [PIPE, TERMINAL, PLAIN])
@pytest.mark.parametrize("view", ["tree", "flat"])
def test_text_looks_as_it_did(
    view: str, terminal: Terminal, session: Recording, snapshot: SnapshotAssertion
) -> None:
    assert "\n".join(lines(view, session, USUAL, terminal)) == snapshot


@pytest.mark.parametrize("view", VIEWS)
def test_whole_views_look_as_they_did(
    view: str, session: Recording, snapshot: SnapshotAssertion
) -> None:
    assert "\n".join(lines(view, session)) == snapshot


@pytest.mark.parametrize("view", VIEWS)
def test_a_root_looks_as_it_did(view: str, session: Recording, snapshot: SnapshotAssertion) -> None:
    selection = Selection(root="do_fault", comms=("usemem",), relative=True, min_percent=5)
    assert "\n".join(lines(view, session, selection)) == snapshot


@pytest.mark.parametrize("view", ["tree", "flat", "json"])
@pytest.mark.parametrize("wide", [True, False])
def test_figures_per_fault_look_as_they_did(
    view: str, wide: bool, session: Recording, snapshot: SnapshotAssertion
) -> None:
    selection = Selection(root="handle_mm_fault", per_fault=True, wide=wide, min_percent=1)
    assert "\n".join(lines(view, session, selection)) == snapshot


@pytest.mark.parametrize("view", ["tree", "flat"])
def test_wide_views_look_as_they_did(
    view: str, session: Recording, snapshot: SnapshotAssertion
) -> None:
    assert "\n".join(lines(view, session, Selection(wide=True))) == snapshot


@pytest.mark.parametrize("terminal", [PIPE, Terminal(width=50), PLAIN])
@pytest.mark.parametrize("function", ["next_uptodate_folio", "walk", "folio_wait_bit_common"])
def test_histograms_look_as_they_did(
    function: str, terminal: Terminal, session: Recording, snapshot: SnapshotAssertion
) -> None:
    assert "\n".join(histogram_lines(session, function, COMPLETE, terminal)) == snapshot


# Which source is shown.


def test_samples_can_be_chosen(session: Recording, tmp_path: Path) -> None:
    samples = Selection(source="sample")
    alone = recorded(tmp_path / "x.fprof", SESSION, traced_metadata())
    alone_lines = {view: lines(view, alone, samples) for view in VIEWS}
    assert {view: lines(view, session, samples) for view in VIEWS} == alone_lines
    assert lines("tree", session, Selection(source="trace")) == lines("tree", session)
    assert lines("tree", session) != alone_lines["tree"]


def test_json_has_both(session: Recording, tmp_path: Path) -> None:
    alone = recorded(tmp_path / "x.fprof", SESSION, traced_metadata())
    both = json.loads("\n".join(lines("json", session)))
    assert both.pop("trace")
    assert both == json.loads("\n".join(lines("json", alone, Selection(source="sample"))))


def test_json_of_a_root_that_no_sample_is_in(session: Recording) -> None:
    """What is inlined may be traced and not sampled: the trace decides what there is."""
    selection = Selection(root="folio_wait_bit_common", relative=True)
    report = json.loads("\n".join(lines("json", session, selection)))
    assert (report["functions"], report["total_samples"]) == ([], 0)
    assert report["trace"]["tree"]["calls"] == 6
    with pytest.raises(FaultprofError) as caught:
        lines("json", session, Selection(root="folio_add_lru"))
    assert caught.value.exit_code == ExitCode.USAGE


@pytest.mark.parametrize(
    "selection", [Selection(source="trace"), Selection(wide=True), Selection(per_fault=True)]
)
def test_a_recording_without_a_trace_says_so(selection: Selection) -> None:
    recording = held(SESSION)
    for view in VIEWS:
        with pytest.raises(FaultprofError, match="holds no trace") as caught:
            lines(view, recording, selection)
        assert caught.value.exit_code == ExitCode.USAGE
    with pytest.raises(FaultprofError, match="holds no trace"):
        list(histogram_lines(recording, "do_fault", COMPLETE, PIPE))


def test_a_task_without_a_trace_is_unknown(session: Recording) -> None:
    with pytest.raises(FaultprofError, match="no task named kworker") as caught:
        lines("tree", session, Selection(comms=("kworker/0:1",)))
    assert caught.value.hint == "it has: usemem"
    assert lines("tree", session, Selection(comms=("kworker/0:1",), source="sample"))


# Properties of random traces.


@settings(deadline=None, max_examples=50)
@given(tasks=random_tasks())
def test_inclusive_is_self_and_children(tasks: Tasks) -> None:
    trace = as_json(held_calls(tasks))
    for node in walk(trace["tree"]):
        children = sum(child["inclusive_ns"] or 0 for child in node["children"])
        assert (node["inclusive_ns"] or 0) == (node["self_ns"] or 0) + children
    assert (trace["tree"]["inclusive_ns"] or 0) == trace["total_ns"]


@settings(deadline=None, max_examples=50)
@given(tasks=random_tasks())
def test_json_has_every_call(tasks: Tasks) -> None:
    trace = as_json(held_calls(tasks))
    calls = [call for _, call in events(c for run in tasks for cs in run.values() for c in cs)]
    for part in (nodes_of(trace), trace["functions"]):
        found: Counter[tuple[str, int]] = Counter()
        for one in part:
            found[one["name"], one["calls"]] += 1
            if one["histogram"] is not None:
                assert sum(count for _, count in one["histogram"]) == one["calls"]
        begun = sum(one["calls"] + one["unfinished"] for one in part)
        assert begun == len(calls)
        assert sum(one["self_ns"] or 0 for one in part) == sum(
            call.self_ns for call in calls if call.returned
        )


@settings(deadline=None, max_examples=50)
@given(tasks=random_tasks(), wide=st.booleans())
def test_text_agrees_with_json(tasks: Tasks, wide: bool) -> None:
    recording = held_calls(tasks)
    trace = as_json(recording)
    nodes = nodes_of(trace)
    shown = body(lines("tree", recording, Selection(wide=wide)))
    if shown and "all traced calls" in shown[0]:
        del shown[0]
    assert len(shown) == len(nodes)
    for line, node in zip(shown, nodes, strict=True):
        cells, _, name = re.fullmatch(
            r"((?: *[\d.,e+-]+(?: +(?:ns|µs|ms|s)\b|%)?(?:  |$))+)([├└─│ ]*)(.*)", line
        ).groups()  # type: ignore[union-attr]
        assert name == label(frame_of(node)) + _often(node)
        expected = [_percent(node["inclusive_ns"], trace), f"{node['calls']:,}"]
        if wide:
            ratio = node["calls_per_caller"]
            expected.append("-" if ratio is None else three_digits(ratio))
            expected += [_time(node[f"{key}_ns"]) for key in ("inclusive", "self")]
        expected.append(_time(node["avg_ns"]))
        expected += [_time(node[f"{key}_ns"]) for key in (["p50"] if wide else []) + ["p99"]]
        expected += [_time(node["max_ns"])] if wide else []
        share = 100 * node["offcpu_ns"] / node["inclusive_ns"] if node["inclusive_ns"] else None
        expected.append("-" if share is None else f"{share:.1f}%")
        found = re.findall(r"[\d.,e+-]+(?: +(?:ns|µs|ms|s)\b|%)?", cells)
        assert [" ".join(cell.split()) for cell in found] == expected


def _often(node: dict[str, Any]) -> str:
    mean, per_call = node["calls_per_caller"], node["per_call"] or [[1, 1]]
    most = max(bound for bound, _ in per_call)
    if mean is None or (mean <= 1 and most == 1):
        return ""
    return f" ×{three_digits(mean)}" + (f" ≤{most}" if most > 1 else "")


def _time(ns: float | None) -> str:
    return prose(ns, UNICODE)


def _percent(ns: int | None, trace: dict[str, Any]) -> str:
    return "-" if ns is None else f"{100 * ns / (trace['total_ns'] or 1):.2f}%"


@settings(deadline=None, max_examples=50)
@given(tasks=random_tasks())
def test_flat_agrees_with_json(tasks: Tasks) -> None:
    recording = held_calls(tasks)
    trace = as_json(recording)
    functions = trace["functions"]
    shown = body(lines("flat", recording))
    assert [line.split()[:3] for line in shown] == [
        [*(_percent(one[f"{key}_ns"], trace) for key in ("self", "inclusive")), f"{one['calls']:,}"]
        for one in sorted(functions, key=_rank)
    ]
    assert sorted(re.split(r"[%-]  ", line)[-1] for line in shown) == sorted(
        label(frame_of(one)) for one in functions
    )


def _rank(one: dict[str, Any]) -> tuple[int, int, int]:
    own, inclusive = one["self_ns"] or 0, one["inclusive_ns"] or 0
    return -own, -inclusive, -(one["calls"] + one["unfinished"])


@settings(deadline=None, max_examples=50)
@given(tasks=random_tasks(), percent=st.sampled_from([0, 3, 20]))
def test_folded_is_the_time_of_each_call(tasks: Tasks, percent: float) -> None:
    recording = held_calls(tasks)
    expected: Counter[tuple[str, ...]] = Counter()
    total = sum(call.ns for run in tasks for calls in run.values() for call in calls)
    by_path: Counter[tuple[str, tuple[Frame, ...]]] = Counter()
    for comm, path, call in _tasks_events(tasks):
        by_path[comm, tuple(Frame(f.function, f.module) for f in path)] += call.ns
    for (comm, path), ns in by_path.items():
        # What is hidden counts for the nearest caller that is shown.
        if ns * 100 >= percent * total:
            name = folded_name(comm)
            stack = tuple(folded_frame(frame) for frame in path)
            expected[name, *stack] += ns
            if len(path) > 1:
                expected[name, *stack[:-1]] -= ns
    found = unfolded(lines("folded", recording, Selection(min_percent=percent)))
    assert found == +expected


def _tasks_events(tasks: Tasks) -> Iterator[tuple[str, tuple[Frame, ...], Call]]:
    for run in tasks:
        for comm, calls in run.items():
            for path, call in events(calls):
                yield comm, path, call


@settings(deadline=None, max_examples=50)
@given(tasks=random_tasks(), percent=st.sampled_from([0.5, 10]), width=st.integers(80, 120))
def test_lines_fit_the_terminal(tasks: Tasks, percent: float, width: int) -> None:
    recording = held_calls(tasks)
    terminal = Terminal(width=width)
    selection = Selection(min_percent=percent)
    for view in ("tree", "flat"):
        for line in lines(view, recording, selection, terminal):
            assert len(line) <= width
    for function in TraceTree.from_recording(recording).functions():
        if function.calls.timed_calls:
            drawn = list(histogram_lines(recording, function.frame.function, COMPLETE, terminal))
            assert max(map(len, drawn)) <= width


@settings(deadline=None, max_examples=50)
@given(tasks=random_tasks())
def test_per_fault_divides_calls_and_times(tasks: Tasks) -> None:
    recording = held_calls(tasks)
    faults = TraceTree.from_recording(recording).faults
    per_fault = Selection(per_fault=True)
    if not faults:
        for view in ("tree", "flat", "json"):
            with pytest.raises(FaultprofError, match="no figures per fault") as caught:
                lines(view, recording, per_fault)
            assert caught.value.exit_code == ExitCode.USAGE
        return
    whole, divided = as_json(recording), as_json(recording, per_fault)
    assert divided["faults"] == whole["faults"] == faults
    for all_, each in zip(nodes_of(whole), nodes_of(divided), strict=True):
        for name, value in all_.items():
            if name in ("calls", "unfinished", "inclusive_ns", "self_ns", "offcpu_ns"):
                value = None if value is None else value / faults
            if name != "children":
                assert each[name] == value


@given(st.dictionaries(st.integers(0, 2**40) | st.integers(0, 300), st.integers(1, 9), min_size=1))
def test_bars_hold_every_call_once(calls: dict[int, int]) -> None:
    rows = bars(histogram_of(histogram(calls)))
    assert sum(row.calls for row in rows) == sum(calls.values())
    assert rows[0].lower_ns <= min(calls)
    for row, following in pairwise(rows):
        assert row.end_ns == following.lower_ns
    for row in rows:
        end = row.end_ns if row.end_ns is not None else NO_END_NS
        inside = sum(count for ns, count in calls.items() if row.lower_ns <= ns < end)
        assert inside == row.calls
    # Finer than powers of two as long as there are at most 24 rows.
    span = bucket_of(max(calls)) - bucket_of(min(calls))
    if span < 24:
        assert len(rows) == span + 1
    assert len(rows) <= 37
    assert rows[0].calls
    assert rows[-1].calls


# Known answers.


def test_the_issue_s_fields_are_there(session: Recording) -> None:
    trace = as_json(session)
    (waits,) = [one for one in trace["functions"] if one["name"] == "folio_wait_bit_common"]
    assert {name: waits[name] for name in FIGURES} == {
        "calls": 6,
        "inclusive_ns": 12_600_000,
        "self_ns": 12_600_000,
        "min_ns": 2_100_000,
        "max_ns": 2_100_000,
        "p50_ns": 2_100_000,
        "p99_ns": 2_100_000,
        "offcpu_ns": 12_000_000,
    }
    assert waits["histogram"] == [[2_621_439, 6]]
    assert (waits["resolution"], waits["unfinished"]) == ("symbol", 2)
    (counted,) = [one for one in trace["functions"] if "rmap" in one["name"]]
    assert counted["calls"] == 351_999
    assert {counted[name] for name in FIGURES[1:]} == {None}
    assert counted["histogram"] is counted["inclusive_percent"] is None


def test_the_multiplicity_of_each_edge_is_there(session: Recording) -> None:
    nodes = {node["name"]: node for node in nodes_of(as_json(session))}
    assert nodes["filemap_map_pages"]["calls_per_caller"] == 36_000 / 22_008
    assert nodes["handle_mm_fault"]["calls_per_caller"] is None
    assert nodes["filemap_map_pages"]["per_call"] == [[0, 8], [1, 8_000], [2, 14_000]]
    assert nodes["next_uptodate_folio"]["per_call"][-1] == [NO_END_NS, 1]
    assert nodes["do_anonymous_page"]["per_call"] is None


def test_calls_without_an_end_are_said(session: Recording) -> None:
    said = "# 2 calls did not return: not among the calls, and only the time below is known"
    for view in ("tree", "flat"):
        assert lines(view, session, USUAL)[-1] == said
        assert "did not return" not in "\n".join(lines(view, session, Selection(root="walk")))


def said(recording: Recording, selection: Selection, key: str = "percent") -> str:
    text = "\n".join(lines("tree", recording, selection))
    (found,) = re.findall(rf"^# {key} +(.*(?:\n#  .*)*)", text, re.MULTILINE)
    return re.sub(r"\n#\s+", " ", found)


def test_the_report_says_what_percentages_are_of(session: Recording) -> None:
    assert said(session, COMPLETE) == (
        "absolute: of all time traced, 13.7 s in clear_page_erms, handle_mm_fault, walk (of faults "
        "alone: --root handle_mm_fault --relative)"
    )
    root = Selection(root="do_read_fault", relative=True)
    assert said(session, root) == "relative: of the 1.87 s in do_read_fault"
    both = Selection(root="walk", comms=("usemem",), relative=True)
    assert said(session, both) == "relative: of the 10.0 s in walk, tasks named usemem"
    one = held_trace([[TRACED[0][0]._replace(self_ns=TRACED[0][0].inclusive_ns)]])
    assert said(one, COMPLETE) == "absolute: of all time traced, 3.67 s in handle_mm_fault"


def test_the_report_says_how_calls_were_traced(session: Recording) -> None:
    assert said(session, COMPLETE, "mode") == (
        "trace, clock monotonic; beside it a sampler, clock cpu-clock at 99 Hz"
    )
    assert said(session, COMPLETE, "probes") == (
        "6 functions: 3 by fentry, 1 by kprobe, 1 by a condition in another, 1 only counted, "
        "where inlined"
    )
    assert said(session, COMPLETE, "calls").startswith("5,683,173 in 2 runs (wall 1.50 s")


def test_a_trace_without_a_sampler(tmp_path: Path) -> None:
    metadata = replace(traced_metadata(), clock="monotonic", frequency=0, functions={})
    recording = traced(tmp_path / "x.fprof", TRACED, [], metadata)
    assert said(recording, COMPLETE, "mode") == "trace, clock monotonic"
    assert "# probes" not in "\n".join(lines("tree", recording))


def test_off_cpu_that_nobody_looked_at_is_not_0(tmp_path: Path) -> None:
    unknown = [[path._replace(offcpu_ns=None) for path in paths] for paths in TRACED]
    recording = traced(tmp_path / "x.fprof", unknown)
    for line in body(lines("tree", recording))[1:]:
        assert re.match(r" *\S+ +[\d,]+ +(- |\S+ +\w+) +(- |\S+ +\w+) +-  ", line), line
    assert {node["offcpu_ns"] for node in nodes_of(as_json(recording))} == {None}


def test_nothing_called_is_said(tmp_path: Path) -> None:
    recording = traced(tmp_path / "x.fprof", [[]])
    for view in ("tree", "flat"):
        assert lines(view, recording, USUAL)[-1] == "# no calls: nothing that was traced was called"
    assert lines("folded", recording) == []
    assert as_json(recording)["functions"] == []


def test_durations_that_are_not_there_are_refused(session: Recording) -> None:
    def refusal(function: str, recording: Recording = session) -> FaultprofError:
        with pytest.raises(FaultprofError) as caught:
            list(histogram_lines(recording, function, COMPLETE, PIPE))
        assert caught.value.exit_code == ExitCode.USAGE
        return caught.value

    assert refusal("next_uptodate_foli").hint.startswith("nearest: next_uptodate_folio")
    assert "its 351,999 calls were only counted" in refusal("<b>rmap\x1b[2J").message
    never = held_trace([[TracedPath("t", (Frame("f"),), 0, unfinished=3)]])
    assert "its 3 calls did not return" in refusal("f", never).message


def test_call_sites_of_a_histogram_are_merged(session: Recording) -> None:
    text = "\n".join(histogram_lines(session, "clear_page_erms", COMPLETE, PIPE))
    assert "# function  clear_page_erms: 900,040 calls on 2 paths together\n" in text
    below = Selection(root="do_anonymous_page")
    text = "\n".join(histogram_lines(session, "clear_page_erms", below, PIPE))
    assert "900,000 calls on one path below do_anonymous_page\n" in text


@pytest.mark.parametrize("name", NASTY)
def test_names_are_harmless(name: str, tmp_path: Path) -> None:
    frame = Frame(name, name, f"symbol:{name}")
    paths = [TracedPath(name, (frame,), 1, 0, 8, 8, 8, 8, 0, histogram({8: 1}))]
    recording = traced(tmp_path / "x.fprof", [paths])
    for view in VIEWS:
        for line in lines(view, recording):
            assert line.isprintable()
    for line in histogram_lines(recording, name, COMPLETE, PIPE):
        assert line.isprintable()
    for wide in (False, True):
        terminal = Terminal(width=130 if wide else 80)
        for line in body(lines("tree", recording, Selection(wide=wide), terminal)):
            assert len(line) <= 130 if wide else 80


@pytest.mark.parametrize(
    ("ns", "text"),
    [
        (None, "-"),
        (0, "0 ns"),
        (7, "7 ns"),
        (999, "999 ns"),
        (999.4, "999 ns"),
        (999.5, "1.00 µs"),
        (45.67, "45.7 ns"),
        (0.04567, "0.0457 ns"),
        (0.9996, "1.00 ns"),
        (1_000, "1.00 µs"),
        (1_234, "1.23 µs"),
        (9_996, "10.0 µs"),
        (45_600_000, "45.6 ms"),
        (999_499_999, "999 ms"),
        (999_500_000, "1.00 s"),
        (123_456_000_000, "123 s"),
        (12_345_600_000_000, "12,346 s"),
    ],
)
def test_times_have_three_digits(ns: float | None, text: str) -> None:
    assert prose(ns, UNICODE) == text


@given(st.integers(0, 10**15), st.integers(0, 10**15))
def test_longer_times_read_longer(one: int, other: int) -> None:
    units = {"ns": 1, "µs": 10**3, "ms": 10**6, "s": 10**9}

    def read(ns: int) -> float:
        number, unit = duration(ns, UNICODE).split()
        return float(number.replace(",", "")) * units[unit]

    assert read(one) == pytest.approx(one, rel=0.005)
    assert (read(one) <= read(other)) or one > other


def test_units_stand_in_line() -> None:
    texts = [duration(ns, UNICODE).rjust(8) for ns in (12, 1_234, 5_000_000, 10**10)]
    assert [text.rindex(" ") for text in texts[:3]] == [5, 5, 5]
    assert texts[3] == " 10.0  s"
    assert duration(1_234, ASCII) == "1.23 us"
