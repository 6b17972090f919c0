"""DWARF that GCC never writes: data/forms.S, where every byte is put by hand."""

from __future__ import annotations

import itertools
from pathlib import Path

import numpy as np
import pytest

from faultprof.kernel.dwarf_forms import read_sleb, read_uleb
from faultprof.kernel.inline_index import InlineIndex
from tests.unit.dwarf_programs import DATA, run, text_of

# First address behind the start of the text, and the chain up to the next.
EXPECTED = [
    (0, ()),
    (16, ("host", "middle")),  # base_addressx and offset_pair
    (24, ("host",)),
    (32, ("host", "middle", "leaf")),  # startx_endx, and startx_length within
    (36, ("host", "middle")),
    (40, ("host",)),
    (42, ("host", "leaf")),  # base_address and offset_pair
    (45, ("host",)),  # start_end reaches from 44 to here
    (46, ("host", "leaf")),  # start_length
    (47, ("host",)),
    (56, ()),
    (64, ()),
]


@pytest.fixture
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    path = tmp_path / "forms"
    run("gcc", "-nostdlib", "-no-pie", DATA / "forms.S", "-o", path)
    return path


def test_every_kind_of_range_entry_and_index(program: Path) -> None:
    start, text = text_of(program)
    assert len(text) == 64
    addresses = list(range(start, start + 65))
    expected = []
    for (first, chain), (following, _) in itertools.pairwise(EXPECTED):
        expected += [chain] * (following - first)
    index = InlineIndex(program, "forms")
    assert index.chains(np.array(addresses[:64], np.uint64)) == expected
    assert index.chains(np.array(addresses[64:], np.uint64)) == [()]


def test_entry_that_is_an_offset(program: Path) -> None:
    start, _ = text_of(program)
    index = InlineIndex(program, "forms")
    (unit,) = index.units_named("forms.c")
    (middle,) = index.sites("middle", [unit])
    assert middle.entry == start + 19
    assert middle.ranges == ((start + 16, start + 24), (start + 32, start + 40))
    assert [site.entry - start for site in index.sites("leaf", [unit])] == [32, 42]


@pytest.mark.parametrize(
    ("value", "encoded"),
    # Figures 22 and 23 of the DWARF 5 standard, section 7.6.
    [(2, b"\x02"), (127, b"\x7f"), (128, b"\x80\x01"), (129, b"\x81\x01"), (12857, b"\xb9\x64")],
)
def test_unsigned_leb128(value: int, encoded: bytes) -> None:
    assert read_uleb(b"?" + encoded + b"?", 1) == (value, 1 + len(encoded))


@pytest.mark.parametrize(
    ("value", "encoded"),
    [
        (2, b"\x02"),
        (-2, b"\x7e"),
        (127, b"\xff\x00"),
        (-127, b"\x81\x7f"),
        (128, b"\x80\x01"),
        (-128, b"\x80\x7f"),
        (129, b"\x81\x01"),
        (-129, b"\xff\x7e"),
    ],
)
def test_signed_leb128(value: int, encoded: bytes) -> None:
    assert read_sleb(b"?" + encoded + b"?", 1) == (value, 1 + len(encoded))
