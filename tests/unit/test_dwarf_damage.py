"""Damaged debuginfo: an answer or our own error, never another exception, never an endless loop."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from elftools.elf.elffile import ELFFile
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from faultprof.errors import ExitCode, FaultprofError
from faultprof.kernel.elf import has_section
from faultprof.kernel.inline_index import InlineIndex
from tests.unit.dwarf_programs import DATA, VARIANTS, build, run, text_addresses, text_of

DAMAGED_SECTIONS = (
    ".debug_info",
    ".debug_abbrev",
    ".debug_aranges",
    ".debug_rnglists",
    ".debug_ranges",
    ".debug_str",
)


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


@pytest.fixture(scope="module", params=["dwarf4", "dwarf5", "zlib", "dwz-5"])
def program(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(VARIANTS[request.param], tmp_path_factory.mktemp("program"))


def expand(path: Path, addresses: list[int], cache: Path) -> bool:
    """Expand without any cache; tell whether that succeeded. Any error but ours is a failure."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(cache))
        index = InlineIndex(path, "damaged")
        try:
            assert len(index.chains(np.array(addresses, np.uint64))) == len(addresses)
            index.units_named("nest.c")
        except FaultprofError as caught:
            error = caught
        else:
            return True
    assert error.exit_code == ExitCode.UNSUPPORTED
    assert str(path) in error.message or "DWARF form" in error.message
    assert error.hint
    return False


def section_places(path: Path) -> list[tuple[int, int]]:
    """Return offset and size of the debugging sections that are in a file."""
    with path.open("rb") as file:
        sections = {section.name: section for section in ELFFile(file).iter_sections()}
    found = [sections[name] for name in DAMAGED_SECTIONS if name in sections]
    return [(section["sh_offset"], section["sh_size"]) for section in found]


@settings(
    deadline=None, max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(st.data())
def test_changed_bytes(program: Path, tmp_path: Path, data: st.DataObject) -> None:
    contents = bytearray(program.read_bytes())
    places = section_places(program)
    for _ in range(data.draw(st.integers(1, 8), "changes")):
        offset, size = data.draw(st.sampled_from(places))
        at = offset + data.draw(st.integers(0, size - 1))
        contents[at] = data.draw(st.integers(0, 255))
    damaged = tmp_path / "damaged"
    damaged.write_bytes(contents)
    nowhere = tmp_path / "damaged"  # a file, so that nothing is cached
    expand(damaged, text_addresses(program)[::16], nowhere)


@settings(
    deadline=None, max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(st.data())
def test_files_cut_short(program: Path, tmp_path: Path, data: st.DataObject) -> None:
    contents = program.read_bytes()
    damaged = tmp_path / "damaged"
    damaged.write_bytes(contents[: data.draw(st.integers(0, len(contents) - 1))])
    assert not expand(damaged, text_addresses(program)[::16], tmp_path / "damaged")
    assert has_section(damaged, [".debug_info"]) is False


@settings(
    deadline=None, max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(st.data())
def test_changed_headers(program: Path, tmp_path: Path, data: st.DataObject) -> None:
    contents = bytearray(program.read_bytes())
    start = int.from_bytes(contents[40:48], "little")  # e_shoff
    for _ in range(data.draw(st.integers(1, 4), "changes")):
        at = data.draw(st.one_of(st.integers(0, 63), st.integers(start, len(contents) - 1)))
        contents[at] = data.draw(st.integers(0, 255))
    damaged = tmp_path / "damaged"
    damaged.write_bytes(contents)
    expand(damaged, text_addresses(program)[::16], damaged)
    has_section(damaged, [".debug_info"])


def test_a_sibling_that_leads_backwards_is_no_endless_loop(tmp_path: Path) -> None:
    source = (DATA / "forms.S").read_text()
    described = ".uleb128 0x03; .uleb128 0x1a\t\t/* name: strx */"
    assert described in source
    damaged = source.replace(described, ".uleb128 0x01; .uleb128 0x15").replace(
        ".uleb128 2; .uleb128 0x2e; .byte 0", ".uleb128 2; .uleb128 0x2e; .byte 1"
    )
    (tmp_path / "damaged.S").write_text(damaged)
    path = tmp_path / "damaged"
    run("gcc", "-nostdlib", "-no-pie", tmp_path / "damaged.S", "-o", path)
    start, _ = text_of(path)
    with pytest.raises(FaultprofError, match="sibling"):
        InlineIndex(path, "none").chains(np.array([start + 16], np.uint64))


def test_a_file_without_dwarf(tmp_path: Path) -> None:
    path = build(VARIANTS["plain"], tmp_path)
    assert has_section(path, [".debug_info"])
    run("strip", "--strip-debug", path)
    assert not has_section(path, [".debug_info"])
    with pytest.raises(FaultprofError, match="holds no DWARF"):
        InlineIndex(path, "none").chains(np.array([0], np.uint64))


def test_a_supplementary_file_that_is_gone(tmp_path: Path) -> None:
    path = build(VARIANTS["dwz-multifile"], tmp_path)
    (tmp_path / "shared.sup").unlink()
    with pytest.raises(FaultprofError, match=r"shared\.sup"):
        InlineIndex(path, "none").chains(np.array(text_addresses(path), np.uint64))
