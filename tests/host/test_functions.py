"""``faultprof functions`` on this machine's kernel, against what other programs say of it."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from faultprof.kernel.btf_types import BtfTypes
from faultprof.kernel.catalogue import CATALOGUE

KPROBES = Path("/sys/bus/event_source/devices/kprobe").exists()
MOUNTED = Path("/sys/kernel/tracing/events").exists()


def functions(*arguments: str, user: int = 0) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "faultprof", "functions", *arguments]
    return subprocess.run(command, capture_output=True, text=True, user=user, check=False)


def listed(*arguments: str) -> dict[str, Any]:
    done = functions("--json", *arguments)
    assert done.returncode == 0, done.stderr
    return dict(json.loads(done.stdout))


@pytest.fixture(scope="module")
def btf_dump() -> str:
    """Return what bpftool reads from the kernel's BTF."""
    command = ["bpftool", "btf", "dump", "file", "/sys/kernel/btf/vmlinux", "format", "raw"]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


@pytest.fixture(scope="module")
def types() -> BtfTypes:
    found = BtfTypes.read()
    assert found is not None
    return found


@pytest.mark.parametrize("structure", ["vm_fault", "vm_operations_struct", "task_struct", "page"])
def test_field_offsets_are_bpftools(structure: str, btf_dump: str, types: BtfTypes) -> None:
    record = re.search(
        rf"^\[\d+\] STRUCT '{structure}' size=(\d+) vlen=\d+\n((?:\t.*\n)*)", btf_dump, re.MULTILINE
    )
    assert record is not None
    assert types.size(structure) == int(record[1])
    fields = re.findall(r"\t'(\w+)' type_id=\d+ bits_offset=(\d+)\n", record[2])
    assert fields
    for field, bits in fields:
        assert types.field_offset(structure, field) == int(bits) // 8, field


def test_functions_and_arguments_are_bpftools(btf_dump: str, types: BtfTypes) -> None:
    prototypes = dict(
        re.findall(r"^\[(\d+)\] FUNC_PROTO .*\n((?:\t.*\n)*)", btf_dump, re.MULTILINE)
    )
    named = {
        name: (int(type_id), prototype)
        for type_id, name, prototype in reversed(
            re.findall(r"^\[(\d+)\] FUNC '(\w+)' type_id=(\d+)", btf_dump, re.MULTILINE)
        )
    }
    names = [name for function in CATALOGUE for name in function.names]
    assert sum(name in named for name in names) > 40
    for name in names:
        assert types.has_function(name) == (name in named), name
        if name in named:
            type_id, prototype = named[name]
            assert types.function_id(name) == type_id
            arguments = re.findall(r"\t'(\w+|\(anon\))'", prototypes[prototype])
            assert list(types.arguments(name) or ()) == arguments


def test_members_of_unnamed_members_are_where_the_compiler_puts_them(types: BtfTypes) -> None:
    # struct vm_fault begins with an unnamed const struct, whose first member is the VMA.
    assert types.field_offset("vm_fault", "vma") == 0
    flags = types.field_offset("vm_fault", "flags")
    assert flags is not None
    assert types.enumerator("fault_flag", "FAULT_FLAG_WRITE") == 1
    assert types.field_offset("mm_struct", "mmap_lock.count") == types.field_offset(
        "mm_struct", "mmap_lock"
    )


def test_symbols_are_those_of_the_kernel() -> None:
    text = Path("/proc/kallsyms").read_text()
    found = {line.split()[2] for line in text.splitlines() if line.split()[1] in "tTwW"}
    for row in listed()["functions"]:
        if row["how"] == "symbol":
            assert row["name"] in found
        if row["how"] == "renamed":
            assert row["name"] not in found or row["symbol"] in found
        if row["symbol"] is not None:
            assert row["symbol"] in found


def test_obstacles_are_those_of_the_machine() -> None:
    content = listed("--preset", "read")
    whys = " ".join(one["why"] for one in content["obstacles"])
    assert ("no kprobes" in whys) == (not KPROBES)
    assert ("not mounted" in whys) == (not MOUNTED)
    assert all(one["remedy"] for one in content["obstacles"])
    assert (content["traceable"] > 15) == (KPROBES and content["attachable"] is not None)


def test_the_text_names_obstacles_and_remedies() -> None:
    done = functions("--preset", "read")
    assert done.returncode == 0
    lines = done.stdout.splitlines()
    assert lines[0].startswith(f"Linux {os.uname().release}: ")
    assert max(map(len, lines)) <= 80
    if not MOUNTED:
        assert "mount -t tracefs" in done.stdout
    if not KPROBES:
        assert "this kernel has no kprobes" in done.stdout


def test_another_user_is_told_what_root_would_see() -> None:
    done = functions("-f", "do_fault", user=65534)
    assert done.returncode == 0, done.stderr
    assert re.search(r"^  do_fault +symbol", done.stdout, re.MULTILINE)
    if MOUNTED:
        assert "sudo" in done.stdout


def test_a_mistyped_function_is_listed_with_its_like() -> None:
    (row,) = listed("-f", "do_raed_fault")["functions"]
    assert row["how"] == "unavailable"
    assert "do_read_fault" in row["nearest"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--preset", "reed"), "there is no preset reed"),
        (("-f", "zzz_no_such_*"), "zzz_no_such_* matches no function"),
    ],
)
def test_wishes_that_cannot_be_met(arguments: tuple[str, ...], message: str) -> None:
    done = functions(*arguments)
    assert done.returncode == 2
    assert message in done.stderr
    assert done.stdout == ""
