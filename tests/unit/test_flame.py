"""Flame graphs: to scale, complete, harmless, and their program finds what is there."""

from __future__ import annotations

import json
import re
import xml.etree.ElementTree as ET
from dataclasses import replace
from html.parser import HTMLParser
from itertools import combinations, pairwise
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from faultprof.analysis.areas import Area, area_of
from faultprof.analysis.selection import Selection
from faultprof.analysis.weights import Measure
from faultprof.recording.frames import INFERRED, INLINED, USER, Frame
from faultprof.recording.paths import PathCount
from faultprof.recording.reader import Recording
from faultprof.recording.traced import TracedPath
from faultprof.render import flame as flame_module
from faultprof.render.embed import asset, shown
from faultprof.render.flame_layout import NARROWEST, PAD, ROW, WIDTH
from faultprof.render.palette import AREA_COLOURS, CHANGE_COLOURS, INK_LIGHT, ink
from tests.running import run as faultprof
from tests.unit.pictures import Drawn, data_of, flame, frames_of, paths_of, run
from tests.unit.recordings import SESSION, Runs, held, in_memory, random_runs, recorded
from tests.unit.test_render import NASTY, as_json, walk
from tests.unit.traces import (
    TRACED,
    Tasks,
    held_calls,
    held_trace,
    histogram,
    random_tasks,
    traced,
    traced_metadata,
)

INNER = WIDTH - 2 * PAD


@pytest.fixture(scope="module")
def session() -> Recording:
    return held(SESSION)


# Geometry.


@settings(max_examples=25)
@given(runs=random_runs())
def test_widths_are_to_scale_and_agree_with_json(runs: Runs) -> None:
    recording = held(runs)
    text = flame([recording])
    data, report = data_of(text), as_json(recording)
    weights = data["sides"][0]["weight"]
    # The same nodes in the same order; those without samples have no width.
    expected = [node["samples"] for node in walk(report["tree"]) if node["samples"]]
    assert [weight for weight in weights if weight] == expected
    assert (
        data["sides"][0]["own"][1:]
        == [node["self_samples"] for node in walk(report["tree"]) if node["samples"]][1:]
    )
    total = report["total_samples"]
    for drawn in frames_of(text):
        exact = INNER * weights[drawn.node] / max(1, total)
        assert exact - 0.81 - 0.01 <= drawn.width <= max(exact, NARROWEST) + 0.01


@settings(max_examples=25)
@given(tasks=random_tasks(), icicle=st.booleans())
def test_frames_lie_within_their_callers(tasks: Tasks, icicle: bool) -> None:
    text = flame([held_calls(tasks)], icicle=icicle)
    data = run("D", data_of(text))
    places = {drawn.node: drawn for drawn in frames_of(text)}
    for node, drawn in places.items():
        parent = places.get(data["parent"][node])
        assert (parent is None) == (data["parent"][node] < 0)
        if parent is not None:
            assert parent.x - 0.02 <= drawn.x
            assert drawn.x + drawn.width <= parent.x + parent.width + 0.82
            assert drawn.y - parent.y == (ROW if icicle else -ROW)
    check_apart(list(places.values()))


def check_apart(places: list[Drawn]) -> None:
    """Check that no frame covers another."""
    rows: dict[float, list[Drawn]] = {}
    for drawn in places:
        rows.setdefault(drawn.y, []).append(drawn)
    for row in rows.values():
        row.sort(key=lambda one: (one.x, one.node))
        for left, right in pairwise(row):
            assert left.x + left.width <= right.x + NARROWEST + 0.02


def test_known_geometry() -> None:
    f, g, h = Frame("f"), Frame("g"), Frame("h")
    paths = [PathCount("t", (f, g), 30), PathCount("t", (f, h), 10), PathCount("t", (f,), 10)]
    text = flame([held([[*paths, PathCount("t", (h,), 50)]])])
    data = data_of(text)
    drawn = {path: frames_of(text)[node] for node, path in paths_of(data)}
    top = "all samples"
    assert drawn[top,].width == pytest.approx(INNER - 0.8)
    # Of equal siblings, the one whose name comes first stands first.
    assert drawn[top, "f"].x == PAD
    assert drawn[top, "h"].x == PAD + INNER / 2
    assert drawn[top, "f", "g"].x == PAD
    assert drawn[top, "f", "g"].width == pytest.approx(0.3 * INNER - 0.8)
    assert drawn[top, "f", "h"].x == pytest.approx(PAD + 0.3 * INNER)


def test_by_calls_and_by_time(session: Recording) -> None:
    trace = held_trace(TRACED)
    by_calls = data_of(flame([trace], measure=Measure.CALLS))
    by_time = data_of(flame([trace]))
    assert by_calls["unit"] == "calls"
    assert by_time["is_time"]
    names = {path[-1] for _, path in paths_of(by_calls)}
    counted = shown("<b>rmap\x1b[2J")
    assert counted in names
    # What was only counted has no time, and that is said.
    assert counted not in {path[-1] for _, path in paths_of(by_time)}
    assert "1 function on one path has no time" in by_time["foot"][0][1]


def test_a_root_is_the_whole_width() -> None:
    text = flame([held(SESSION)], Selection(root="do_anonymous_page"))
    data = data_of(text)
    assert data["names"][data["name"][0]][0] == "do_anonymous_page"
    assert "do_anonymous_page in usemem" in data["head"][0][1]
    assert "(56.00% of all)" in data["head"][1][1]
    assert frames_of(text)[0].width == pytest.approx(INNER - 0.8)


def test_what_is_cut_is_said(session: Recording, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(flame_module, "MOST_FRAMES", 10)
    data = data_of(flame([session]))
    assert len(data["depth"]) == 11  # with the one for all samples
    assert re.fullmatch(r"\d+ frames are not drawn, each smaller than [\d.]+%", data["foot"][0][1])


def test_an_empty_recording_is_a_picture(tmp_path: Path) -> None:
    ET.fromstring(flame([recorded(tmp_path / "x.fprof", [[]])]))


def test_a_million_nodes_are_thinned() -> None:
    deep = [PathCount("t", tuple(Frame(f"f{n % 7}") for n in range(2_000)), 3)]
    text = flame([held([deep])])
    ET.fromstring(text)
    assert len(text) < 2_000_000


# Two recordings.


def test_what_is_new_or_gone_is_coloured_and_said() -> None:
    f = Frame("f")
    before = held([[PathCount("t", (f, Frame("old")), 800), PathCount("t", (f,), 200)]])
    after = held([[PathCount("t", (f, Frame("fresh")), 450), PathCount("t", (f,), 50)]])
    data = data_of(flame([before, after]))
    looks = {path[-1]: data["looks"][data["steps"][node]][0] for node, path in paths_of(data)}
    assert looks == {"all samples": "same, or noise", "f": "same, or noise"} | {
        "old": "gone",
        "fresh": "new",
    }
    assert data["sides"][1]["foot"] == [["note", "only in side0, without width here: old 80.00%"]]
    assert data["sides"][0]["foot"] == [["note", "only in side1, without width here: fresh 90.00%"]]
    assert [side["total"] for side in data["sides"]] == [1_000, 500]


@settings(max_examples=25)
@given(first=random_runs(), second=random_runs())
def test_differences_are_well_formed(first: Runs, second: Runs) -> None:
    text = flame([held(first), held(second)])
    ET.fromstring(text)
    data = data_of(text)
    for side, runs in zip(data["sides"], (first, second), strict=True):
        assert side["weight"][0] == sum(path.samples for run_ in runs for path in run_)


# What is hostile stays text.


class Elements(HTMLParser):
    """Collects the elements and attributes of a page as an HTML parser sees them."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes |= {name for name, _ in attrs}


@pytest.mark.parametrize(
    "name", [*NASTY, "]]></style><script>x</script>", '" onload="x', "%", "'-->"]
)
@pytest.mark.parametrize("html", [False, True])
def test_names_are_harmless(name: str, html: bool, tmp_path: Path) -> None:
    frame = Frame(name, name, f"symbol:{name}")
    hostile = recorded(tmp_path / "x.fprof", [[PathCount(name, (frame, Frame("g")), 5)]])
    plain = recorded(
        tmp_path / "y.fprof", [[PathCount("t", (Frame("f", "m", "symbol:.x"), Frame("g")), 5)]]
    )
    text, expected = flame([hostile], html=html), flame([plain], html=html)
    assert len(text) < len(expected) + 10_000
    assert elements(text) == elements(expected)
    if not html:
        assert data_of(text)["names"] is not None
        ET.fromstring(text)
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f\u202a-\u202e\u2066-\u2069]", text)
    assert shown(name) in {entry[0] for entry in data_of(text)["names"]}


def elements(text: str) -> tuple[list[str], set[str]]:
    parser = Elements()
    parser.feed(text)
    return [tag for tag in parser.tags if tag != "text"], parser.attributes


@pytest.mark.parametrize("html", [False, True])
def test_nothing_is_loaded_from_anywhere(session: Recording, html: bool) -> None:
    text = flame([session], html=html)
    addresses = set(re.findall(r"\w+://[^\s\"'<>]+", text))
    assert addresses <= {"http://www.w3.org/2000/svg", "http://www.w3.org/1999/xhtml"}
    assert not re.search(
        r"@import|<link|<img|src=|url\((?!#|`?#\$)", text.replace("url(#${", "url(#$")
    )
    assert not re.search(r"0x?[0-9a-f]{12,16}|ffffffff[0-9a-f]{8}", text)
    if html:
        assert "default-src 'none'" in text


def test_assets_can_stand_in_script_elements() -> None:
    for name in ("flame.js", "flame.css"):
        assert not re.search(r"</(script|style)|\]\]>|<!--", asset(name), re.IGNORECASE)


# The program.


def test_search_finds_the_right_percentage(session: Recording) -> None:
    data = data_of(flame([session]))
    found = run("F.match(D, 0, 0, F.named(D, /folio/)).weight", data)
    # Everything with folio in its name: what is below another such counts once.
    report = as_json(session)

    def matched(node: dict[str, object]) -> int:
        if "folio" in str(node["name"]):
            return int(str(node["samples"]))
        return sum(map(matched, node["children"]))  # type: ignore[call-overload, no-any-return]

    assert found == matched(report["tree"]) == 765


@settings(max_examples=25)
@given(runs=random_runs(), which=st.integers(0, 30))
def test_zooming_keeps_proportions(runs: Runs, which: int) -> None:
    data = data_of(flame([held(runs)]))
    node = which % len(data["depth"])
    prepared, shown_boxes = run("D", data), run(f"F.boxes(D, 0, {node}, 1000)", data)
    weights = data["sides"][0]["weight"]
    by_node = {box["node"]: box for box in shown_boxes}
    assert by_node[node]["w"] == 1000
    for box in shown_boxes:
        if box.get("above"):
            assert box["w"] == 1000
            continue
        assert node <= box["node"] < prepared["last"][node]
        if weights[node]:
            assert box["w"] == pytest.approx(1000 * weights[box["node"]] / weights[node])
        assert box["x"] >= -1e-6
        assert box["x"] + box["w"] <= 1000 + 1e-6
    wide = {
        place
        for place in range(node, prepared["last"][node])
        if weights[node] and 1000 * weights[place] / weights[node] > 0.31
    }
    assert wide <= set(by_node)


def test_tooltips_say_what_is_known() -> None:
    data = data_of(flame([held_trace(TRACED)]))
    place = {path[-1]: node for node, path in paths_of(data)}
    rows = dict(run(f"F.details(D, 0, 0, {place['do_read_fault']})", data))
    assert rows["found"] == "inlined into do_fault, by condition"
    assert rows["calls"] == "22,008"
    assert rows["avg, p99, max"].startswith("84.8 µs")
    assert rows["off-CPU"] == "12.0 ms"
    assert rows["area"] == "fault entry"
    rows = dict(run(f"F.details(D, 0, 0, {place['folio_wait_bit_common']})", data))
    assert rows["calls"] == "6, 2 did not return"
    zoomed = f"F.details(D, 0, {place['do_fault']}, {place['filemap_map_pages']})"
    assert re.fullmatch(r"9\d\.\d\d%", dict(run(zoomed, data))["of the zoomed"])


def test_the_program_writes_times_as_python_does() -> None:
    from faultprof.render.terminal import UNICODE
    from faultprof.render.units import prose

    data = data_of(flame([held(SESSION)]))
    for ns in (0, 1, 999, 1_000, 1_499, 999_499, 999_500, 12_345_678, 9_999_999_999):
        assert run(f"F.duration({ns})", data) == prose(ns, UNICODE)


# Colours and areas.


@pytest.mark.parametrize(
    ("name", "area"),
    [
        ("asm_exc_page_fault", Area.ENTRY),
        ("__handle_mm_fault", Area.ENTRY),
        ("do_read_fault", Area.ENTRY),
        ("next_uptodate_folio", Area.FILEMAP),
        ("filemap_map_pages", Area.FILEMAP),
        ("shmem_alloc_folio", Area.SHMEM),
        ("do_anonymous_page", Area.ANON),
        ("folio_add_new_anon_rmap", Area.ANON),
        ("do_huge_pmd_anonymous_page", Area.HUGE),
        ("hugetlb_fault", Area.HUGE),
        ("clear_huge_page", Area.CLEAR),
        ("folio_zero_user", Area.CLEAR),
        ("clear_page_erms", Area.CLEAR),
        ("_raw_spin_unlock_irqrestore", Area.LOCKING),
        ("folio_wake_bit", Area.LOCKING),
        ("__folio_lock_or_retry", Area.LOCKING),
        ("lock_vma_under_rcu", Area.LOCKING),
        ("rwsem_down_read_slowpath", Area.LOCKING),
        ("vma_alloc_folio_noprof", Area.ALLOCATION),
        ("__alloc_frozen_pages_noprof", Area.ALLOCATION),
        ("get_page_from_freelist", Area.ALLOCATION),
        ("__mem_cgroup_charge", Area.MEMCG),
        ("vms_clear_ptes", Area.OTHER),
        ("", Area.OTHER),
    ],
)
def test_areas(name: str, area: Area) -> None:
    assert area_of(Frame(name)) is area
    assert area_of(Frame(name, "", INLINED)) is area
    assert area_of(Frame(name, "", USER)) is Area.USER


def test_every_catalogued_function_but_a_few_has_an_area() -> None:
    """The legend would say little if most of the fault path were grey."""
    from faultprof.kernel.catalogue import CATALOGUE

    other = {one.name for one in CATALOGUE if area_of(Frame(one.name)) is Area.OTHER}
    assert other <= {"folio_add_lru"}


def contrast(one: str, other: str) -> float:
    from faultprof.render.palette import _luminance

    low, high = sorted((_luminance(one), _luminance(other)))
    return (high + 0.05) / (low + 0.05)


def test_names_can_be_read_on_every_colour() -> None:
    colours = [*AREA_COLOURS.values(), *(colour for _, colour in CHANGE_COLOURS.values())]
    assert all(contrast(colour, ink(colour)) >= 4.5 for colour in colours)
    assert ink(AREA_COLOURS[Area.CLEAR]) == INK_LIGHT


def seen_by_dichromats(colour: str) -> list[tuple[float, ...]]:
    """Return a colour as protanopes and deuteranopes see it (Machado et al. 2009, severity 1)."""
    red, green, blue = (
        channel / 12.92 if channel <= 0.04045 else ((channel + 0.055) / 1.055) ** 2.4
        for channel in (int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5))
    )
    matrices = (
        ((0.152, 1.053, -0.205), (0.115, 0.786, 0.099), (-0.004, -0.048, 1.052)),
        ((0.367, 0.861, -0.228), (0.280, 0.673, 0.047), (-0.012, 0.043, 0.969)),
    )
    return [
        tuple(max(0.0, r * red + g * green + b * blue) ** (1 / 2.4) for r, g, b in matrix)
        for matrix in matrices
    ]


def test_areas_can_be_told_apart_by_colour_blind_readers() -> None:
    for one, other in combinations(AREA_COLOURS.values(), 2):
        pairs = zip(seen_by_dichromats(one), seen_by_dichromats(other), strict=True)
        for a, b in pairs:
            assert sum((x - y) ** 2 for x, y in zip(a, b, strict=True)) ** 0.5 > 0.08, (one, other)


def test_inferred_frames_are_hatched() -> None:
    frame = Frame("do_read_fault", "", INFERRED)
    text = flame([held([[PathCount("t", (Frame("do_fault"), frame), 5)]])])
    marks = {entry[0]: entry[4] for entry in data_of(text)["names"]}
    assert marks == {"all samples": "", "do_fault": "", "do_read_fault": "inferred"}
    assert text.count('class="fp-pattern"') == 1
    assert "inferred</text>" in text


def limited() -> Recording:
    """Return a calibrated trace: of the 150 ns of a call of b, 100 are its probe's; of a's, 300."""

    def cost(ns: int) -> dict[str, int]:
        return {"value": ns, "low": ns, "high": ns}

    probe = {"kind": "kprobe", "threads": 1, "repeats": 9, "total_ns": cost(200)}
    calibration = {
        "kernel": {"release": "x"},
        "cpu": {},
        "created": "",
        "tool_version": "",
        "probes": [{**probe, "inside_ns": cost(100)}],
    }

    def path(names: str, ns: int, own: int) -> TracedPath:
        frames = tuple(map(Frame, names))
        return TracedPath("t", frames, 10, 0, 10 * ns, 10 * own, ns, ns, 0, histogram({ns: 10}))

    paths = [path("a", 10_000, 9_850), path("ab", 150, 150)]
    functions = {name: {"how": "symbol", "method": "kprobe", "traced": True} for name in "ab"}
    metadata = replace(traced_metadata(), functions=functions, calibration=calibration)
    return in_memory(lambda file: traced(file, [paths], ((),), metadata))


def test_overhead_limited_frames_are_dotted() -> None:
    recording = limited()
    text = flame([recording])
    data = data_of(text)
    assert [data["names"][data["name"][node]][0] for node in data["sides"][0]["limited"]] == ["b"]
    assert text.count('fill="url(#fp-overhead-limited-') == 1 + 1  # the frame, and the legend
    assert "overhead-limited</text>" in text
    by_calls = data_of(flame([recording], measure=Measure.CALLS))
    assert by_calls["sides"][0]["limited"] == []


# The command.


def test_the_command_writes_one_file(tmp_path: Path) -> None:
    recorded(tmp_path / "a.fprof", SESSION)
    traced(tmp_path / "b.fprof", TRACED)
    done = faultprof("flame", "a.fprof", "-o", "x.svg", "--root", "do_fault", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (0, "")
    assert re.fullmatch(r"faultprof: \d+ frames; wrote x\.svg\n", done.stderr)
    ET.fromstring((tmp_path / "x.svg").read_text())
    done = faultprof("flame", "a.fprof", "b.fprof", "-o", "x.html", cwd=tmp_path)
    assert done.returncode == 0
    data = data_of((tmp_path / "x.html").read_text())
    assert [side["label"] for side in data["sides"]] == ["a", "b"]
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "a.fprof",
        "b.fprof",
        "x.html",
        "x.svg",
    ]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["a.fprof", "-o", "x.png"], "x.png is neither .svg nor .html"),
        (["a.fprof", "a.fprof", "a.fprof"], "of one recording or of two"),
        (["a.fprof", "--by", "time"], "holds no trace"),
        (["a.fprof", "-o", "none/x.svg"], "cannot write none/x.svg: No such file or directory"),
        (["a.fprof", "-o", "dir.svg"], "cannot write dir.svg: Is a directory"),
        (["a.fprof", "-o", "a.svg"], "a.svg is a recording, and would be lost"),
        (["a.fprof", "--root", "do_faul"], "no sample is in a function named do_faul"),
    ],
)
def test_mistakes(arguments: list[str], message: str, tmp_path: Path) -> None:
    recorded(tmp_path / "a.fprof", SESSION)
    (tmp_path / "a.svg").write_bytes((tmp_path / "a.fprof").read_bytes())
    (tmp_path / "dir.svg").mkdir()
    before = sorted(tmp_path.iterdir())
    done = faultprof("flame", *arguments, cwd=tmp_path)
    assert done.returncode == 2
    assert message in done.stderr
    assert "Traceback" not in done.stderr
    assert sorted(tmp_path.iterdir()) == before


def test_data_are_plain_json(session: Recording) -> None:
    assert json.loads(json.dumps(data_of(flame([session]))))["areas"][0] == "fault entry"
