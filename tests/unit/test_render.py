"""Every view of the same recordings: they agree, stay in their layout, and are harmless."""

from __future__ import annotations

import io
import json
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from syrupy.assertion import SnapshotAssertion

from faultprof.analysis.selection import Selection
from faultprof.errors import FaultprofError
from faultprof.recording.frames import SYMBOL, USER, Frame
from faultprof.recording.paths import PathCount
from faultprof.recording.reader import Recording
from faultprof.render.folded import folded_frame, folded_name
from faultprof.render.names import label
from faultprof.render.terminal import ASCII, Terminal, sanitise, write_lines
from faultprof.render.views import VIEWS
from tests.unit.recordings import SESSION, Runs, held, random_runs, recorded

PIPE = Terminal()
NARROW = Terminal(width=60)
TERMINAL = Terminal(width=80, colour=True)
COMPLETE = Selection()
USUAL = Selection(min_percent=0.5)


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Recording:
    return recorded(tmp_path_factory.mktemp("session") / "x.fprof", SESSION)


def lines(
    view: str, recording: Recording, selection: Selection = COMPLETE, terminal: Terminal = PIPE
) -> list[str]:
    return list(VIEWS[view](recording, selection, terminal))


def as_json(recording: Recording, selection: Selection = COMPLETE) -> dict[str, Any]:
    report: dict[str, Any] = json.loads("\n".join(lines("json", recording, selection)))
    return report


def walk(node: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield a JSON node and all below it, callers first."""
    yield node
    for child in node["children"]:
        yield from walk(child)


def body(text: list[str]) -> list[str]:
    return [line for line in text if not line.startswith("#")]


# Snapshots of the fixed session.


@pytest.mark.parametrize("terminal", [PIPE, TERMINAL, NARROW, Terminal(glyphs=ASCII)])
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


# Properties of random recordings.


@settings(deadline=None)
@given(runs=random_runs())
def test_inclusive_is_self_and_children(runs: Runs) -> None:
    report = as_json(held(runs))
    for node in walk(report["tree"]):
        children = sum(child["samples"] for child in node["children"])
        assert node["samples"] == node["self_samples"] + children
    assert report["tree"]["samples"] == report["total_samples"]


@settings(deadline=None)
@given(runs=random_runs())
def test_text_agrees_with_json(runs: Runs) -> None:
    recording = held(runs)
    report, total = as_json(recording), max(1, as_json(recording)["total_samples"])
    shown = body(lines("tree", recording))
    nodes = list(walk(report["tree"]))
    assert len(shown) == len(nodes)
    for line, node in zip(shown[1:], nodes[1:], strict=True):
        frame = Frame(node["name"], node["module"], node["resolution"])
        inclusive, own = 100 * node["samples"] / total, 100 * node["self_samples"] / total
        assert line.startswith(f"{inclusive:10.2f}%{own:8.2f}%  ")
        assert line[22:].lstrip("├└─│ ").startswith(label(frame))


@settings(deadline=None)
@given(runs=random_runs())
def test_flat_agrees_with_json(runs: Runs) -> None:
    recording = held(runs)
    report = as_json(recording)
    total = max(1, report["total_samples"])
    expected = [
        f"{100 * f['samples'] / total:10.2f}%{100 * f['self_samples'] / total:8.2f}%"
        f"{f['samples']:12,}  {label(Frame(f['name'], f['module'], f['resolution']))}"
        for f in report["functions"]
    ]
    assert sorted(body(lines("flat", recording))) == sorted(expected)


def unfolded(text: list[str]) -> Counter[tuple[str, ...]]:
    """Read folded stacks back, as flame graph programs do."""
    counts: Counter[tuple[str, ...]] = Counter()
    for line in text:
        stack, count = re.fullmatch(r"(\S+) (\d+)", line).groups()  # type: ignore[union-attr]
        counts[tuple(stack.split(";"))] += int(count)
    return counts


def folded_from_json(recording: Recording, selection: Selection) -> Counter[tuple[str, ...]]:
    """Make folded stacks of each task's JSON; what was cut stays with the callers."""
    counts: Counter[tuple[str, ...]] = Counter()

    def add(node: dict[str, Any], stack: tuple[str, ...]) -> None:
        own = node["samples"] - sum(child["samples"] for child in node["children"])
        if own:
            counts[stack] += own
        for child in node["children"]:
            frame = Frame(child["name"], child["module"], child["resolution"])
            add(child, (*stack, folded_frame(frame)))

    for comm in {segment.comm for segment in recording.rows.segments}:
        chosen = Selection(comms=(comm,), min_percent=selection.min_percent)
        tree = as_json(recording, chosen)["tree"]
        hidden = tree["samples"] - sum(child["samples"] for child in tree["children"])
        add({**tree, "samples": tree["samples"] - hidden}, (folded_name(comm),))
    return counts


@settings(deadline=None)
@given(runs=random_runs(), percent=st.sampled_from([0, 3, 20]))
def test_folded_agrees_with_json(runs: Runs, percent: float) -> None:
    recording = held(runs)
    selection = Selection(min_percent=percent)
    assert unfolded(lines("folded", recording, selection)) == folded_from_json(recording, selection)


def test_folded_round_trip(session: Recording) -> None:
    expected: Counter[tuple[str, ...]] = Counter()
    for run in SESSION:
        for comm, frames, samples in run:
            names = [folded_name(frame.function) for frame in frames]
            kernel = ["" if frame.resolution == USER else "_[k]" for frame in frames]
            stack = [name + suffix for name, suffix in zip(names, kernel, strict=True)]
            expected[folded_name(comm), *stack] += samples
    assert unfolded(lines("folded", session)) == expected


@settings(deadline=None)
@given(runs=random_runs(), percent=st.sampled_from([0.5, 10]), width=st.integers(50, 120))
def test_lines_fit_the_terminal(runs: Runs, percent: float, width: int) -> None:
    recording = held(runs)
    selection = Selection(min_percent=percent)
    for view in ("tree", "flat"):
        for line in lines(view, recording, selection, Terminal(width=width)):
            assert len(line) <= max(width, 80 if line.startswith("#") else 0)


# Known answers.


def test_what_is_cut_is_said(session: Recording) -> None:
    assert lines("tree", session, USUAL)[-1] == "# 2 nodes below 0.5% not shown"
    assert lines("flat", session, USUAL)[-1] == "# 2 functions below 0.5% not shown"
    shallow = lines("tree", session, Selection(min_percent=50, max_depth=3))
    assert shallow[-1] == "# 23 nodes below 50% or deeper than 3 not shown"
    assert not lines("tree", session)[-1].startswith("#")
    assert as_json(session, USUAL)["hidden_nodes"] == 2


def test_the_report_says_what_percentages_are_of(session: Recording) -> None:
    def said(selection: Selection) -> str:
        text = "\n".join(lines("tree", session, selection))
        (found,) = re.findall(r"^# percent   (.*(?:\n#  .*)*)", text, re.MULTILINE)
        return re.sub(r"\n#\s+", " ", found)

    assert said(COMPLETE) == "absolute: of all 1,000 samples of the recorded processes"
    root = Selection(root="do_read_fault", relative=True)
    assert said(root) == "relative: of the 246 samples in do_read_fault"
    both = Selection(root="do_read_fault", comms=("usemem",), relative=True)
    assert said(both) == "relative: of the 246 samples in do_read_fault, tasks named usemem"
    one = Selection(comms=("kworker/0:1",))
    assert said(one).endswith("recorded processes; shown are tasks named kworker/0:1")


def test_the_clock_without_interrupts_is_explained(session: Recording) -> None:
    text = " ".join(line.lstrip("# ") for line in lines("tree", session))
    assert "interrupts off: its time is charged to the instruction that turns them on" in text


def test_marks() -> None:
    assert label(Frame("do_fault")) == "do_fault"
    assert label(Frame("do_fault", "", "symbol:.isra.0")) == "do_fault (.isra.0)"
    assert label(Frame("clear_page", "", "inlined")) == "clear_page (inlined)"
    assert label(Frame("do_read_fault", "", "inferred")) == "do_read_fault (inferred)"
    assert label(Frame("f", "ext4", "inlined+symbol")) == "f [ext4] (partly inlined)"
    assert label(Frame("malloc", "libc.so.6", USER)) == "malloc [libc.so.6]"


NASTY = [
    "<script>alert(1)</script>",
    "\x1b]0;title\x07\x1b[2J",
    "\u202e\u2066right to left\u200b",
    "new\nline\rreturn\u2028separator\x85",
    "a;b c;d",
    "\u00a0\u3000wide blanks",
    "x" * 10_000,
    "",
]


@pytest.mark.parametrize("name", NASTY)
@pytest.mark.parametrize("view", VIEWS)
def test_names_are_harmless(view: str, name: str, tmp_path: Path) -> None:
    frame = Frame(name, name, f"symbol:{name}")
    paths = [PathCount(name, (frame, Frame("leaf")), 1)]
    recording = recorded(tmp_path / "x.fprof", [paths])
    for line in lines(view, recording):
        assert line.isprintable()
    if view == "folded":
        (line,) = lines(view, recording)
        assert len(line.split(" ")) == 2
        assert line.count(";") == 2
    if view == "json":
        assert as_json(recording)["tree"]["children"][0]["name"] == name
    if view in ("tree", "flat"):
        for line in body(lines(view, recording, USUAL, NARROW)):
            assert len(line) <= 60


def test_deep_trees_stay_readable(tmp_path: Path) -> None:
    """A fork at each of 40 levels: 120 columns of indentation would be needed."""
    paths = []
    for level in range(40):
        stem = tuple(Frame(f"level_{above}") for above in range(level + 1))
        paths.append(PathCount("t", (*stem, Frame("side")), 1))
    recording = recorded(tmp_path / "x.fprof", [paths])
    shown = body(lines("tree", recording))
    assert all(len(line) <= 80 for line in shown)
    deepest = next(line for line in shown if "level_39" in line)
    assert re.search(r"\+\d+ ", deepest)
    assert as_json(recording)["tree"]["children"][0]["name"] == "level_0"


def test_json_is_not_limited_in_depth(tmp_path: Path) -> None:
    deep = tuple(Frame(f"f{level % 3}") for level in range(3_000))
    recording = recorded(tmp_path / "x.fprof", [[PathCount("t", deep, 2)]])
    text = "".join(lines("json", recording))
    assert text.count('"children": [') == 3_001
    assert text.endswith("]}" * 3_001 + "}")


def test_an_empty_recording_is_said_to_be_one(tmp_path: Path) -> None:
    recording = recorded(tmp_path / "x.fprof", [[]])
    for view in ("tree", "flat"):
        assert lines(view, recording, USUAL)[-1].startswith("# no samples")
    assert lines("folded", recording) == []
    assert as_json(recording)["functions"] == []


# The terminal.


class Screen(io.StringIO):
    """A stream that says it is a terminal."""

    encoding = "utf-8"

    def isatty(self) -> bool:
        return True


def test_colour_is_for_terminals_only() -> None:
    environment = {"TERM": "xterm"}
    assert Terminal.of(Screen(), environment).colour
    assert not Terminal.of(Screen(), {**environment, "NO_COLOR": "1"}).colour
    assert not Terminal.of(Screen(), {"TERM": "dumb"}).colour
    assert not Terminal.of(io.TextIOWrapper(io.BytesIO(), "utf-8"), environment).colour


def test_a_pipe_cuts_no_names(session: Recording) -> None:
    assert Terminal.of(io.TextIOWrapper(io.BytesIO(), "utf-8")).width is None


def test_streams_that_cannot_draw_get_plain_glyphs(session: Recording) -> None:
    stream = io.TextIOWrapper(io.BytesIO(), "ascii")
    terminal = Terminal.of(stream)
    assert terminal.glyphs is ASCII
    write_lines(stream, ["naïve", *lines("tree", session, USUAL, terminal)])
    assert isinstance(stream.buffer, io.BytesIO)
    assert stream.buffer.getvalue().startswith(b"na\\xefve\n# command")


@given(st.text())
def test_sanitised_text_is_printable(text: str) -> None:
    assert sanitise(text).isprintable()
    assert sanitise(sanitise(text)) == sanitise(text)


def test_sanitise_leaves_ordinary_names_alone() -> None:
    for name in ("do_fault", "operator<<(std::ostream&)", "naïve", "[unknown]", SYMBOL):
        assert sanitise(name) == name


def test_one_run_is_shown_alone_and_said(session: Recording) -> None:
    both = [Selection(run=number) for number in (0, 1)]
    trees = [one.tree(session) for one in both]
    assert sum(tree.total for tree in trees) == COMPLETE.tree(session).total
    assert all(0 < tree.total < COMPLETE.tree(session).total for tree in trees)
    text = "\n".join(lines("tree", session, both[1]))
    assert "100 in run 1 of 2, counted from 0" in text
    assert "next_uptodate_folio" not in text  # it is in run 0 only
    assert json.loads("\n".join(lines("json", session, both[1])))["run"] == 1
    with pytest.raises(FaultprofError, match="no run 2") as caught:
        lines("tree", session, Selection(run=2))
    assert caught.value.hint == "it has runs 0 to 1"
