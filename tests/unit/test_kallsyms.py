"""The parser of /proc/kallsyms against a plain one, and what is shown of names and edges."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from faultprof.errors import ExitCode, FaultprofError
from faultprof.kernel.kallsyms import Kallsyms, Symbol, fold

Line = tuple[int, str, str, str]  # address, type, name, module

KERNEL = b"""\
0000000000000000 A fixed_percpu_data
0000000000001000 A this_cpu_off
ffffffff81000000 T _stext
ffffffff81000000 T _text
ffffffff81000000 T startup_64
ffffffff81000100 T __pfx_do_fault
ffffffff81000110 t do_fault
ffffffff81000800 t do_fault.isra.0.cold
ffffffff81000900 T __noinstr_text_start
ffffffff81000910 T exc_page_fault
ffffffff81000a00 T __noinstr_text_end
ffffffff81000b00 T __memcpy
ffffffff81000b00 W memcpy
ffffffff81000b00 T __pi_memcpy
ffffffff81000c00 t __do_sys_sync
ffffffff81000c00 T __ia32_sys_sync
ffffffff81000c00 T __x64_sys_sync
ffffffff81000d00 t merged_b
ffffffff81000d00 t merged_a
ffffffff81000e00 T _etext
ffffffff82000000 R __start_rodata
ffffffff83000000 T _sinittext
ffffffff83000000 t set_reset_devices
ffffffff83001000 T _einittext
ffffffffc0300000 t last_of_b\t[b]
ffffffffc0200000 t first_of_a\t[a]
ffffffffc0200800 t last_of_a\t[a]
ffffffffc0205000 d data_of_a\t[a]
ffffffffc0500000 t bpf_prog_6deef7357e7b4530_sd_fw.part.0\t[bpf]
ffffffffc0600000 t ftrace_trampoline\t[__builtin__ftrace]
"""
MODULES = """\
b 20480 0 - Live 0xffffffffc0300000
a 16384 1 b, Live 0xffffffffc0200000 (OE)
"""


def name_at(symbols: Kallsyms, address: int) -> str | None:
    (symbol,) = symbols.lookup(np.array([address], np.uint64))
    return symbol.name if symbol else None


@pytest.fixture(scope="module")
def kernel() -> Kallsyms:
    return Kallsyms(KERNEL, MODULES)


@pytest.mark.parametrize(
    ("name", "prefix", "function", "suffix"),
    [
        ("do_fault", "", "do_fault", ""),
        ("do_fault.isra.0", "", "do_fault", ".isra.0"),
        ("do_fault.part.12", "", "do_fault", ".part.12"),
        ("do_fault.constprop.0", "", "do_fault", ".constprop.0"),
        ("do_fault.cold", "", "do_fault", ".cold"),
        ("do_fault.cold.3", "", "do_fault", ".cold.3"),
        ("do_fault.isra.0.cold", "", "do_fault", ".isra.0.cold"),
        ("do_fault.part.0.constprop.1.isra.2", "", "do_fault", ".part.0.constprop.1.isra.2"),
        ("do_fault.llvm.1234567890", "", "do_fault", ".llvm.1234567890"),
        ("do_fault.__uniq.123.llvm.45", "", "do_fault", ".__uniq.123.llvm.45"),
        ("do_fault.lto_priv.0", "", "do_fault", ".lto_priv.0"),
        ("__pfx_do_fault", "__pfx_", "do_fault", ""),
        ("__pfx_do_fault.isra.0", "__pfx_", "do_fault", ".isra.0"),
        ("__cfi_do_fault", "__cfi_", "do_fault", ""),
        # Not the compiler's work: part of the name.
        ("unwind.slowpath", "", "unwind.slowpath", ""),
        ("do_fault.isra", "", "do_fault", ".isra"),
        ("do_fault.partial", "", "do_fault.partial", ""),
        ("do_fault.isra.0x", "", "do_fault.isra.0x", ""),
        ("a.cold.b", "", "a.cold.b", ""),
        (".cold", "", ".cold", ""),
        ("__pfx_", "", "__pfx_", ""),
        ("", "", "", ""),
        ("<script>.isra.0", "", "<script>", ".isra.0"),
        ("core::fmt::write", "", "core::fmt::write", ""),
    ],
)
def test_fold(name: str, prefix: str, function: str, suffix: str) -> None:
    folded = fold(name)
    assert folded == (prefix, function, suffix)
    assert folded.variant == prefix + suffix


@settings(deadline=None)
@given(st.text())
def test_fold_loses_nothing(name: str) -> None:
    assert "".join(fold(name)) == name


@pytest.mark.parametrize(
    ("address", "name"),
    [
        (0x0, None),
        (0x1000, None),
        (0xFFFFFFFF80FFFFFF, None),
        (0xFFFFFFFF81000000, "startup_64"),
        (0xFFFFFFFF810000FF, "startup_64"),
        (0xFFFFFFFF81000100, "__pfx_do_fault"),
        (0xFFFFFFFF81000110, "do_fault"),
        (0xFFFFFFFF810007FF, "do_fault"),
        (0xFFFFFFFF81000800, "do_fault.isra.0.cold"),
        # Between a mark of the linker script and the next function there is nothing.
        (0xFFFFFFFF81000900, None),
        (0xFFFFFFFF81000910, "exc_page_fault"),
        (0xFFFFFFFF81000A00, None),
        (0xFFFFFFFF81000B00, "memcpy"),
        (0xFFFFFFFF81000C10, "__x64_sys_sync"),
        (0xFFFFFFFF81000D01, "merged_a"),
        (0xFFFFFFFF81000E00, None),
        (0xFFFFFFFF82000010, None),
        (0xFFFFFFFF83000000, "set_reset_devices"),
        (0xFFFFFFFF83000FFF, "set_reset_devices"),
        (0xFFFFFFFF83001000, None),
        (0xFFFFFFFFC01FFFFF, None),
        (0xFFFFFFFFC0200000, "first_of_a"),
        (0xFFFFFFFFC0200800, "last_of_a"),
        # Module a has 16,384 bytes; what lies behind was another module's, now unloaded.
        (0xFFFFFFFFC0203FFF, "last_of_a"),
        (0xFFFFFFFFC0204000, None),
        (0xFFFFFFFFC0205000, None),
        (0xFFFFFFFFC0304FFF, "last_of_b"),
        (0xFFFFFFFFC0305000, None),
        (0xFFFFFFFFC0500123, "bpf_prog_6deef7357e7b4530_sd_fw.part.0"),
        (0xFFFFFFFFC0510000, None),
        (0xFFFFFFFFC0600FFF, "ftrace_trampoline"),
        (0xFFFFFFFFC0601000, None),
        (0xFFFFFFFFFFFFFFFF, None),
    ],
)
def test_what_is_shown_at_an_address(kernel: Kallsyms, address: int, name: str | None) -> None:
    assert name_at(kernel, address) == name


def test_symbols_tell_where_they_end_and_live(kernel: Kallsyms) -> None:
    addresses = np.array([0xFFFFFFFF81000110, 0xFFFFFFFFC0200900, 0xFFFFFFFFC0500000], np.uint64)
    assert kernel.lookup(addresses) == [
        Symbol("do_fault", 0xFFFFFFFF81000110, 0xFFFFFFFF81000800, "", "t"),
        Symbol("last_of_a", 0xFFFFFFFFC0200800, 0xFFFFFFFFC0204000, "a", "t"),
        Symbol(
            "bpf_prog_6deef7357e7b4530_sd_fw.part.0",
            0xFFFFFFFFC0500000,
            0xFFFFFFFFC0510000,
            "bpf",
            "t",
        ),
    ]
    (program,) = kernel.lookup(np.array([0xFFFFFFFFC0500000], np.uint64))
    assert program is not None
    assert program.folded.variant == "", "a program's name is its author's"


def test_find_by_function(kernel: Kallsyms) -> None:
    assert [symbol.name for symbol in kernel.find("do_fault")] == [
        "do_fault",
        "do_fault.isra.0.cold",
    ]
    assert [symbol.address for symbol in kernel.find("_stext")] == [0xFFFFFFFF81000000]
    assert kernel.find("first_of_a")[0].module == "a"
    for absent in ("fault", "do_faul", "__start_rodata", "data_of_a", "a", "T", ""):
        assert kernel.find(absent) == []


def test_a_name_is_found_only_where_a_name_stands() -> None:
    text = b"ffffffff81000000 T odd name T do_fault\nffffffff81000010 t do_fault\t[do_fault]\n"
    assert [symbol.address for symbol in Kallsyms(text).find("do_fault")] == [0xFFFFFFFF81000010]


@pytest.mark.parametrize(
    "name", ["two words", "<b>bold</b>", "[red]markup[/red]", "naïve", "a;b", '"quoted"', "x[bpf]"]
)
def test_odd_names_pass_unchanged(name: str) -> None:
    text = f"ffffffff81000000 T {name}\t[mod]\nffffffff81000010 T next\n".encode()
    (symbol,) = Kallsyms(text).lookup(np.array([0xFFFFFFFF81000001], np.uint64))
    assert symbol is not None
    assert (symbol.name, symbol.module) == (name, "mod")
    assert [found.name for found in Kallsyms(text).find(name)] == [name]


@pytest.mark.parametrize(
    "text", [b"", b"\n", b"0000000000000000 T _stext\n0000000000000000 t do_fault\n", b"nonsense\n"]
)
def test_hidden_addresses_are_an_error_with_a_remedy(text: bytes) -> None:
    with pytest.raises(FaultprofError, match="kptr_restrict") as caught:
        Kallsyms(text)
    assert caught.value.exit_code == ExitCode.UNSUPPORTED
    assert "kptr_restrict" in caught.value.hint


def test_no_symbols_at_all_is_an_error_with_a_remedy(tmp_path: Path) -> None:
    with pytest.raises(FaultprofError, match="cannot be read") as caught:
        Kallsyms.read(tmp_path / "kallsyms", tmp_path / "modules")
    assert caught.value.exit_code == ExitCode.UNSUPPORTED


def test_a_last_line_without_its_end_is_left_out() -> None:
    text = b"ffffffff81000000 T one\nffffffff81000010 T two\nffffffff81000020 T thr"
    kernel = Kallsyms(text)
    assert name_at(kernel, 0xFFFFFFFF81000010) == "two"
    assert name_at(kernel, 0xFFFFFFFF81000030) == "two"


# A small pool of addresses makes shared addresses and small gaps likely.
ADDRESSES = st.one_of(
    st.integers(0xFFFFFFFF81000000, 0xFFFFFFFF81000040), st.integers(1, 2**64 - 1)
)
NAMES = st.one_of(
    st.sampled_from(["f", "_f", "f.cold", "f.isra.0", "__pfx_f", "_etext", "__x_text_end", "g h"]),
    st.text(st.characters(exclude_characters="\n\t", exclude_categories=["Cs"]), min_size=1),
)
LINES = st.tuples(
    ADDRESSES, st.sampled_from("tTwWdDrRbBaA"), NAMES, st.sampled_from(["", "ext4", "bpf"])
)


def plain_lookup(lines: list[Line], address: int) -> str | None:
    """Look an address up the slow way: the nearest address below, the best name there."""
    places = [line for line in lines if line[1] not in "aA"]
    below = [line[0] for line in places if line[0] <= address]
    if not below:
        return None
    candidates = [line for line in places if line[0] == max(below) and line[1] in "tTwW"]
    if not candidates:
        return None

    def rank(line: Line) -> tuple[bool, bool, bool, bool, bool, int, int, str]:
        _, kind, name, _ = line
        marker = name in ("_etext", "__x_text_end")
        padding = name.startswith("__pfx_") and len(name) > len("__pfx_")
        cold, variant = name == "f.cold", name in ("f.cold", "f.isra.0")
        core = name[6:] if padding else name
        underscores = len(core) - len(core.lstrip("_"))
        return marker, padding, cold, variant, kind == "t", underscores, len(name), name

    best = min(candidates, key=rank)
    if best[2] in ("_etext", "__x_text_end"):
        return None
    page_end = (best[0] // 4096 + 1) * 4096
    end = page_end if best[3] else 1 << 64
    if best[3] == "bpf" and best[2].startswith("bpf_prog_"):
        end = best[0] + 65536
    return best[2] if address < min(end, (1 << 64) - 1) else None


@settings(deadline=None)
@given(st.lists(LINES, min_size=1, max_size=12), st.lists(ADDRESSES, max_size=12))
def test_lookup_agrees_with_a_plain_one(lines: list[Line], addresses: list[int]) -> None:
    text = "".join(
        f"{address:016x} {kind} {name}" + (f"\t[{module}]\n" if module else "\n")
        for address, kind, name, module in lines
    ).encode()
    if not any(kind in "tTwW" for _, kind, _, _ in lines):
        with pytest.raises(FaultprofError):
            Kallsyms(text)
        return
    kernel = Kallsyms(text)
    asked = [*addresses, *(line[0] for line in lines), *(line[0] + 1 for line in lines[:3])]
    asked = [address % (1 << 64) for address in asked]
    found = kernel.lookup(np.array(asked, np.uint64))
    assert [symbol.name if symbol else None for symbol in found] == [
        plain_lookup(lines, address) for address in asked
    ]
