"""``faultprof diff``: what is printed, as text and as JSON."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import typer
from hypothesis import given, settings
from syrupy.assertion import SnapshotAssertion
from typer.testing import CliRunner, Result

from faultprof.analysis.change import Verdict
from faultprof.analysis.diff import State
from faultprof.analysis.diff_worth import Worth
from faultprof.cli.diff import diff
from faultprof.errors import ExitCode, FaultprofError
from faultprof.recording.reader import Recording
from faultprof.recording.writer import write_recording
from faultprof.render.diff import DiffView, diff_lines
from faultprof.render.diff_json import diff_json_text
from faultprof.render.terminal import ASCII, Terminal
from tests.unit.recordings import Runs, held, random_runs
from tests.unit.test_compare import check_fields
from tests.unit.test_diff import (
    MM,
    calls,
    diff_recordings,
    matched,
    metadata,
    path,
    sampled,
    shares,
    traced_with,
)
from tests.unit.threads import contention_trees
from tests.unit.traces import held_calls, random_tasks

app = typer.Typer(pretty_exceptions_enable=False)
app.command()(diff)


def view(base: Recording, new: Recording, **options: Any) -> DiffView:
    found, terms = diff_recordings(base, new)
    return DiffView(found, terms, Worth.of(found), ("old.fprof", "new.fprof"), **options)


def text(base: Recording, new: Recording, terminal: Terminal | None = None, **options: Any) -> str:
    return "\n".join(diff_lines(view(base, new, **options), terminal or Terminal()))


def a_trace(often: int, slow: int, *extra: str) -> Recording:
    inner = [*calls("next_uptodate_folio", often, 110), *calls("__do_fault", 1, slow)]
    for name in extra:
        inner += calls(name, 1, 40)
    return traced_with(calls(MM, 100, 350, *calls("filemap_map_pages", 1, 700, *inner)))


def test_the_thread_as_text(snapshot: SnapshotAssertion) -> None:
    assert text(*(sampled(paths) for paths in contention_trees())) == snapshot


def test_traces_as_text(snapshot: SnapshotAssertion) -> None:
    assert text(a_trace(16, 900, "gone"), a_trace(40, 2100, "fresh")) == snapshot


def test_several_runs_as_text(snapshot: SnapshotAssertion) -> None:
    base, new = (100, 104, 98, 101, 99), (150, 155, 149, 151, 152)
    assert text(sampled(*shares(*base)), sampled(*shares(*new))) == snapshot


def test_kernels_with_other_names_and_inlining_as_text(snapshot: SnapshotAssertion) -> None:
    base = sampled([path(300, MM, "next_uptodate_page"), path(200, MM, "clear"), path(2, "rare"),
                    path(90, MM, "gone")])  # fmt: skip
    new = sampled([path(350, MM, "next_uptodate_folio"),
                   path(150, MM, "do_anonymous_page", "clear"),
                   path(60, MM, "do_anonymous_page")], clock="cpu-clock")  # fmt: skip
    assert text(base, new, Terminal(glyphs=ASCII), min_percent=0.0) == snapshot


def test_nothing_to_explain() -> None:
    base = sampled([path(5, "a")])
    assert "no function has changed" in text(base, base)
    assert "all in all about the same" in text(base, base)


def test_what_is_hidden_is_said() -> None:
    base = sampled([path(9990, "a"), path(10, "a", "b")])
    shown = text(base, base)
    assert "# 1 node below 0.5% not shown (on either side)" in shown
    assert "─ b" not in shown


@given(random_runs(), random_runs())
@settings(max_examples=30, deadline=None)
def test_any_recording_can_be_printed_and_is_harmless(base: Runs, new: Runs) -> None:
    found = matched(held(base), held(new))
    terms = diff_recordings(held(base), held(base))[1]
    shown = DiffView(found, terms, Worth.of(found), ("\x1b[2J", "x"), 0.0)
    for line in diff_lines(shown, Terminal()):
        assert line.isprintable()
    check_schema(json.loads(diff_json_text(shown)))


@given(random_tasks(), random_tasks())
@settings(max_examples=30, deadline=None)
def test_any_trace_can_be_printed(base: Any, new: Any) -> None:
    shown = view(held_calls(base), held_calls(new), min_percent=0.0)
    for line in diff_lines(shown, Terminal()):
        assert line.isprintable()
    check_schema(json.loads(diff_json_text(shown)))


# JSON.

NUMBER = (int, float)
SIDE = {
    "file": str,
    "title": str,
    "runs": int,
    "kernel": str,
    "clock": str,
    "frequency": int,
    "total": int,
    "faults": (int, type(None)),
    "renamed": dict,
}
FUNCTION = {
    "name": str,
    "module": str,
    "base": NUMBER,
    "new": NUMBER,
    "change": NUMBER,
    "share": (float, type(None)),
    "more_often": (int, float, type(None)),
    "slower": (int, float, type(None)),
    "places": list,
    "worth": (dict, type(None)),
}
NODE = {
    "node": int,
    "parent": int,
    "depth": int,
    "name": str,
    "module": str,
    "resolution": str,
    "names": dict,
    "state": str,
    "percent": dict,
    "inclusive": dict,
    "own": dict,
    "worth": (dict, type(None)),
}
OF_TRACE = {
    "calls": dict,
    "ns_per_call": dict,
    "more_often": (int, float, type(None)),
    "slower": (int, float, type(None)),
}


def check_schema(data: dict[str, Any]) -> None:
    """Check that ``diff --json`` is as ``render.diff_json`` documents it."""
    of_trace = data["source"] == "trace"
    fields = {"tool_version": str, "base": dict, "new": dict, "source": str}
    fields |= {"root": (str, type(None)), "unit": str, "remarks": list}
    fields |= {"paired": (bool, type(None)), "whole": dict, "direction": int, "functions": list}
    check_fields(data, {**fields, "nodes": list, "hidden_nodes": int})
    assert data["unit"] in (("ns/fault", "ns/run") if of_trace else ("percent",))
    assert data["direction"] in (-1, 0, 1)
    for side in ("base", "new"):
        check_fields(data[side], SIDE)
    for one in data["functions"]:
        check_fields(one, FUNCTION)
        assert all(data["nodes"][place]["name"] == one["name"] for place in one["places"])
        check_worth(one["worth"], data["paired"])
    for number, node in enumerate(data["nodes"]):
        check_node(node, number, data, of_trace)


def check_node(node: dict[str, Any], number: int, data: dict[str, Any], of_trace: bool) -> None:
    amount = {"ns" if of_trace else "samples": dict}
    check_fields(node, {**NODE, **amount, **(OF_TRACE if of_trace else {})})
    assert node["node"] == number
    assert -1 <= node["parent"] < number
    above = data["nodes"][node["parent"]]["depth"] if node["parent"] >= 0 else -1
    assert node["depth"] == above + 1
    assert node["state"] in {state.value for state in State}
    for name in ("percent", "inclusive", "own", *(["calls"] if of_trace else [])):
        assert node[name].keys() == {"base", "new", "change"}
    for name in ("names", *amount, *(["ns_per_call"] if of_trace else [])):
        assert node[name].keys() == {"base", "new"}
    check_worth(node["worth"], data["paired"])


def check_worth(worth: dict[str, Any] | None, paired: bool | None) -> None:
    assert (worth is None) == (paired is None)
    if worth is not None:
        bound = (int, float, type(None))
        check_fields(worth, {"low": bound, "high": bound, "p": float, "test": str, "verdict": str})
        assert worth["verdict"] in {verdict.value for verdict in Verdict}


@pytest.fixture
def files(tmp_path: Path) -> list[str]:
    names = []
    for name, paths in zip(("before", "after"), contention_trees(), strict=True):
        file = tmp_path / f"{name}.fprof"
        write_recording(file, metadata(), [paths])
        names.append(str(file))
    return names


def run(*arguments: str) -> Result:
    return CliRunner().invoke(app, arguments)


def test_json_of_the_thread(files: list[str]) -> None:
    data = json.loads(run("--json", *files).stdout)
    check_schema(data)
    first = data["functions"][0]
    assert (first["name"], round(first["change"], 2)) == ("next_uptodate_folio", 28.88)
    assert data["hidden_nodes"] == 0
    assert sum(node["own"]["base"] for node in data["nodes"]) == pytest.approx(100)


def test_options(files: list[str]) -> None:
    shown = run(*files, "--root", "filemap_map_pages", "--relative", "--top", "1").stdout
    assert "below filemap_map_pages" in shown
    assert "100.00%" in shown
    assert "folio_wake_bit" not in shown.partition("call tree")[0]
    assert "do_read_fault" not in run(*files, "--min-percent", "99").stdout.partition("tree")[2]


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (["--root", "no_such_function"], ExitCode.USAGE),
        (["--source", "trace"], ExitCode.USAGE),
        (["--min-percent", "101"], ExitCode.USAGE),
        (["--max-depth", "0"], ExitCode.USAGE),
    ],
)
def test_bad_options(arguments: list[str], code: int, files: list[str]) -> None:
    done = run(*files, *arguments)
    assert isinstance(done.exception, FaultprofError)
    assert done.exception.exit_code == code
    assert done.exception.hint


def test_a_file_that_is_none(files: list[str], tmp_path: Path) -> None:
    done = run(files[0], str(tmp_path / "missing.fprof"))
    assert isinstance(done.exception, FaultprofError)
    assert done.exception.exit_code == ExitCode.BAD_RECORDING
