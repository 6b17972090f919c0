"""The part ``yield``: what follows from its counts, in words and as JSON."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from faultprof.analysis.contention import yielding as analysis
from faultprof.analysis.contention.yielding import COUNTS, Yield, merged
from faultprof.capture.contention.yielding import pages_histogram
from faultprof.recording.metadata import RunInfo
from faultprof.render.contention import yielding
from faultprof.render.terminal import Terminal
from tests.running import run
from tests.unit.recordings import SESSION, recorded, session_metadata

# Ten calls that mapped 16 pages each, one that mapped a huge page; of five without use two found
# no folio, two found mapped ones, and one a huge page that was mapped already.
DATA: dict[str, Any] = {
    **dict.fromkeys(COUNTS, 0),
    "faults": 20,
    "calls": 16,
    "ns": 16_000,
    "nothing": 5,
    "nothing_ns": 4_000,
    "empty": 2,
    "asked": 10 * 17 + 1 + 2 + 2 * 3 + 1,
    "found": 10 * 16 + 1 + 0 + 2 * 2 + 1,
    "mapped": 160,
    "pmd_mapped": 1,
    "pmd_there": 1,
    "second": 1,
    "left_out": 4,
    "file": 4,
    "waited": 1,
    "retried": 1,
    "major": 1,
    "file_ns": 9_000,
    "waited_ns": 6_000,
    "mapped_per_call": [[0, 5], [16, 10]],
    "found_per_call": [[0, 2], [1, 2], [2, 2], [16, 10]],
    "useful_histogram": [[1279, 11]],
    "useless_histogram": [[895, 5]],
    "unwaited_histogram": [[1023, 3]],
    "waited_histogram": [[6143, 1]],
    "window_pages": 16,
    "huge_pages": 512,
    "functions": {"handle_mm_fault": {"symbol": "handle_mm_fault", "method": "kprobe"}},
    "missing": {},
    "lost": {"tasks_full": 0, "skipped_hits": 0},
}


def runs(*several: dict[str, Any]) -> list[RunInfo]:
    """Return runs that have this part."""
    return [RunInfo(index, contention={"yield": data}) for index, data in enumerate(several)]


def text(*several: dict[str, Any]) -> str:
    """Return the section on one line, without its margin."""
    lines = yielding.lines(runs(*several), Terminal())
    return " ".join(" ".join(line.removeprefix("#").split()) for line in lines)


def test_how_much_was_of_use() -> None:
    found = Yield.from_json(DATA)
    assert found.useful_calls == 11
    assert found.useful_share == 11 / 16
    assert found.useful_time_share == 0.75
    assert found.pages == 160 + 512
    assert found.mapped_each == 16.0  # the huge page's call is not among them
    assert found.asked_per_page == (180 - 1) / 160
    assert (found.useful.avg_ns, found.useless.avg_ns) == (12_000 / 11, 800)
    assert (found.file_unwaited.ns, found.file_waited.ns) == (3_000, 6_000)


def test_the_size_of_a_huge_page_may_be_unknown() -> None:
    assert Yield.from_json({**DATA, "huge_pages": None}).pages is None
    assert Yield.from_json({**DATA, "huge_pages": None, "pmd_mapped": 0}).pages == 160


def test_runs_add_up() -> None:
    one, two = Yield.from_json(DATA), merged([Yield.from_json(DATA)] * 2)
    assert all(getattr(two, name) == 2 * getattr(one, name) for name in COUNTS)
    assert two.mapped_per_call == ((0, 10), (16, 20))
    assert (two.useful.count, two.useful.ns) == (22, 24_000)
    assert (two.useful_share, two.mapped_each) == (one.useful_share, one.mapped_each)
    assert two.window_pages == 16


def test_one_line_says_how_much_was_of_use() -> None:
    said = text(DATA)
    assert (
        "useful 68.8% of 16 calls and 75.0% of the time in them: they mapped 160 pages, 16.0 each "
        "of a window of 16; 1 huge page mapped whole"
    ) in said
    assert (
        "useless 5 calls mapped nothing: 2 found no folio, 2 nothing left to map, 1 a huge page "
        "that was mapped already"
    ) in said
    assert (
        "4 calls left the faulting page out: 4 were followed by __do_fault, 1 of these waited for "
        "a folio lock; 1 had to be tried again, 1 major"
    ) in said
    assert "second 1 call, not the first in its fault" in said
    assert "asked for a folio 180 times; 166 were found; 1.12 times for each page" in said
    for uninteresting in ("lost", "note"):
        assert uninteresting not in said


def test_what_is_missing_or_lost_is_said() -> None:
    lossy = {
        **DATA,
        "missing": {"__do_fault": "inlined"},
        "lost": {"skipped_hits": 3},
        "unfinished": 1,
        "file": 0,
        "waited": 0,
    }
    said = text(lossy)
    assert "lost: skipped hits 3" in said
    assert "__do_fault is not counted: inlined" in said
    assert "1 fault under way at the end" in said
    assert "followed by __do_fault" not in said


def test_a_run_without_calls_says_so() -> None:
    nothing = {
        **DATA,
        **dict.fromkeys(COUNTS, 0),
        "faults": 3,
        **{name: [] for name in DATA if name.endswith(("_histogram", "_per_call"))},
    }
    assert text(nothing) == "useful there were no calls of filemap_map_pages in 3 faults"
    data = yielding.as_json(runs(nothing))
    assert (data["useful_percent"], data["mapped_each"], data["pages"]) == (None, None, 0)
    assert data["useful_calls"]["avg_ns"] is None


def test_the_command_shows_it(tmp_path: Path) -> None:
    metadata = replace(session_metadata(), runs=tuple(runs(DATA, DATA)))
    recorded(tmp_path / "a.fprof", SESSION, metadata)
    done = run("contention", tmp_path / "a.fprof")
    assert done.returncode == 0, done.stderr
    assert "yield: what fault-around is good for" in done.stdout
    data = json.loads(run("contention", tmp_path / "a.fprof", "--json").stdout)["yield"]
    assert (data["calls"], data["useful"], data["useful_percent"]) == (32, 22, 68.75)
    assert data["mapped_per_call"] == [[0, 10], [16, 20]]
    assert data["useful_calls"]["histogram"] == [[1279, 22]]
    data = json.loads(run("contention", tmp_path / "a.fprof", "--json", "--run", "1").stdout)
    assert data["yield"]["calls"] == 16


@given(st.lists(st.integers(0, 1 << 16), min_size=1))
def test_numbers_of_pages_stand_below_their_bound(numbers: list[int]) -> None:
    """The rule of the BPF program, written out: alone up to 64, then by powers of two."""
    counts = [0] * 75
    for pages in numbers:
        counts[pages if pages <= 64 else min(59 + pages.bit_length() - 1, 74)] += 1
    histogram = pages_histogram(counts)
    assert sum(count for _, count in histogram) == len(numbers)
    for pages in numbers:
        upper = min((upper for upper, _ in histogram if upper >= pages), default=None)
        if pages < 1 << 16:
            assert upper is not None
            assert upper == pages if pages <= 64 else pages <= upper < 2 * pages


def test_the_plot_has_a_bar_for_each_number_of_pages(tmp_path: Path) -> None:
    wide = {**DATA, "mapped_per_call": [[0, 5], [16, 9], [127, 1]]}
    metadata = replace(session_metadata(), runs=tuple(runs(wide)))
    recorded(tmp_path / "a.fprof", SESSION, metadata)
    done = run("contention", tmp_path / "a.fprof", "--plot", tmp_path / "a.svg")
    assert done.returncode == 0, done.stderr
    svg = (tmp_path / "a.svg").read_text()
    for words in ("yield of fault-around: 68.8% of 16 calls of use", "≤127", ">16<"):
        assert words in svg


def test_every_key_is_documented() -> None:
    said = set(re.findall(r"[a-z0-9_]+", f"{yielding.__doc__}{analysis.__doc__}"))
    data = yielding.as_json(runs(DATA))
    assert {*data, *data["useful_calls"]} <= said
