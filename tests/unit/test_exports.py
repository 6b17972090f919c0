"""Every export says the same as report --json, is what its readers expect, and is harmless."""

from __future__ import annotations

import gzip
import json
import re
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings

from faultprof.analysis.selection import Selection
from faultprof.analysis.weights import Measure
from faultprof.recording.frames import Frame
from faultprof.recording.paths import PathCount
from faultprof.recording.reader import Recording
from faultprof.render.exports import FORMATS, format_of
from faultprof.render.exports.protobuf import varint
from faultprof.render.folded import folded_frame, folded_name
from faultprof.render.names import found_mark
from faultprof.render.terminal import sanitise
from tests.running import run
from tests.unit import exported as read
from tests.unit.exported import Weights, exported
from tests.unit.recordings import SESSION, Runs, held, random_runs, recorded
from tests.unit.test_render import NASTY, as_json
from tests.unit.test_trace_render import as_json as trace_json
from tests.unit.traces import TRACED, Tasks, held_calls, held_trace, random_tasks, traced

Namer = Callable[[Frame], str]


def marked(frame: Frame) -> str:
    """Return a frame's name as exports with room for marks have it."""
    mark = found_mark(frame)
    return (sanitise(frame.function) or "[no name]") + (f" ({mark})" if mark else "")


def plain(frame: Frame) -> str:
    return sanitise(frame.function) or "[no name]"


def expected(
    trees: dict[str, dict[str, Any]], figure: str, comm: Namer | Any, name: Namer
) -> Weights:
    """Return what must end on each path, from the JSON trees of each task.

    What was left out of a tree ends with its callers.
    """
    weights: Weights = Counter()

    def add(node: dict[str, Any], path: tuple[str, ...]) -> None:
        below = sum(child[figure] or 0 for child in node["children"])
        weights[path] += (node[figure] or 0) - below
        for child in node["children"]:
            frame = Frame(child["name"], child["module"], child["resolution"])
            add(child, (*path, name(frame)))

    for task, tree in trees.items():
        if "calls" in tree:  # the only root of a trace, which then has no [all] above it
            tree = {"children": [tree], figure: tree[figure]}
        hidden = (tree[figure] or 0) - sum(child[figure] or 0 for child in tree["children"])
        add({**tree, figure: (tree[figure] or 0) - hidden}, (comm(task),))
    return Counter({path: weight for path, weight in weights.items() if weight})


def positive(weights: Weights) -> Weights:
    return Counter({path: weight for path, weight in weights.items() if weight})


def json_trees(recording: Recording, source: str, percent: float) -> dict[str, dict[str, Any]]:
    """Return the tree of each task as report --json has it."""
    comms = {one.comm for one in recording.rows.segments if one.source == source}
    reader = trace_json if source == "trace" else as_json
    return {
        comm: reader(recording, Selection(comms=(comm,), min_percent=percent))["tree"]
        for comm in comms
    }


@pytest.mark.parametrize("percent", [0.0, 5.0])
@settings(max_examples=15)
@given(runs=random_runs())
def test_exports_of_samples_agree_with_json(runs: Runs, percent: float) -> None:
    recording, selection = held(runs), Selection(min_percent=percent)
    trees = json_trees(recording, "sample", percent)
    weights = expected(trees, "samples", sanitise, marked)
    assert read.speedscope(exported(recording, "speedscope", selection)) == weights
    assert read.firefox(exported(recording, "firefox", selection)) == weights
    assert read.pprof(exported(recording, "pprof", selection)) == {"samples": weights}
    folded = expected(trees, "samples", folded_name, folded_frame)
    assert read.folded(exported(recording, "folded", selection)) == folded
    if not percent:
        table = read.table(exported(recording, "csv"), "self_samples")
        assert positive(table) == expected(trees, "samples", sanitise, plain)


@settings(max_examples=20)
@given(tasks=random_tasks())
def test_exports_of_traces_agree_with_json(tasks: Tasks) -> None:
    recording = held_calls(tasks)
    trees = json_trees(recording, "trace", 0)
    weights = expected(trees, "inclusive_ns", sanitise, marked)
    assert read.speedscope(exported(recording, "speedscope")) == weights
    assert read.firefox(exported(recording, "firefox")) == weights
    values = {kind: positive(one) for kind, one in read.pprof(exported(recording, "pprof")).items()}
    assert values["time"] == weights
    assert values["calls"] == begun(trees)
    folded = expected(trees, "inclusive_ns", folded_name, folded_frame)
    assert read.folded(exported(recording, "folded")) == folded
    table = positive(read.table(exported(recording, "csv"), "self_ns"))
    assert table == expected(trees, "inclusive_ns", sanitise, plain)


def begun(trees: dict[str, dict[str, Any]]) -> Weights:
    """Return the calls that began on each path."""
    weights: Weights = Counter()

    def add(node: dict[str, Any], path: tuple[str, ...]) -> None:
        if "calls" in node:
            path = (*path, marked(Frame(node["name"], node["module"], node["resolution"])))
            weights[path] += node["calls"] + node["unfinished"]
        for child in node["children"]:
            add(child, path)

    for task, tree in trees.items():
        add(tree, (sanitise(task),))
    return positive(weights)


def test_json_is_the_report() -> None:
    recording = held_trace(TRACED)
    whole = json.loads(exported(recording, "json"))
    assert whole["trace"] == trace_json(recording)


def test_by_calls_and_off_cpu() -> None:
    recording = held_trace(TRACED)
    calls = read.folded(exported(recording, "folded", measure=Measure.CALLS))
    assert calls["usemem", "handle_mm_fault_[k]"] == 923_008
    waits = positive(read.pprof(exported(recording, "pprof"))["offcpu"])
    assert waits == {path: 12_000_000 for path in waits if path[-1] == "folio_wait_bit_common"}
    assert len(waits) == 1
    unknown = [[path._replace(offcpu_ns=None) for path in run] for run in TRACED]
    assert set(read.pprof(exported(held_trace(unknown), "pprof"))) == {"calls", "time"}


# What each format demands.


def check_speedscope(content: bytes) -> None:
    """Check against the rules of speedscope's schema (src/lib/file-format-spec.ts there)."""
    file = json.loads(content)
    assert file["$schema"] == "https://www.speedscope.app/file-format-schema.json"
    assert set(file) <= {"$schema", "exporter", "name", "activeProfileIndex", "shared", "profiles"}
    for frame in file["shared"]["frames"]:
        assert set(frame) <= {"name", "file"}
        assert all(isinstance(value, str) and value for value in frame.values())
    for profile in file["profiles"]:
        assert set(profile) == {
            *("type", "name", "unit", "startValue", "endValue", "samples", "weights")
        }
        assert profile["type"] == "sampled"
        assert profile["unit"] in ("none", "nanoseconds")
        assert len(profile["samples"]) == len(profile["weights"])
        assert profile["endValue"] - profile["startValue"] == sum(profile["weights"])
        for stack in profile["samples"]:
            assert all(0 <= frame < len(file["shared"]["frames"]) for frame in stack)
    if file["profiles"]:
        assert 0 <= file["activeProfileIndex"] < len(file["profiles"])


def check_firefox(content: bytes) -> None:
    """Check the rules of the processed format (src/types/profile.js in the profiler)."""
    file = json.loads(content)
    categories = file["meta"]["categories"]
    assert "grey" in {one["color"] for one in categories}
    assert file["meta"]["preprocessedProfileVersion"] == 47
    assert len({(one["pid"], one["tid"]) for one in file["threads"]}) == len(file["threads"])
    for thread in file["threads"]:
        tables = {key: one for key, one in thread.items() if key.endswith("Table")}
        for one in [*tables.values(), thread["samples"], thread["markers"]]:
            columns = [column for column in one.values() if isinstance(column, list)]
            assert {len(column) for column in columns} == {one["length"]}
        stacks = tables["stackTable"]
        for row, (prefix, frame) in enumerate(zip(stacks["prefix"], stacks["frame"], strict=True)):
            assert prefix is None or 0 <= prefix < row  # callers first, as the profiler demands
            assert 0 <= frame < tables["frameTable"]["length"]
        assert all(0 <= one < len(categories) for one in stacks["category"])
        strings = len(thread["stringArray"])
        assert all(0 <= name < strings for name in tables["funcTable"]["name"])
        assert set(tables["frameTable"]["address"]) <= {-1}
        times = thread["samples"]["time"]
        assert times == sorted(times)
        assert isinstance(thread["pid"], str)


@pytest.mark.parametrize("recording", [held(SESSION), held_trace(TRACED), held([[]])])
def test_formats(recording: Recording) -> None:
    check_speedscope(exported(recording, "speedscope"))
    check_firefox(exported(recording, "firefox"))
    assert read.pprof(exported(recording, "pprof"))
    assert exported(recording, "pprof") == exported(recording, "pprof")


def test_numbers_of_protocol_buffers() -> None:
    assert varint(0) == b"\x00"
    assert varint(127) == b"\x7f"
    assert varint(300) == b"\xac\x02"  # the example of the specification
    assert varint(-1) == b"\xff" * 9 + b"\x01"
    assert read.numbers(varint(2**63) + varint(5)) == [2**63, 5]


# What is hostile.


@pytest.mark.parametrize("name", [*NASTY, "=HYPERLINK(1)", "@x", '"quoted", cell'])
@pytest.mark.parametrize("format_", FORMATS)
def test_names_are_harmless(format_: str, name: str, tmp_path: Path) -> None:
    frame = Frame(name, name, f"symbol:{name}")
    recording = recorded(tmp_path / "x.fprof", [[PathCount(name, (frame, Frame("g")), 5)]])
    content = exported(recording, format_)
    text = gzip.decompress(content) if format_ == "pprof" else content
    if format_ != "pprof":
        # Line breaks and tabs of the formats themselves apart, nothing is invisible.
        assert all(char.isprintable() or char == "\n" for char in content.decode())
    assert b"\x1b" not in text or format_ == "pprof"
    readers: dict[str, Callable[[bytes], Any]] = {
        "folded": read.folded,
        "speedscope": read.speedscope,
        "firefox": read.firefox,
        "pprof": lambda one: read.pprof(one)["samples"],
        "csv": lambda one: positive(read.table(one, "self_samples")),
        "json": lambda one: Counter({(): json.loads(one)["total_samples"]}),
    }
    assert sum(readers[format_](content).values()) == 5
    if format_ == "csv":
        cells = {cell for line in content.decode().splitlines() for cell in line.split(",")}
        assert not any(cell.startswith(("=", "@")) for cell in cells)


ADDRESS = re.compile(rb"ffff[0-9a-f]{12}", re.IGNORECASE)


@pytest.mark.parametrize("format_", FORMATS)
def test_no_kernel_addresses(format_: str, tmp_path: Path) -> None:
    """A recording holds none; but one made from another tool's text might, as a name."""
    frames = (Frame("0xffffffff81a0b0c0"), Frame("f+FFFF888012345678", "ffffffffc0001234"))
    for number, recording in enumerate(
        (
            recorded(tmp_path / "x.fprof", [[PathCount("ffff888012345678", frames, 5)]]),
            held(SESSION),
            held_trace(TRACED),
        )
    ):
        content = exported(recording, format_)
        text = gzip.decompress(content) if format_ == "pprof" else content
        assert not ADDRESS.search(text)
        assert (b"[address]" in text) == (number == 0)


# The command.


@pytest.mark.parametrize(
    ("name", "format_"),
    [
        ("x.folded", "folded"),
        ("x.speedscope.json", "speedscope"),
        ("x.JSON", "json"),
        ("x.pb.gz", "pprof"),
        ("x.pprof", "pprof"),
        ("x.firefox.json", "firefox"),
        ("x.csv", "csv"),
    ],
)
def test_the_suffix_chooses(name: str, format_: str) -> None:
    assert format_of(Path(name)) == format_


def test_the_command(tmp_path: Path) -> None:
    traced(tmp_path / "a.fprof", TRACED)
    done = run("export", "a.fprof", "-o", "x.speedscope.json", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (0, "")
    assert done.stderr == "faultprof: wrote x.speedscope.json, for speedscope\n"
    check_speedscope((tmp_path / "x.speedscope.json").read_bytes())
    done = run(
        *("export", "a.fprof", "-o", "-", "--format", "folded"),
        *("--by", "samples", "--root", "do_fault"),
        cwd=tmp_path,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert all(line.startswith("usemem;do_fault_[k]") for line in done.stdout.splitlines())


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["a.fprof"], "export needs a file to write"),
        (["a.fprof", "-o", "x.xls"], "the suffix of x.xls names no format"),
        (["a.fprof", "-o", "x.csv", "--by", "time"], "holds no trace"),
        (["a.fprof", "-o", "a.fprof", "--format", "json"], "is a recording, and would be lost"),
        (["a.fprof", "-o", "x.json", "--min-percent", "101"], "min-percent"),
    ],
)
def test_mistakes(arguments: list[str], message: str, tmp_path: Path) -> None:
    recorded(tmp_path / "a.fprof", SESSION)
    done = run("export", *arguments, cwd=tmp_path)
    assert done.returncode == 2
    assert message in done.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["a.fprof"]
