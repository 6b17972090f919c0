"""The HTML page: complete, right, harmless, and its table unfolds what is there."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import quickjs
from hypothesis import given, settings

from faultprof.analysis.selection import Selection
from faultprof.analysis.tree import CallTree
from faultprof.recording.frames import Frame
from faultprof.recording.metadata import RunInfo
from faultprof.recording.paths import PathCount
from faultprof.recording.reader import Recording
from faultprof.render.contention import report
from faultprof.render.embed import asset
from faultprof.render.html import page_pieces
from faultprof.render.terminal import Terminal
from tests.running import run
from tests.unit.pictures import data_of
from tests.unit.recordings import (
    SESSION,
    Runs,
    held,
    in_memory,
    random_runs,
    recorded,
    session_metadata,
)
from tests.unit.test_render import NASTY
from tests.unit.test_trace_render import as_json as trace_json
from tests.unit.traces import TRACED, held_trace, traced, traced_metadata

EVERYTHING = Selection()


class Page(HTMLParser):
    """A page as a browser reads it: its elements, the text of each section, and its tables."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: set[str] = set()
        self.texts: dict[str, str] = {}
        self.tables: dict[str, list[list[str]]] = {}
        self._section, self._cell = "top", False
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes |= {name for name, _ in attrs}
        if tag in ("section", "script", "style"):
            self._section = dict(attrs).get("id") or tag
        rows = self.tables.setdefault(self._section, [])
        if tag == "tr":
            rows.append([])
        self._cell = tag in ("td", "th")
        if self._cell:
            rows[-1].append("")

    def handle_endtag(self, tag: str) -> None:
        if tag in ("td", "th"):
            self._cell = False

    def handle_data(self, data: str) -> None:
        self.texts[self._section] = self.texts.get(self._section, "") + data
        if self._cell:
            self.tables[self._section][-1][-1] += data


def page(*recordings: Recording, selection: Selection = EVERYTHING) -> str:
    labels = ["before", "after"][: len(recordings)]
    return "".join(page_pieces(recordings, labels, selection))


def table(shown: Page, section: str) -> list[dict[str, str]]:
    """Return the rows of a section's table, by title."""
    titles, *rows = shown.tables[section]
    return [dict(zip(titles, row, strict=True)) for row in rows]


@pytest.fixture(scope="module")
def trace() -> Recording:
    return held_trace(TRACED, SESSION)


@settings(max_examples=20)
@given(runs=random_runs())
def test_functions_agree_with_the_report(runs: Runs) -> None:
    recording = held(runs)
    shown = table(Page(page(recording)), "functions")
    tree = CallTree.from_recording(recording)
    expected = sorted(
        (f"{tree.percent(one.self_samples):.2f}%", f"{tree.percent(one.samples):.2f}%")
        for one in tree.functions()
    )
    assert sorted((row["self"], row["inclusive"]) for row in shown) == expected


def test_traced_functions(trace: Recording) -> None:
    shown = {row["function"]: row for row in table(Page(page(trace)), "functions")}
    assert len(shown) == len(trace_json(trace)["functions"])
    row = shown["filemap_map_pages"]
    assert (row["calls"], row["avg"]) == ("36,000", "47.8 µs")
    counted = shown["<b>rmap\\x1b[2J (inlined)"]
    assert (counted["calls"], counted["avg"], counted["self"]) == ("351,999", "-", "-")


def test_the_verdict_comes_first(trace: Recording) -> None:
    text = Page(page(trace)).texts["style"]  # what follows the style: the top of the page
    assert text.index("verdict degraded: 12 of 1012 samples lost") < text.index("kernel")
    assert "do_read_fault was inferred from the kind of each fault" in text


def test_what_is_missing_is_said(trace: Recording) -> None:
    plain, traced_ = Page(page(held(SESSION))), Page(page(trace))
    assert "record with --mode trace" in plain.texts["lacks"]
    assert "they need four runs or more" in plain.texts["lacks"]
    assert "record with --mode trace" not in traced_.texts["lacks"]
    assert "what the probes themselves cost is not subtracted" in traced_.texts["lacks"]
    assert "no samples" in Page(page(held_trace(TRACED))).texts["lacks"]


def test_two_recordings_are_compared(trace: Recording) -> None:
    shown = Page(page(held(SESSION[:1]), trace))
    rows = {row["metric"]: row for row in table(shown, "comparison")}
    assert rows["wall_s"]["verdict"] == "too few runs"
    assert rows["wall_s"]["change"] == "+0.0%"
    assert rows["wall_s"]["before"] == "0.75 ± 66.7%"
    titles = shown.tables["functions"][0]
    assert titles == [
        *("function", "before: self", "before: inclusive", "after: self", "after: inclusive")
    ]
    assert data_of(page(held(SESSION[:1]), trace))["steps"]


def test_every_run_is_a_dot() -> None:
    text = page(held(SESSION))
    strips = re.findall(r'<svg class="strip".*?</svg>', text)
    assert len(strips) == 4  # wall, user, sys, on CPU
    assert all(strip.count("<circle") == 2 for strip in strips)


def test_an_empty_recording_is_a_page(tmp_path: Path) -> None:
    shown = Page(page(recorded(tmp_path / "x.fprof", [[]])))
    assert table(shown, "functions") == []


def test_a_usual_page_is_small(trace: Recording) -> None:
    assert len(page(trace).encode()) < 100_000


# What is hostile stays text.


@pytest.mark.parametrize("name", [*NASTY, "]]></script><script>x</script>", '" onload="x', "&lt;"])
def test_names_are_harmless(name: str, tmp_path: Path) -> None:
    frame = Frame(name, name, f"symbol:{name}")
    hostile = recorded(tmp_path / "x.fprof", [[PathCount(name, (frame, Frame("g")), 5)]])
    plain = recorded(
        tmp_path / "y.fprof", [[PathCount("t", (Frame("f", "m", "symbol:.x"), Frame("g")), 5)]]
    )
    text = page(hostile)
    shown, expected = Page(text), Page(page(plain))
    assert [tag for tag in shown.tags if tag != "text"] == [
        tag for tag in expected.tags if tag != "text"
    ]
    assert shown.attributes == expected.attributes
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f\u202a-\u202e\u2066-\u2069]", text)


def test_nothing_is_loaded_from_anywhere(trace: Recording) -> None:
    text = page(held(SESSION), trace)
    addresses = set(re.findall(r"\w+://[^\s\"'<>]+", text))
    assert addresses <= {"http://www.w3.org/2000/svg", "http://www.w3.org/1999/xhtml"}
    assert "default-src 'none'" in text
    assert not re.search(r"@import|<link|<img|<iframe", text)
    assert not re.search(r"ffff[0-9a-f]{12}", text)
    for name in ("report.js", "report.css"):
        assert not re.search(r"</(script|style)|\]\]>|<!--", asset(name), re.IGNORECASE)


# The table that unfolds.


def evaluate(expression: str, data: dict[str, Any]) -> Any:
    """Evaluate with F, T (the programs), D (prepared data) and B (the nodes below each)."""
    engine = quickjs.Context()
    engine.eval(asset("flame.js"))
    engine.eval(asset("report.js"))
    engine.set("text", json.dumps(data))
    script = (
        "(function (F, T) { const D = F.prepare(JSON.parse(text)), B = T.children(D); "
        f"return {expression}; }})(faultprofFlame, faultprofTree)"
    )
    return json.loads(engine.eval(f"JSON.stringify({script})"))


def test_unfolding(trace: Recording) -> None:
    data = data_of(page(trace))
    folded = evaluate("T.flatten(B, new Set())", data)
    assert folded == [0]  # all traced time
    one = evaluate("T.flatten(B, new Set([0]))", data)
    assert [data["depth"][node] for node in one] == [0, *[1] * (len(one) - 1)]
    everything = evaluate("T.flatten(B, new Set(B.keys()))", data)
    assert everything == list(range(len(data["depth"])))
    # A folded node hides all below it, whatever of that is unfolded.
    assert evaluate("T.flatten(B, new Set([0, 4, 5]))", data) == one


def test_sorting_keeps_callees_below_their_callers(trace: Recording) -> None:
    data = data_of(page(trace))
    order = evaluate("T.flatten(B, new Set(B.keys()), (i) => D.sides[0].own[i])", data)
    assert sorted(order) == list(range(len(data["depth"])))
    parent = evaluate("D.parent", data)
    own = data["sides"][0]["own"]
    place = {node: number for number, node in enumerate(order)}
    for node in order:
        assert parent[node] < 0 or place[parent[node]] < place[node]
    for one in order:
        for other in order:
            if parent[one] == parent[other] and place[one] < place[other]:
                assert own[one] >= own[other]


def test_the_columns(trace: Recording) -> None:
    alone, both = data_of(page(trace)), data_of(page(trace, trace))
    titles = "T.columns(D).map((one) => one.title)"
    assert evaluate(titles, alone) == [
        *("incl.", "self", "calls", "avg", "p99", "max", "off-CPU", "durations")
    ]
    assert evaluate(titles, both) == [
        *("before incl.", "before self", "after incl.", "after self", "change"),
        *("before calls", "before avg", "before durations"),
        *("after calls", "after avg", "after durations"),
    ]
    # Of walk: 10 of 13.67 s in its outer calls, 4 of them in calls of itself.
    texts = evaluate("T.columns(D).map((one) => one.text && one.text(1))", alone)
    assert texts == [*("73.17%", "43.90%", "3", "3.33 s"), *texts[4:]]
    assert evaluate("T.columns(D)[4].text(1)", both) == "+0.00 pp"


# What not every recording has.


def test_a_calibration_is_a_table() -> None:
    def cost(ns: int) -> dict[str, int]:
        return {"value": ns, "low": ns - 5, "high": ns + 5}

    pair = {"kind": "kprobe", "threads": 1, "repeats": 9, "total_ns": cost(400)}
    calibration = {
        "kernel": {"release": "6.12"},
        "cpu": {},
        "created": "2026-12-01",
        "tool_version": "1",
        "probes": [{**pair, "inside_ns": cost(150)}, {**pair, "kind": "<b>", "threads": 2}],
    }
    metadata = replace(traced_metadata(), calibration=calibration)
    recording = in_memory(lambda path: traced(path, TRACED, ((),) * len(TRACED), metadata))
    shown = Page(page(recording))
    assert [list(row.values()) for row in table(shown, "calibration")] == [
        ["kprobe and kretprobe", "1", "400", "395 to 405", "150", "250"],
        ["<b>", "2", "400", "395 to 405", "-", "-"],
    ]
    assert "calibrated 2026-12-01" in shown.texts["calibration"]


def test_a_trace_without_a_calibration_says_so(trace: Recording) -> None:
    assert "faultprof calibrate" in Page(page(trace)).texts["calibration"]
    assert "calibration" not in Page(page(held(SESSION))).texts


def test_contention_is_shown_as_its_report_says(monkeypatch: pytest.MonkeyPatch) -> None:
    def lines(runs: Sequence[RunInfo], _terminal: Terminal) -> Iterator[str]:
        for one in runs:
            (said,) = one.contention.values()
            yield f"{said['mark']} waits for {NASTY}"

    monkeypatch.setattr(report, "_section", lambda _name: SimpleNamespace(lines=lines))
    monkeypatch.setattr("faultprof.render.html.contention._figure", lambda *_: "")
    metadata = session_metadata()
    data: list[dict[str, Any]] = [{"order": {"mark": 7}}, {"yield": {"mark": 8}}]
    runs = [replace(one, contention=parts) for one, parts in zip(metadata.runs, data, strict=True)]
    recording = in_memory(lambda path: recorded(path, SESSION, replace(metadata, runs=tuple(runs))))
    shown = Page(page(recording))
    assert "7 waits for" in shown.texts["contention"]
    assert "8 waits for" in shown.texts["yield"]
    assert "8 waits for" not in shown.texts["contention"]
    lacks = shown.texts["lacks"]
    assert "of contention not occupancy, locks, folio, outcomes:" in lacks
    assert shown.tags.count("script") == Page(page(held(SESSION))).tags.count("script")


# The command.


def test_the_command(tmp_path: Path) -> None:
    traced(tmp_path / "a.fprof", TRACED)
    recorded(tmp_path / "b.fprof", SESSION)
    done = run("html", "b.fprof", "a.fprof", "-o", "x.html", cwd=tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "faultprof: wrote x.html\n")
    assert "comparison" in Page((tmp_path / "x.html").read_text()).tables


def test_mistakes(tmp_path: Path) -> None:
    recorded(tmp_path / "a.fprof", SESSION)
    done = run("html", "a.fprof", "a.fprof", "a.fprof", cwd=tmp_path)
    assert (done.returncode, "one recording or of two" in done.stderr) == (2, True)
    done = run("html", "a.fprof", "--root", "nothing", cwd=tmp_path)
    assert done.returncode == 2
    assert [path.name for path in tmp_path.iterdir()] == ["a.fprof"]
