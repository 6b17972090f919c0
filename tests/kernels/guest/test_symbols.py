"""Symbols of a real kernel with modules, and with KASLR where the catalogue says so."""

from __future__ import annotations

import random
import subprocess
from pathlib import Path

import numpy as np
import pytest

from faultprof.kernel.debuginfo import Debuginfo
from faultprof.kernel.kallsyms import Kallsyms, Symbol
from faultprof.kernel.symbols import UNKNOWN, Symbolizer
from faultprof.recording.frames import Frame

MODULE = "ext4"  # loaded in every guest: it holds the root file system


def functions(lines: list[str]) -> list[tuple[int, str, str]]:
    """Return address, name and module ("" for the kernel) of all text symbols."""
    found = []
    for line in lines:
        symbol, _, module = line.partition("\t")
        address, kind, name = symbol.split(" ", 2)
        if kind in "tTwW":
            found.append((int(address, 16), name, module.strip("[]")))
    return found


@pytest.fixture(scope="module")
def kallsyms() -> Kallsyms:
    return Kallsyms.read()


@pytest.fixture(scope="module")
def known() -> list[tuple[int, str, str]]:
    return functions(Path("/proc/kallsyms").read_text().splitlines())


def lookup(kallsyms: Kallsyms, addresses: list[int]) -> list[Symbol | None]:
    return kallsyms.lookup(np.array(addresses, np.uint64))


def test_every_symbols_first_byte(kallsyms: Kallsyms, known: list[tuple[int, str, str]]) -> None:
    names: dict[int, set[tuple[str, str]]] = {}
    for address, name, module in known:
        names.setdefault(address, set()).add((name, module))
    unnamed = set()
    for address, symbol in zip(names, lookup(kallsyms, list(names)), strict=True):
        if symbol is None:
            unnamed |= {name for name, _ in names[address]}
        else:
            assert (symbol.name, symbol.module) in names[address]
            assert symbol.address == address < symbol.end
    assert {name for name in unnamed if "text" not in name and "init" not in name} == set()


def test_modules_do_not_reach_into_each_other(
    kallsyms: Kallsyms, known: list[tuple[int, str, str]]
) -> None:
    in_modules = [address for address, _, module in known if module == MODULE]
    assert len(in_modules) > 500
    for symbol in lookup(kallsyms, in_modules):
        assert symbol is not None
        assert symbol.module == MODULE
    last = max(symbol.end for symbol in lookup(kallsyms, in_modules) if symbol)
    (behind,) = lookup(kallsyms, [last + (1 << 20)])
    assert behind is None or behind.module != MODULE


def test_names_agree_with_perf(known: list[tuple[int, str, str]], tmp_path: Path) -> None:
    """Record kernel stacks with perf and name their addresses as it does."""
    data = tmp_path / "perf.data"
    work = ["dd", "if=/dev/zero", "of=/dev/null", "bs=64k", "count=60000"]
    record = ["perf", "record", "-q", "-F", "500", "-e", "cpu-clock", "-g", "-o", data, "--", *work]
    subprocess.run(record, check=True, capture_output=True)
    script = ["perf", "script", "-i", data, "-F", "ip,sym,dso"]
    printed = subprocess.run(script, check=True, capture_output=True, text=True).stdout
    frames = [line.split() for line in printed.splitlines() if "[kernel.kallsyms]" in line]
    assert len(frames) > 500
    aliases: dict[int, set[str]] = {}
    for address, name, _ in known:
        aliases.setdefault(address, set()).add(name)
    kallsyms = Kallsyms.read()
    # perf prints return addresses as they are, but names the call before them.
    for address, name in {(int(frame[0], 16), frame[1]) for frame in frames}:
        near = [found for found in lookup(kallsyms, [address, address - 1]) if found]
        assert any(name in aliases[found.address] for found in near), (hex(address), name)


def test_a_random_address_has_one_frame_without_debuginfo() -> None:
    kallsyms = Kallsyms.read()
    (stext,), (etext,) = kallsyms.find("_stext"), kallsyms.find("_etext")
    chosen = random.Random(1).sample(range(stext.address, etext.address), 2000)
    symbolizer = Symbolizer(kallsyms=kallsyms, debuginfo=Debuginfo(None))
    asked = np.array(chosen, np.uint64)
    for frames in symbolizer.resolve(asked, np.ones(asked.shape, bool)):
        (frame,) = frames
        assert frame == UNKNOWN or isinstance(frame, Frame)
        assert frame.resolution.split(":")[0] in ("symbol", "unresolved")
