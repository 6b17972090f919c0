"""The cache of inline tables: never wrong, never half, and no file opened that is not needed."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from faultprof.kernel.cache import (
    CacheDirectory,
    cache_root,
    pack,
    pack_names,
    unpack,
    unpack_names,
)
from faultprof.kernel.inline_index import InlineIndex
from tests.unit.dwarf_programs import VARIANTS, build, text_addresses

BUILD_ID = "00112233445566778899aabbccddeeff00112233"
Chain = tuple[str, ...]


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(VARIANTS["plain"], tmp_path_factory.mktemp("program"))


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Keep every test's cache to itself; return the folder of its tables."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path / "faultprof" / "inlines" / BUILD_ID


def expand(path: Path, addresses: list[int]) -> tuple[list[Chain], int]:
    """Return the chains and how many units were read from the file for them."""
    index = InlineIndex(path, BUILD_ID)
    return index.chains(np.array(addresses, np.uint64)), index.units_read


def test_second_use_needs_no_file(program: Path, cache: Path) -> None:
    addresses = text_addresses(program)
    first, read = expand(program, addresses)
    assert read == 2
    assert len(list(cache.iterdir())) == 3, "one table a unit, and the index of units"
    second, read = expand(Path("/nonexistent/vmlinux"), addresses)
    assert (second, read) == (first, 0)


def test_only_the_units_asked_for_are_read(program: Path) -> None:
    addresses = text_addresses(program)
    chains, _ = expand(program, addresses)
    inside = next(at for at, chain in zip(addresses, chains, strict=True) if "fourth" in chain)
    other = BUILD_ID.replace("0", "f")
    index = InlineIndex(program, other)
    index.chains(np.array([inside], np.uint64))
    assert index.units_read == 1


@pytest.mark.parametrize("damage", ["empty", "short", "changed", "foreign", "longer", "folder"])
def test_damaged_files_are_made_anew(damage: str, program: Path, cache: Path) -> None:
    addresses = text_addresses(program)
    expected, _ = expand(program, addresses)
    contents = {path: path.read_bytes() for path in cache.iterdir()}
    for path, whole in contents.items():
        if damage == "folder":
            path.unlink()
            path.mkdir()
            continue
        middle = len(whole) // 2
        path.write_bytes(
            {
                "empty": b"",
                "short": whole[:-9],
                "changed": whole[:middle] + bytes([whole[middle] ^ 1]) + whole[middle + 1 :],
                "foreign": b"\x7fELF" + whole[4:],
                "longer": whole + bytes(8),
            }[damage]
        )
    assert expand(program, addresses) == (expected, 2)
    if damage != "folder":
        assert {path: path.read_bytes() for path in cache.iterdir()} == contents
        assert expand(program, addresses) == (expected, 0)


def test_a_cache_that_cannot_be_written_is_done_without(program: Path, cache: Path) -> None:
    cache.parent.mkdir(parents=True)
    cache.write_text("a file in place of the folder")
    addresses = text_addresses(program)
    assert expand(program, addresses) == expand(program, addresses)
    assert expand(program, addresses)[1] == 2


def test_a_link_in_place_of_the_folder_is_not_followed(
    program: Path, cache: Path, tmp_path: Path
) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    cache.parent.mkdir(parents=True)
    cache.symlink_to(elsewhere)
    expand(program, text_addresses(program))
    assert list(elsewhere.iterdir()) == []


def test_processes_at_the_same_time_agree_and_leave_whole_files(program: Path, cache: Path) -> None:
    addresses = text_addresses(program)
    script = (
        "import sys, numpy as np; from pathlib import Path;"
        "from faultprof.kernel.inline_index import InlineIndex;"
        f"index = InlineIndex(Path({str(program)!r}), {BUILD_ID!r});"
        f"print(hash(tuple(index.chains(np.arange({addresses[0]}, {addresses[-1]}, dtype='u8')))))"
    )
    environment = {**os.environ, "PYTHONHASHSEED": "1"}
    processes = [
        subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, env=environment)
        for _ in range(4)
    ]
    printed = {process.communicate()[0] for process in processes}
    assert [process.returncode for process in processes] == [0] * 4
    assert len(printed) == 1
    assert sorted(path.name for path in cache.iterdir() if path.name.startswith(".")) == []
    assert expand(Path("/nonexistent/vmlinux"), addresses)[1] == 0


def test_files_are_private_to_their_owner(tmp_path: Path) -> None:
    owner = os.getuid(), os.getgid()
    directory = CacheDirectory(tmp_path / "new" / "folder", owner)
    assert directory.write("name", b"contents")
    assert directory.read("name") == b"contents"
    assert (tmp_path / "new/folder/name").stat().st_mode & 0o777 == 0o600
    assert (tmp_path / "new").stat().st_mode & 0o777 == 0o700


def test_another_users_folder_is_not_written_to(tmp_path: Path) -> None:
    directory = CacheDirectory(tmp_path, (os.getuid() + 1, os.getgid()))
    assert not directory.write("name", b"contents")
    assert list(tmp_path.iterdir()) == []


def test_only_the_newest_files_stay(tmp_path: Path) -> None:
    directory = CacheDirectory(tmp_path / "cache")
    for age, name in enumerate(["a1", "a2", "a3", "a4", "other"]):
        directory.write(name, b"x")
        os.utime(tmp_path / "cache" / name, (1000 - age, 1000 - age))
    directory.touch("a4")
    directory.keep_newest(2, "a[0-9]")
    assert sorted(path.name for path in (tmp_path / "cache").iterdir()) == ["a1", "a4", "other"]


def test_no_link_leads_to_files_that_are_deleted(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "a1").touch()
    (tmp_path / "cache").symlink_to("elsewhere")
    CacheDirectory(tmp_path / "cache").keep_newest(0, "a[0-9]")
    assert (tmp_path / "elsewhere" / "a1").exists()


@pytest.mark.parametrize(("mode", "taken"), [(0o600, True), (0o644, True), (0o620, False)])
def test_what_others_may_write_is_not_read_as_own(tmp_path: Path, mode: int, taken: bool) -> None:
    directory = CacheDirectory(tmp_path)
    directory.write("a", b"x")
    (tmp_path / "a").chmod(mode)
    assert directory.read_own("a") == (b"x" if taken else None)


def test_where_the_cache_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert cache_root() == tmp_path / "faultprof"
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")
    monkeypatch.setenv("HOME", "/home/me")
    assert cache_root() == Path("/home/me/.cache/faultprof")
    assert cache_root((os.geteuid(), 0)) == Path("/home/me/.cache/faultprof")
    monkeypatch.delenv("XDG_CACHE_HOME")
    if os.geteuid() != 1:
        assert cache_root((1, 1)) == Path("/usr/sbin/.cache/faultprof"), "home of user daemon"


ARRAYS = st.lists(st.lists(st.integers(0, 2**64 - 1), max_size=5), max_size=4)


@settings(deadline=None)
@given(ARRAYS, st.data())
def test_packing_and_every_single_change_to_it(
    values: list[list[int]], data: st.DataObject
) -> None:
    packed = pack([np.array(column, "<u8") for column in values])
    dtypes = ["<u8"] * len(values)
    unpacked = unpack(packed, dtypes)
    assert unpacked is not None
    assert [column.tolist() for column in unpacked] == values
    assert unpack(packed, [*dtypes, "<u8"]) is None
    place = data.draw(st.integers(0, len(packed) - 1))
    change = data.draw(st.integers(1, 255))
    changed = packed[:place] + bytes([packed[place] ^ change]) + packed[place + 1 :]
    assert unpack(changed, dtypes) is None
    assert unpack(packed[:place], dtypes) is None
    assert unpack(None, dtypes) is None


@settings(deadline=None)
@given(
    st.lists(st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"])), min_size=1)
)
def test_packing_names(names: list[str]) -> None:
    assert unpack_names(pack_names(names)) == tuple(names)
