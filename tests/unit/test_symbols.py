"""From addresses to frames, with a program in the kernel's place."""

from __future__ import annotations

import subprocess
from pathlib import Path

import numpy as np
import pytest

from faultprof.kernel.build_id import elf_build_id
from faultprof.kernel.debuginfo import Debuginfo
from faultprof.kernel.kallsyms import Kallsyms
from faultprof.kernel.symbols import UNKNOWN, Symbolizer
from faultprof.recording.frames import Frame
from faultprof.recording.ledger import Ledger
from tests.addr2line import addr2line
from tests.unit.dwarf_programs import compile_program, symbols, text_addresses

WORD = 1 << 64
# Where KASLR may put a kernel: not at all, higher, lower.
SHIFTS = [0, 0x1A400000, -0x1000, 0xFFFFFFFF81000000]
MODULE = "ffffffffc0200000 t ext4_fault.isra.0\t[ext4]\n"
MODULES = "ext4 4096 0 - Live 0xffffffffc0200000\n"


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


@pytest.fixture(scope="module")
def kernel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a program that has a kernel's marks."""
    path = tmp_path_factory.mktemp("kernel") / "vmlinux"
    return compile_program(path, "-no-pie", "-Wl,--build-id", "-Wl,--defsym=_stext=first")


def kallsyms_of(path: Path, shift: int = 0) -> Kallsyms:
    """Return a program's symbols as the kernel would list them, and those of a module."""
    printed = subprocess.run(["nm", "-n", path], check=True, capture_output=True, text=True).stdout
    lines = [line.split() for line in printed.splitlines() if line[0] != " "]
    text = "".join(
        f"{(int(address, 16) + shift) % WORD:016x} {kind} {name}\n" for address, kind, name in lines
    )
    return Kallsyms((text + MODULE).encode(), MODULES)


def debuginfo_of(path: Path) -> Debuginfo:
    return Debuginfo(elf_build_id(path), path)


def resolve(
    symbolizer: Symbolizer, addresses: list[int], *, returns: bool = False
) -> list[tuple[Frame, ...]]:
    asked = np.array([address % WORD for address in addresses], np.uint64)
    return symbolizer.resolve(asked, np.full(asked.shape, returns))


@pytest.mark.parametrize("shift", SHIFTS)
def test_every_address_has_its_symbol_and_addr2lines_inlined_functions(
    kernel: Path, shift: int
) -> None:
    symbolizer = Symbolizer(kallsyms=kallsyms_of(kernel, shift), debuginfo=debuginfo_of(kernel))
    assert symbolizer.expands_inlines
    addresses = text_addresses(kernel)
    frames = resolve(symbolizer, [address + shift for address in addresses])
    chains = addr2line(kernel, addresses)
    assert max(map(len, chains)) >= 5
    for address, found, chain in zip(addresses, frames, chains, strict=True):
        # ('??',) is padding behind a function; kallsyms has no sizes, so it is the function's.
        assert [frame.function for frame in found[1:]] == list(chain[1:]), hex(address)
        assert all(frame[1:] == ("", "inlined") for frame in found[1:])
        if len(chain) > 1:
            assert found[0].function == chain[0]


def test_variants_of_a_function_are_shown_as_it_and_marked(kernel: Path) -> None:
    symbolizer = Symbolizer(kallsyms=kallsyms_of(kernel), debuginfo=Debuginfo(None))
    at = symbols(kernel)
    names = ["first", "first.cold", "summed.isra.0", "guarded.part.0", "scaled.constprop.0.cold"]
    assert resolve(symbolizer, [at[name] + 1 for name in names]) == [
        (Frame("first", "", "symbol"),),
        (Frame("first", "", "symbol:.cold"),),
        (Frame("summed", "", "symbol:.isra.0"),),
        (Frame("guarded", "", "symbol:.part.0"),),
        (Frame("scaled", "", "symbol:.constprop.0.cold"),),
    ]


def test_a_return_address_belongs_to_the_call_before_it() -> None:
    text = b"ffffffff81000000 T caller\nffffffff81000010 T next\nffffffff81000020 T _etext\n"
    symbolizer = Symbolizer(kallsyms=Kallsyms(text), debuginfo=Debuginfo(None))
    behind_the_last_call = 0xFFFFFFFF81000010
    asked = np.array([behind_the_last_call] * 2 + [0xFFFFFFFF81000020] * 2 + [0], np.uint64)
    frames = symbolizer.resolve(asked, np.array([True, False, True, False, True]))
    assert [found[0].function for found in frames] == [
        "caller",
        "next",
        "next",
        "[unknown]",
        "[unknown]",
    ]


def test_inlined_functions_at_a_return_address_are_those_of_the_call(kernel: Path) -> None:
    symbolizer = Symbolizer(kallsyms=kallsyms_of(kernel), debuginfo=debuginfo_of(kernel))
    addresses = text_addresses(kernel)
    leaves = resolve(symbolizer, addresses[:-1])
    assert resolve(symbolizer, addresses[1:], returns=True) == leaves
    assert resolve(symbolizer, addresses[1:]) != leaves


def test_modules_have_symbols_only_and_unloaded_ones_nothing(kernel: Path) -> None:
    symbolizer = Symbolizer(kallsyms=kallsyms_of(kernel), debuginfo=debuginfo_of(kernel))
    assert resolve(symbolizer, [0xFFFFFFFFC0200010, 0xFFFFFFFFC0300000]) == [
        (Frame("ext4_fault", "ext4", "symbol:.isra.0"),),
        (UNKNOWN,),
    ]
    assert Frame("[unknown]", "", "unresolved") == UNKNOWN
    assert symbolizer.counters == {
        "kernel_addresses": 2,
        "unresolved_addresses": 1,
        "module_addresses": 1,
        "expanded_addresses": 0,
    }


def test_the_ledger_is_told(kernel: Path) -> None:
    symbolizer = Symbolizer(kallsyms=kallsyms_of(kernel), debuginfo=debuginfo_of(kernel))
    first = symbols(kernel)["first"]
    resolve(symbolizer, [*range(first, first + 64), 0xFFFFFFFFC0300000, 0xFFFFFFFFC0300000])
    ledger = Ledger()
    symbolizer.enter(ledger)
    assert ledger.counters["kernel_addresses"] == 65
    assert ledger.counters["unresolved_addresses"] == 1
    assert 0 < ledger.counters["expanded_addresses"] <= 64
    texts = [note.text for note in ledger.notes]
    assert any("inlined functions are shown" in text and str(kernel) in text for text in texts)
    assert any("1 of 65 kernel addresses" in text for text in texts)
    assert not ledger.degraded


def test_the_ledger_is_told_when_the_cache_cannot_be_written(kernel: Path, tmp_path: Path) -> None:
    (tmp_path / "cache").write_text("a file in place of the folder")
    symbolizer = Symbolizer(kallsyms=kallsyms_of(kernel), debuginfo=debuginfo_of(kernel))
    resolve(symbolizer, text_addresses(kernel))
    ledger = Ledger()
    symbolizer.enter(ledger)
    assert any("could not be kept" in note.text for note in ledger.notes)


def test_no_addresses(kernel: Path) -> None:
    symbolizer = Symbolizer(kallsyms=kallsyms_of(kernel), debuginfo=debuginfo_of(kernel))
    assert resolve(symbolizer, []) == []


def test_without_debuginfo_nothing_is_expanded(kernel: Path) -> None:
    symbolizer = Symbolizer(kallsyms=kallsyms_of(kernel), debuginfo=Debuginfo("00" * 20))
    assert not symbolizer.expands_inlines
    assert {len(found) for found in resolve(symbolizer, text_addresses(kernel))} == {1}


def test_damaged_debuginfo_is_done_without_and_told(kernel: Path, tmp_path: Path) -> None:
    damaged = tmp_path / "vmlinux"
    contents = kernel.read_bytes()
    damaged.write_bytes(contents[: len(contents) // 2])
    symbolizer = Symbolizer(
        kallsyms=kallsyms_of(kernel), debuginfo=Debuginfo(elf_build_id(kernel), damaged)
    )
    assert not symbolizer.expands_inlines
    assert {len(found) for found in resolve(symbolizer, text_addresses(kernel))} == {1}
    (note,) = symbolizer.notes
    assert note.startswith("inlined functions are not shown: ")
    assert str(damaged) in note


def test_debuginfo_that_cannot_be_laid_over_the_kernel_is_not_used(
    kernel: Path, tmp_path: Path
) -> None:
    unmarked = compile_program(tmp_path / "unmarked", "-no-pie", "-Wl,--build-id")
    symbolizer = Symbolizer(kallsyms=kallsyms_of(kernel), debuginfo=debuginfo_of(unmarked))
    assert not symbolizer.expands_inlines
    assert "where the kernel was loaded" in symbolizer.notes[0]
