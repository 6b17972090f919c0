"""Clears and copies of huge pages: what is said of them, and of those nobody saw."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from faultprof.analysis.contention.order import merged
from faultprof.recording.contention import ORDER
from faultprof.recording.metadata import RunInfo
from faultprof.render.contention import order as section
from faultprof.render.terminal import ASCII, Terminal

PLAIN = Terminal(glyphs=ASCII)

CLEARED = {
    "symbol": "clear_huge_page",
    "calls": 20,
    "pages": 20 * 512,
    "ns": 20 * 512 * 250,
    "switched": 4,
    "ns_a_page": [[223, 5], [255, 15]],
    "orders": {"descending": 18, "other": 2, "undecided": 3},
    "looks": 80,
    "strayed": 2,
    "path": [[0, 0.95, 10], [9, 0.05, 10]],
}


def data(touches: int | None = 0, *, on: bool | None = True, **functions: Any) -> dict[str, Any]:
    return {
        "frequency_hz": 1999,
        "page_size": 4096,
        "init_on_alloc": on,
        "first_touches": touches,
        "functions": functions,
        "not_kept": 0,
        "lost": {"calls_of_too_many_tasks": 0},
    }


def text(*runs: dict[str, Any]) -> str:
    lines = section.lines([RunInfo(0, contention={ORDER: run}) for run in runs], PLAIN)
    return " ".join(line.removeprefix("#").strip() for line in lines)


def test_time_bandwidth_and_shares() -> None:
    (work,) = merged([data(24, folio_zero_user=CLEARED)]).functions
    assert work.ns_a_page == 250
    assert work.bytes_a_second == pytest.approx(4096 / 250e-9)
    assert work.shares == {"descending": 0.9, "other": 0.1}
    assert work.told == 20


def test_runs_add_up() -> None:
    once = data(24, folio_zero_user=CLEARED)
    (work,) = merged([once, once, data()]).functions
    assert (work.calls, work.switched, work.looks) == (40, 8, 160)
    assert work.histogram == ((223, 10), (255, 30))
    assert work.path == ((0, pytest.approx(0.95), 20), (9, pytest.approx(0.05), 20))


def test_the_section() -> None:
    shown = text(data(24, folio_zero_user=CLEARED))
    assert "folio_zero_user (clear_huge_page here): 24 calls, 10,240 pages cleared" in shown
    assert "128 us a call, 250 ns a page, 16.4 GB/s" in shown
    assert "order: descending 90.0% (last page to first), other 10.0%" in shown
    assert "of 20 calls; too few looks at 3 others" in shown
    assert "at 95 5 % of the folio" in shown
    assert "2 of 80 looks" in shown
    assert "4 calls were switched out" in shown
    assert "the fault clears anonymous huge pages once more" in shown


def test_the_allocator_clears() -> None:
    shown = text(data(24))
    assert "24 of 24 anonymous huge pages were cleared by the page allocator" in shown
    assert "no huge page was cleared or copied by a fault" in shown
    assert section.as_json([RunInfo(0, contention={ORDER: data(24)})])["cleared_by_allocator"] == 24


@pytest.mark.parametrize(
    ("touches", "on", "says"),
    [
        (24, False, "it does not clear pages (init_on_alloc=0)"),
        (24, None, "it is not known whether the page allocator clears"),
        (0, True, "it clears all pages (init_on_alloc=1)"),
        (None, True, "it clears all pages (init_on_alloc=1)"),
    ],
)
def test_what_is_said_of_the_allocator(touches: int | None, on: bool | None, says: str) -> None:
    shown = text(data(touches, on=on))
    assert says in shown
    assert "were cleared by the page allocator" not in shown


def test_no_look_tells() -> None:
    unseen = {**CLEARED, "orders": {"undecided": 3}, "path": [], "strayed": 0}
    shown = text(data(24, folio_zero_user=unseen))
    assert "order: -, no call was looked at often enough; too few looks at 3 others" in shown


def test_the_object() -> None:
    found = section.as_json([RunInfo(0, contention={ORDER: data(24, folio_zero_user=CLEARED)})])
    work = found["functions"]["folio_zero_user"]
    assert work["shares"] == {"descending": 0.9, "other": 0.1}
    assert work["switched_calls"] == 4
    assert found["cleared_by_allocator"] == 0


@pytest.mark.parametrize("cleared", [True, False])
def test_the_plot(cleared: bool) -> None:
    from faultprof.render.plots.order import draw_order
    from faultprof.render.plots.style import new_figure, styled

    run = data(24, folio_zero_user=CLEARED) if cleared else data(24)
    with styled():
        axes = new_figure(2.0).subplots()
        draw_order(axes, [RunInfo(0, contention={ORDER: run})])
        if cleared:
            (line,) = axes.lines
            assert line.get_xydata() == pytest.approx(np.array([[5, 95], [95, 5]]))
        else:
            assert axes.texts[0].get_text() == "the page allocator cleared them"
