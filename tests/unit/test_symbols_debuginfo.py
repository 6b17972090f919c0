"""Where debuginfo is looked for, and that only the kernel's own is taken."""

from __future__ import annotations

from pathlib import Path

import pytest

from faultprof.kernel.build_id import elf_build_id
from faultprof.kernel.debuginfo import Debuginfo, find_debuginfo
from tests.unit.dwarf_programs import compile_program, run

RELEASE = "6.12.1-test"
PLACES = [
    "usr/lib/debug/.build-id/{start}/{rest}.debug",
    "usr/lib/debug/boot/vmlinux-{release}",
    "usr/lib/debug/lib/modules/{release}/vmlinux",
    "usr/lib/debug/vmlinux-{release}",
    "lib/modules/{release}/build/vmlinux",
    "boot/vmlinux-{release}",
]


@pytest.fixture(scope="module")
def vmlinux(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compile_program(tmp_path_factory.mktemp("vmlinux") / "vmlinux", "-Wl,--build-id")


@pytest.fixture(scope="module")
def build_id(vmlinux: Path) -> str:
    found = elf_build_id(vmlinux)
    assert found is not None
    return found


@pytest.fixture(scope="module")
def foreign(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("foreign") / "vmlinux"
    return compile_program(path, "-O3", "-Wl,--build-id")


def put(vmlinux: Path, place: Path) -> Path:
    place.parent.mkdir(parents=True, exist_ok=True)
    place.hardlink_to(vmlinux)
    return place


def find(build_id: str | None, sysroot: Path, **environment: str) -> Debuginfo:
    return find_debuginfo(build_id, RELEASE, sysroot, environment)


@pytest.mark.parametrize("place", PLACES)
def test_every_place(place: str, vmlinux: Path, build_id: str, tmp_path: Path) -> None:
    where = place.format(release=RELEASE, start=build_id[:2], rest=build_id[2:])
    path = put(vmlinux, tmp_path / where)
    found = find(build_id, tmp_path)
    assert found == Debuginfo(build_id, path)
    assert found.notes == [f"inlined functions are shown as {path} has them"]


def test_nothing_anywhere_is_no_news(build_id: str, tmp_path: Path) -> None:
    assert find(build_id, tmp_path) == Debuginfo(build_id)
    assert find(build_id, tmp_path).notes == []


def test_the_named_file_comes_first(vmlinux: Path, build_id: str, tmp_path: Path) -> None:
    put(vmlinux, tmp_path / "boot" / f"vmlinux-{RELEASE}")
    assert find(build_id, tmp_path, FAULTPROF_VMLINUX=str(vmlinux)).path == vmlinux


def test_another_kernels_file_is_turned_down_and_told(
    vmlinux: Path, foreign: Path, build_id: str, tmp_path: Path
) -> None:
    path = put(vmlinux, tmp_path / "boot" / f"vmlinux-{RELEASE}")
    found = find(build_id, tmp_path, FAULTPROF_VMLINUX=str(foreign))
    assert found.path == path
    (rejected,) = found.rejected
    assert rejected.path == foreign
    other = elf_build_id(foreign)
    assert other is not None
    assert other != build_id
    assert other[:12] in rejected.reason
    assert build_id[:12] in rejected.reason
    assert found.notes[1] == f"{foreign} is not used: {rejected.reason}"


def test_a_named_file_that_is_not_there_is_told(build_id: str, tmp_path: Path) -> None:
    found = find(build_id, tmp_path, FAULTPROF_VMLINUX=str(tmp_path / "gone"))
    assert found.path is None
    assert [(rejected.path.name, rejected.reason) for rejected in found.rejected] == [
        ("gone", "it cannot be read")
    ]


def test_one_file_under_two_names_is_told_once(
    foreign: Path, build_id: str, tmp_path: Path
) -> None:
    path = put(foreign, tmp_path / f"usr/lib/debug/boot/vmlinux-{RELEASE}")
    link = tmp_path / f"usr/lib/debug/lib/modules/{RELEASE}/vmlinux"
    link.parent.mkdir(parents=True)
    link.symlink_to(path)
    assert [rejected.path for rejected in find(build_id, tmp_path).rejected] == [path]


def test_a_stripped_file_is_turned_down(vmlinux: Path, build_id: str, tmp_path: Path) -> None:
    stripped = tmp_path / "vmlinux"
    run("strip", "--strip-debug", vmlinux, "-o", stripped)
    assert elf_build_id(stripped) == build_id
    found = find(build_id, tmp_path, FAULTPROF_VMLINUX=str(stripped))
    assert found.path is None
    assert found.rejected[0].reason == "it holds no DWARF debugging information"


def test_files_that_are_no_debuginfo(vmlinux: Path, build_id: str, tmp_path: Path) -> None:
    text = tmp_path / "text"
    text.write_text("not ELF")
    without_id = tmp_path / "without-id"
    run("objcopy", "--remove-section=.note.gnu.build-id", vmlinux, without_id)
    for path in (text, without_id):
        found = find(build_id, tmp_path, FAULTPROF_VMLINUX=str(path))
        assert (found.path, found.rejected[0].reason) == (None, "it has no build id")
    found = find(build_id, tmp_path, FAULTPROF_VMLINUX=str(tmp_path))
    assert (found.path, found.rejected[0].reason) == (None, "it cannot be read")


def test_a_kernel_without_build_id_takes_no_file(vmlinux: Path, tmp_path: Path) -> None:
    found = find(None, tmp_path, FAULTPROF_VMLINUX=str(vmlinux))
    assert found.path is None
    assert "no build id" in found.rejected[0].reason
