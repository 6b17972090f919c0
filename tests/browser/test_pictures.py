"""Flame graphs and pages in Chromium: they load without errors, and do what they say."""

from __future__ import annotations

from pathlib import Path

import pytest

from faultprof.analysis.perturbation_file import SavedPerturbation
from faultprof.analysis.selection import Selection
from faultprof.recording.frames import Frame
from faultprof.recording.paths import PathCount
from faultprof.recording.reader import Recording
from faultprof.render.html import page_pieces
from tests.browser.chromium import obstacle, visit
from tests.unit.pictures import flame
from tests.unit.recordings import SESSION, held
from tests.unit.test_flame import limited
from tests.unit.test_perturb_cli import doses
from tests.unit.traces import TRACED, held_trace

pytestmark = pytest.mark.skipif(obstacle() is not None, reason=obstacle() or "")
NASTY = '</script><script>log("PWNED")</script><img src=x onerror=log("PWNED")>'


def saved(path: Path, text: str) -> Path:
    path.write_text(text)
    return path


def page(*recordings: Recording) -> str:
    return "".join(page_pieces(recordings, ["before", "after"][: len(recordings)], Selection()))


def everything() -> str:
    """Return the page of a calibrated trace, and of what delays did."""
    saved_doses = SavedPerturbation("f, at its entry", "x", doses(0.1))
    pieces = page_pieces([limited()], ["x"], Selection(), perturbations=[saved_doses])
    return "".join(pieces)


@pytest.mark.parametrize("html", [False, True])
def test_a_flame_graph(html: bool, tmp_path: Path) -> None:
    file = saved(tmp_path / f"x.{'html' if html else 'svg'}", flame([held(SESSION)], html=html))
    seen = visit(
        file,
        """
        log(all(".fp-frame").length > 20);
        type(".fp-tools input", "clear_page"); log(status());
        click(frame("do_anonymous_page")); log(status());
        log(width("do_anonymous_page") > 1100); log(width("all samples") > 1100);
        key("Escape"); log(status()); key("Escape"); log(status()); key("Escape");
        type(".fp-tools input", "("); log(status());
        click(one(".fp-tools button")); log(status());
        key("i"); log(one(".fp-tools button:nth-of-type(2)").textContent);
        key("ArrowDown"); key("ArrowDown"); log(one(".fp-tip strong").textContent);
        key("Enter"); log(status());
        """,
    )
    assert seen.console == []
    assert seen.results == [
        True,
        "matched 52.00%",
        "matched 92.86% of the zoomed",
        True,
        True,
        "zoomed 56.00%",
        "zoomed 80.60%",
        "not a regular expression",
        "",
        "Flame",
        "asm_exc_page_fault",
        "zoomed 80.90%",
    ]


def test_a_difference_swaps(tmp_path: Path) -> None:
    f = Frame("f")
    before = held([[PathCount("t", (f, Frame("old")), 800), PathCount("t", (f,), 200)]])
    after = held([[PathCount("t", (f, Frame("fresh")), 450), PathCount("t", (f,), 50)]])
    seen = visit(
        saved(tmp_path / "x.svg", flame([before, after])),
        """
        log(!frame("old") && Math.round(width("fresh")));
        key("s");
        log(!frame("fresh") && Math.round(width("old")));
        log(all(".fp-chrome text").pop().textContent);
        """,
    )
    assert seen.console == []
    # 90 and 80 percent of what 1200 pixels leave, less the gap between neighbours.
    assert seen.results[:2] == [round(0.9 * 1180 - 0.8), round(0.8 * 1180 - 0.8)]
    assert seen.results[2] == "only in side1, without width here: fresh 90.00%"


def test_a_page(tmp_path: Path) -> None:
    file = saved(tmp_path / "x.html", page(held_trace(TRACED, SESSION)))
    seen = visit(
        file,
        """
        const rows = () => all("#tree tbody tr:not(.spacer)");
        const press = (name) => key(name, one("#tree"));
        click(one("#tree-none")); log(rows().length);
        press("ArrowDown"); press("Enter"); log(rows().length);
        click(one("#tree-all")); log(rows().length);
        click(one("#tree-hot")); log(one("tr.chosen td.name").lastChild.textContent);
        type("#tree-find", "uptodate"); log(one("tr.chosen td.name").lastChild.textContent);
        click(one("#functions th:nth-child(4)")); log(one("#functions td.name").textContent);
        log(all("#tree svg.spark").length > 5);
        """,
    )
    assert seen.console == []
    assert seen.results == [1, 4, 16, "walk", "next_uptodate_folio", "handle_mm_fault", True]


def test_what_not_every_recording_has(tmp_path: Path) -> None:
    """Plots are pictures in the page; the rules that let it load nothing else let them in."""
    seen = visit(
        saved(tmp_path / "x.html", everything()),
        """
        const plot = one("#perturbation img");
        log(plot.complete && plot.naturalWidth > 300);
        log(one("#perturbation pre").textContent.includes("on the critical path"));
        log(all("#calibration tbody tr").length);
        const says = (text) => text.includes("overhead-limited");
        log(all(".fp-pattern").some((mark) => says(mark.getAttribute("fill"))));
        for (let i = 0; i < 4; i++) key("ArrowUp", one("svg.fp-flame"));
        log([...one(".fp-tip table").rows].some((row) => says(row.textContent)));
        """,
    )
    assert seen.console == []
    assert seen.results == [True, True, 1, True, True]


def test_two_recordings_on_a_page(tmp_path: Path) -> None:
    file = saved(tmp_path / "x.html", page(held(SESSION[:1]), held(SESSION)))
    steps = 'log(all("#tree tbody tr").length > 5); log(all("#comparison tbody tr").length)'
    for options in ((), ("--window-size=420,900",), ("--blink-settings=preferredColorScheme=0",)):
        seen = visit(file, steps, *options)
        assert seen.console == []
        assert seen.results == [True, 4]


def test_hostile_names_run_nothing(tmp_path: Path) -> None:
    frame = Frame(NASTY, NASTY, f"symbol:{NASTY}")
    recording = held([[PathCount(NASTY, (frame, Frame("g")), 5)]])
    steps = 'key("ArrowDown"); key("ArrowUp"); log(all("img").length); log("end")'
    for name, text in (
        ("x.svg", flame([recording])),
        ("x.html", flame([recording], html=True)),
        ("y.html", page(recording, recording)),
    ):
        seen = visit(saved(tmp_path / name, text), steps)
        assert seen.console == []
        assert seen.results == [0, "end"]
