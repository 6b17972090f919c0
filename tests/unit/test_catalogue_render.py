"""The listing: its columns, its sections, its JSON."""

from __future__ import annotations

import json

import pytest
from syrupy.assertion import SnapshotAssertion

from faultprof.kernel.catalogue import CATALOGUE, PRESETS
from faultprof.kernel.resolve import resolve
from faultprof.kernel.selection import choose
from faultprof.render.functions import Listing, functions_json, functions_lines
from faultprof.render.terminal import Terminal
from tests import kernel_views


def listing(
    kernel: str, presets: tuple[str, ...] = (), names: tuple[str, ...] = (), *, debug: bool = False
) -> Listing:
    view = kernel_views.load(kernel, debuginfo=debug)
    chosen = choose(presets or ([] if names else ["all"]), names, view)
    return Listing(
        view.release,
        len(view.attachable) if view.attachable else None,
        view.bodies is not None,
        tuple((one.why, one.remedy) for one in view.obstacles),
        tuple(zip(chosen, resolve(chosen, view), strict=True)),
        presets,
    )


@pytest.mark.parametrize(
    ("kernel", "presets", "debug"),
    [
        ("6.1", ("read",), False),
        ("6.12", ("read",), True),
        ("6.18", ("anon",), False),
        ("7.3", (), False),
    ],
    ids=["6.1-read", "6.12-read-debuginfo", "6.18-anon", "7.3-all"],
)
def test_listing(
    kernel: str, presets: tuple[str, ...], debug: bool, snapshot: SnapshotAssertion
) -> None:
    text = "\n".join(functions_lines(listing(kernel, presets, debug=debug), Terminal()))
    assert text == snapshot


@pytest.mark.parametrize("kernel", ["6.1", "6.12", "6.18", "7.3"])
@pytest.mark.parametrize("debug", [False, True])
def test_lines_fit_and_every_function_is_shown_once(kernel: str, debug: bool) -> None:
    lines = list(functions_lines(listing(kernel, debug=debug), Terminal()))
    assert max(map(len, lines)) <= 80
    assert not any(line.endswith(" ") for line in lines)
    shown = [line.split()[0] for line in lines if line.startswith("  ") and line[2] != " "]
    for function in CATALOGUE:
        assert shown.count(function.name) == 1


def test_a_chosen_preset_shows_its_functions_in_its_own_section() -> None:
    lines = list(functions_lines(listing("7.3", ("swap",)), Terminal()))
    assert [line for line in lines if line.endswith(PRESETS["swap"])]
    assert not [line for line in lines if line.endswith(PRESETS["read"])]
    assert any(line.split()[:1] == ["handle_mm_fault"] for line in lines)


def test_functions_named_by_the_user_have_a_section_and_no_escape_sequences() -> None:
    lines = list(functions_lines(listing("7.3", names=("\x1bred", "io_schedule")), Terminal()))
    assert "named: asked for by name" in lines
    assert not any("\x1b" in line for line in lines)


def test_what_cannot_be_traced_steps_back_on_a_terminal() -> None:
    lines = list(functions_lines(listing("7.3", ("lock",)), Terminal(80, colour=True)))
    dimmed = [line for line in lines if line.startswith("\x1b[2m")]
    assert any("folio_wait_bit_common" in line for line in dimmed)
    assert not any("folio_unlock" in line for line in dimmed)


def test_json_holds_what_the_listing_says() -> None:
    content = json.loads(json.dumps(functions_json(listing("6.1"))))
    rows = {row["name"]: row for row in content["functions"]}
    assert content["traceable"] == sum(row["kprobe"] for row in rows.values())
    assert len(rows) == len(CATALOGUE)
    row = rows["set_pte_range"]
    assert (row["how"], row["symbol"], row["source"]) == ("renamed", "do_set_pte", "mm/memory.c")
    assert rows["do_read_fault"]["condition"] == "the access is no write"
    assert rows["do_read_fault"]["places"] == ["finish_fault+0x270"]
    assert content["obstacles"] == []
