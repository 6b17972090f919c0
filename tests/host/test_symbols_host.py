"""Symbols of this machine's kernel, against a plain parser, bcc, and the kernel's own naming."""

from __future__ import annotations

import ctypes
import os
import random
import struct
from collections import defaultdict
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from faultprof.kernel.build_id import kernel_build_id
from faultprof.kernel.cache import CacheDirectory
from faultprof.kernel.debuginfo import Debuginfo
from faultprof.kernel.kallsyms import Kallsyms
from faultprof.kernel.symbols import Symbolizer
from faultprof.recording.frames import Frame
from tests.unit.dwarf_programs import VARIANTS, build, text_addresses

NOBODY = (65534, 65534)
_SYS_BPF = {"x86_64": 321, "aarch64": 280}[os.uname().machine]
_BPF_PROG_LOAD = 5


@pytest.fixture(scope="module")
def lines() -> list[tuple[int, str, str]]:
    """Return address, type and name of every symbol of this kernel, by address."""
    fields = [line.split(maxsplit=2) for line in Path("/proc/kallsyms").read_text().splitlines()]
    return sorted((int(address, 16), kind, name) for address, kind, name in fields)


@pytest.fixture(scope="module")
def names_at(lines: list[tuple[int, str, str]]) -> dict[int, list[str]]:
    """Return the names of text symbols at each address that has any; module names dropped."""
    names: dict[int, list[str]] = defaultdict(list)
    for address, kind, name in lines:
        if kind in "tTwW":
            names[address].append(name.split("\t")[0])
    return names


def test_every_function_is_found_at_its_first_and_last_byte(
    lines: list[tuple[int, str, str]], names_at: dict[int, list[str]]
) -> None:
    places = sorted({address for address, kind, _ in lines if kind not in "aA"})
    functions = [(low, high) for low, high in pairwise(places) if low in names_at]
    # Behind a module's last function comes a gap, not that function.
    functions = [(low, high) for low, high in functions if high - low < 4096]
    kernel = Kallsyms.read()
    firsts = kernel.lookup(np.array([low for low, _ in functions], np.uint64))
    lasts = kernel.lookup(np.array([high - 1 for _, high in functions], np.uint64))
    assert firsts == lasts
    unnamed = []
    for (address, _), symbol in zip(functions, firsts, strict=True):
        if symbol is None:
            unnamed += names_at[address]
        else:
            assert symbol.address == address
            assert symbol.name in names_at[address]
    # Only the linker script's marks name nothing.
    assert [name for name in unnamed if "text" not in name and "init" not in name] == []
    assert len(functions) > 30_000


def test_names_agree_with_bcc(names_at: dict[int, list[str]]) -> None:
    from bcc import BPF

    kernel = Kallsyms.read()
    addresses = random.Random(1).sample(sorted(names_at), 5000)
    for address, symbol in zip(
        addresses, kernel.lookup(np.array(addresses, np.uint64)), strict=True
    ):
        if symbol is not None:
            # Which of several names at one address bcc gives is chance.
            assert BPF.ksym(address).decode() in names_at[address]
            assert symbol.name in names_at[address]


def test_functions_of_the_fault_path_are_found_by_name() -> None:
    kernel = Kallsyms.read()
    symbolizer = Symbolizer(kallsyms=kernel, debuginfo=Debuginfo(None))
    for function in ("handle_mm_fault", "filemap_map_pages", "do_fault", "_stext"):
        symbols = kernel.find(function)
        assert symbols, function
        assert {symbol.folded.function for symbol in symbols} == {function}
    (entry, *_) = kernel.find("handle_mm_fault")
    inside = np.array([entry.address, entry.address + 1], np.uint64)
    frames = symbolizer.resolve(inside, np.array([False, True]))
    assert [found[0].function for found in frames] == ["handle_mm_fault"] * 2


@pytest.fixture
def loaded_program() -> Iterator[str]:
    """Load the shortest of BPF programs, return 0, and give its name."""
    name = b"symbols_test"
    code = ctypes.create_string_buffer(struct.pack("<BBhi", 0xB7, 0, 0, 0) + b"\x95" + bytes(7))
    licence = ctypes.create_string_buffer(b"GPL")
    attributes = struct.pack(
        "<IIQQIIQII16s",
        1,
        2,
        ctypes.addressof(code),
        ctypes.addressof(licence),
        0,
        0,
        0,
        0,
        0,
        name,
    )
    system = ctypes.CDLL(None, use_errno=True).syscall
    descriptor = system(_SYS_BPF, _BPF_PROG_LOAD, attributes, len(attributes))
    assert descriptor >= 0, os.strerror(ctypes.get_errno())
    yield name.decode()
    os.close(descriptor)


def test_a_program_loaded_into_the_kernel_is_named(loaded_program: str) -> None:
    # The kernel names it bpf_prog_TAG_NAME, if its JIT compiler is on (as it is by default).
    (line,) = [
        line
        for line in Path("/proc/kallsyms").read_text().splitlines()
        if line.endswith(f"_{loaded_program}\t[bpf]")
    ]
    address, _, name = line.split("\t")[0].split()
    symbolizer = Symbolizer(debuginfo=Debuginfo(None))
    (frames,) = symbolizer.resolve(np.array([int(address, 16) + 4], np.uint64), np.array([False]))
    assert frames == (Frame(name, "bpf", "symbol"),)


def test_this_kernel_needs_nothing_told() -> None:
    symbolizer = Symbolizer()
    assert symbolizer.counters["kernel_addresses"] == 0
    assert kernel_build_id() is not None
    _stext, _etext = (Kallsyms.read().find(name)[0].address for name in ("_stext", "_etext"))
    addresses = np.arange(_stext, _etext, 4096, dtype=np.uint64)
    frames = symbolizer.resolve(addresses, np.zeros(addresses.shape, bool))
    assert all(found[0].function for found in frames)
    assert symbolizer.counters["kernel_addresses"] == len(addresses)


def test_files_made_for_another_user_are_his(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from faultprof.kernel.inline_index import InlineIndex

    program = build(VARIANTS["plain"], tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    index = InlineIndex(program, "aa", NOBODY)
    index.chains(np.array(text_addresses(program), np.uint64))
    made = [path for path in (tmp_path / "cache").rglob("*") if path.is_file()]
    assert len(made) == 3
    for path in [*made, *(tmp_path / "cache").rglob("*"), tmp_path / "cache"]:
        assert (path.stat().st_uid, path.stat().st_gid) == NOBODY, path


def test_root_does_not_write_where_a_user_has_put_a_link(tmp_path: Path) -> None:
    os.chown(tmp_path, *NOBODY)
    system = tmp_path / "system"
    system.mkdir()
    (tmp_path / "faultprof").symlink_to(system)
    assert not CacheDirectory(tmp_path / "faultprof", NOBODY).write("name", b"contents")
    # Through a link further up: the folder itself is root's.
    (system / "inlines").mkdir()
    assert not CacheDirectory(tmp_path / "faultprof" / "inlines", NOBODY).write("name", b"x")
    assert [path for path in system.rglob("*") if path.is_file()] == []
