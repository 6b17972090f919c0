"""Named symbols, ftrace's list of functions, and what stands in the way of reading them."""

from __future__ import annotations

from pathlib import Path

import pytest

from faultprof.errors import FaultprofError
from faultprof.kernel.attachable import Attachable, Obstacle, kprobe_obstacle, read_attachable
from faultprof.kernel.named_symbols import FunctionSymbol, NamedSymbols, Place
from faultprof.kernel.view import KernelView
from tests.machine_tree import build_machine

KALLSYMS = b"""\
0000000000000000 A fixed_percpu_data
ffffffff81000000 T _stext
ffffffff81001000 t finish_fault
ffffffff81001100 t __pfx_do_fault
ffffffff81001110 t do_fault
ffffffff81001800 t do_fault_around
ffffffff81002000 T do_fault.isra.0
ffffffff81003000 t do_fault
ffffffff81004000 d do_fault_table
ffffffff81005000 t do_fault.cold
ffffffffc0000000 t do_fault\t[driver]
ffffffffc0001000 t x\t[driver]
"""

LISTED = """\
__ftrace_invalid_address___64
do_fault
do_fault
filemap_fault
shmem_fault.isra.0
shmem_get_folio
ext4_file_open [ext4]
"""


@pytest.fixture
def symbols() -> NamedSymbols:
    return NamedSymbols(KALLSYMS)


def test_a_function_is_found_with_its_variants_and_namesakes(symbols: NamedSymbols) -> None:
    found = symbols.find(["do_fault", "do_read_fault", "finish_fault"])
    assert [(one.name, one.address & 0xFFFFFF, one.module) for one in found["do_fault"]] == [
        ("do_fault", 0x001110, ""),
        ("do_fault", 0x003000, ""),
        ("do_fault", 0x000000, "driver"),
        ("do_fault.cold", 0x005000, ""),
        ("do_fault.isra.0", 0x002000, ""),
    ]
    assert found["finish_fault"] == [FunctionSymbol("finish_fault", 0xFFFFFFFF81001000)]
    assert found.keys() == {"do_fault", "finish_fault"}


def test_short_names_do_not_hide_long_ones(symbols: NamedSymbols) -> None:
    assert symbols.find(["x", "do_fault_around"]).keys() == {"x", "do_fault_around"}
    assert symbols.find([]) == {}


def test_a_place_is_told_by_a_name_that_stands_once(symbols: NamedSymbols) -> None:
    assert symbols.place(0xFFFFFFFF81001110) == Place("__pfx_do_fault", 0x10)
    assert symbols.place(0xFFFFFFFF81001000) == Place("finish_fault")
    assert symbols.place(0xFFFFFFFF81003000) == Place("do_fault.isra.0", 0x1000)
    assert symbols.place(0x1000) is None
    assert str(Place("finish_fault", 0x110)) == "finish_fault+0x110"
    assert str(Place("finish_fault")) == "finish_fault"


def test_no_place_when_addresses_are_hidden() -> None:
    hidden = NamedSymbols(b"0000000000000000 t finish_fault\n0000000000000000 t do_fault\n")
    assert hidden.find(["do_fault"])["do_fault"] == [FunctionSymbol("do_fault", 0)]
    assert hidden.place(0) is None


def test_a_kernel_without_symbols(tmp_path: Path) -> None:
    with pytest.raises(FaultprofError) as raised:
        NamedSymbols.read(tmp_path / "kallsyms")
    assert raised.value.exit_code == 3


def test_the_list_of_functions() -> None:
    listed = Attachable.parse(LISTED)
    assert len(listed) == 6
    assert "do_fault" in listed
    assert "shmem_fault" not in listed
    assert listed.counts["do_fault"] == 2
    assert listed.modules == {"ext4_file_open": "ext4"}
    assert not any("invalid" in name for name in listed.counts)


def test_globs_match_whole_names() -> None:
    listed = Attachable.parse(LISTED)
    assert listed.matching("shmem_*") == ["shmem_fault", "shmem_get_folio"]
    assert listed.matching("*_fault") == ["do_fault", "filemap_fault", "shmem_fault"]
    assert listed.matching("fault") == []


@pytest.mark.parametrize(
    ("name", "nearest"),
    [
        ("filemap_falt", "filemap_fault"),
        ("flemap_fault", "filemap_fault"),
        ("shmem_get_page", "shmem_get_folio"),
        ("shmem_falt", "shmem_fault.isra.0"),
        ("do_raed_fault", "do_read_fault"),
    ],
)
def test_names_like_a_mistyped_one(name: str, nearest: str) -> None:
    assert nearest in Attachable.parse(LISTED).nearest(name, also=["do_read_fault"])


def test_nothing_is_like_nonsense() -> None:
    assert Attachable.parse(LISTED).nearest("qqqqqqqqqqq") == ()


MOUNTED = {"sys/kernel/tracing/events/enable": "0\n"}


def test_the_list_is_read_from_tracefs(tmp_path: Path) -> None:
    files = {**MOUNTED, "sys/kernel/tracing/available_filter_functions": LISTED}
    listed = read_attachable(build_machine(tmp_path, files))
    assert isinstance(listed, Attachable)
    assert len(listed) == 6


@pytest.mark.parametrize(
    ("files", "why", "remedy"),
    [
        ({}, "not mounted", "mount -t tracefs"),
        ({"proc/filesystems": "nodev\tsysfs\n"}, "not in this kernel", "CONFIG_FTRACE"),
        (MOUNTED, "tracefs has no available_filter_functions", "CONFIG_DYNAMIC_FTRACE"),
        # A folder in the file's place: like lockdown, an error that has nothing to do with rights.
        ({**MOUNTED, "sys/kernel/tracing/available_filter_functions/x": ""}, "cannot be read", ""),
    ],
)
def test_why_there_is_no_list(
    files: dict[str, str | bytes], why: str, remedy: str, tmp_path: Path
) -> None:
    found = read_attachable(build_machine(tmp_path, files))
    assert isinstance(found, Obstacle)
    assert why in found.why
    assert remedy in found.remedy
    assert not found.hides_all


def test_kprobes_are_told_by_their_event_source(tmp_path: Path) -> None:
    found = kprobe_obstacle(tmp_path)
    assert found is not None
    assert found.hides_all
    files: dict[str, str | bytes] = {"sys/bus/event_source/devices/kprobe/type": "8\n"}
    assert kprobe_obstacle(build_machine(tmp_path, files)) is None


def test_a_view_of_a_machine(tmp_path: Path) -> None:
    files: dict[str, str | bytes] = {
        **MOUNTED,
        "proc/kallsyms": KALLSYMS,
        "proc/sys/kernel/osrelease": "6.1.0-57-amd64\n",
        "sys/kernel/tracing/available_filter_functions": LISTED,
        "sys/bus/event_source/devices/kprobe/type": "8\n",
    }
    view = KernelView.read(build_machine(tmp_path, files))
    assert view.release == "6.1.0-57-amd64"
    assert view.can_probe
    assert view.obstacles == ()
    assert (view.types, view.bodies) == (None, None)
