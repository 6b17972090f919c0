"""Build ids and traces of BTF in files made here byte by byte, and damaged on purpose."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from faultprof.kernel.btf import btf_check, has_tracepoint
from faultprof.kernel.build_id import debuginfo_candidates, elf_build_id, kernel_build_id
from faultprof.kernel.features import debuginfo_check
from faultprof.kernel.host import Host

BUILD_ID = bytes(range(0xA0, 0xB4))
OTHER_ID = bytes(range(20))
HOST = Host("6.1.0-37-amd64", "x86_64", "Debian GNU/Linux 12 (bookworm)", "debian")


def note(name: bytes, kind: int, data: bytes, order: str = "<") -> bytes:
    def padded(part: bytes) -> bytes:
        return part + b"\0" * (-len(part) % 4)

    return struct.pack(order + "III", len(name), len(data), kind) + padded(name) + padded(data)


def notes(build_id: bytes, order: str = "<") -> bytes:
    """Return what a kernel has: other notes before the build id, one of them of its type."""
    return (
        note(b"Xen\0", 3, b"linux\0", order)
        + note(b"GNU\0", 1, b"\0" * 16, order)
        + note(b"GNU\0", 3, build_id, order)
        + note(b"Linux\0", 0x101, b"\x01", order)
    )


def elf64_segments(build_id: bytes) -> bytes:
    """Return a little-endian ELF64 file whose notes are in a segment."""
    data = notes(build_id)
    header = struct.pack(
        "<16sHHIQQQIHHHHHH", ident(2, 1), 2, 62, 1, 0, 64, 0, 0, 64, 56, 2, 0, 0, 0
    )
    load = struct.pack("<IIQQQQQQ", 1, 5, 0, 0, 0, 0, 0, 4096)
    at = 64 + 2 * 56
    segment = struct.pack("<IIQQQQQQ", 4, 4, at, 0, 0, len(data), len(data), 4)
    return header + load + segment + data


def elf64_sections(build_id: bytes) -> bytes:
    """Return a little-endian ELF64 file like debuginfo: notes in a section, and a .debug_info."""
    names = b"\0.note\0.debug_info\0.shstrtab\0"
    contents = {b".note": notes(build_id), b".debug_info": b"\0" * 16, b".shstrtab": names}
    kinds = {b".note": 7, b".debug_info": 1, b".shstrtab": 3}
    body, table = b"", b"\0" * 64
    for name, content in contents.items():
        name_at, at = names.index(name), 64 + len(body)
        table += struct.pack(
            "<IIQQQQIIQQ", name_at, kinds[name], 0, 0, at, len(content), 0, 0, 4, 0
        )
        body += content
    at = 64 + len(body)
    header = struct.pack(
        "<16sHHIQQQIHHHHHH", ident(2, 1), 1, 62, 1, 0, 0, at, 0, 64, 0, 0, 64, 4, 3
    )
    return header + body + table


def elf32_big_endian(build_id: bytes) -> bytes:
    """Return a big-endian ELF32 file whose notes are in a segment."""
    data = notes(build_id, ">")
    header = struct.pack(
        ">16sHHIIIIIHHHHHH", ident(1, 2), 2, 20, 1, 0, 52, 0, 0, 52, 32, 1, 0, 0, 0
    )
    segment = struct.pack(">IIIIIIII", 4, 52 + 32, 0, 0, len(data), len(data), 4, 4)
    return header + segment + data


def ident(word_size: int, order: int) -> bytes:
    return b"\x7fELF" + bytes([word_size, order, 1]) + b"\0" * 9


def write(path: Path, data: bytes) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    return path


class TestBuildId:
    @pytest.mark.parametrize("make", [elf64_segments, elf64_sections, elf32_big_endian])
    def test_of_a_file(self, tmp_path: Path, make: object) -> None:
        assert callable(make)
        assert elf_build_id(write(tmp_path / "vmlinux", make(BUILD_ID))) == BUILD_ID.hex()

    def test_of_the_running_kernel(self, tmp_path: Path) -> None:
        write(tmp_path / "sys/kernel/notes", notes(BUILD_ID, "="))
        assert kernel_build_id(tmp_path) == BUILD_ID.hex()

    def test_of_a_kernel_that_hides_it(self, tmp_path: Path) -> None:
        assert kernel_build_id(tmp_path) is None
        write(tmp_path / "sys/kernel/notes", note(b"Linux\0", 0x101, b"\x01"))
        assert kernel_build_id(tmp_path) is None

    @pytest.mark.parametrize(
        "data", [b"", b"\x7fELF", b"MZ" + b"\0" * 100, ident(9, 1) + b"\0" * 48]
    )
    def test_of_what_is_no_elf_file(self, tmp_path: Path, data: bytes) -> None:
        assert elf_build_id(write(tmp_path / "vmlinuz", data)) is None

    def test_of_nothing_and_of_a_folder(self, tmp_path: Path) -> None:
        assert elf_build_id(tmp_path / "absent") is None
        assert elf_build_id(tmp_path) is None

    @given(cut=st.integers(min_value=0, max_value=len(elf64_sections(BUILD_ID)) - 1))
    def test_of_a_truncated_file_is_never_wrong(
        self, tmp_path_factory: pytest.TempPathFactory, cut: int
    ) -> None:
        path = tmp_path_factory.mktemp("cut") / "vmlinux"
        found = elf_build_id(write(path, elf64_sections(BUILD_ID)[:cut]))
        assert found in (None, BUILD_ID.hex())

    @given(
        flips=st.lists(
            st.tuples(st.integers(0, len(elf64_segments(BUILD_ID)) - 1), st.integers(1, 255)),
            max_size=8,
        )
    )
    def test_of_a_damaged_file_never_raises(
        self, tmp_path_factory: pytest.TempPathFactory, flips: list[tuple[int, int]]
    ) -> None:
        data = bytearray(elf64_segments(BUILD_ID))
        for position, bits in flips:
            data[position] ^= bits
        path = tmp_path_factory.mktemp("damaged") / "vmlinux"
        found = elf_build_id(write(path, bytes(data)))
        assert found is None or bytes.fromhex(found)


class TestDebuginfo:
    def test_candidates_begin_with_the_surest(self, tmp_path: Path) -> None:
        found = debuginfo_candidates(
            "1.2", "abcdef", tmp_path, {"FAULTPROF_VMLINUX": "/my/vmlinux"}
        )
        assert found[:2] == [
            Path("/my/vmlinux"),
            tmp_path / "usr/lib/debug/.build-id/ab/cdef.debug",
        ]
        assert tmp_path / "usr/lib/debug/boot/vmlinux-1.2" in found
        assert tmp_path / "usr/lib/debug/lib/modules/1.2/vmlinux" in found

    def test_matching(self, tmp_path: Path) -> None:
        write(tmp_path / "sys/kernel/notes", notes(BUILD_ID, "="))
        stranger = write(tmp_path / f"boot/vmlinux-{HOST.release}", elf64_sections(OTHER_ID))
        assert elf_build_id(stranger) == OTHER_ID.hex()
        place = tmp_path / f"usr/lib/debug/boot/vmlinux-{HOST.release}"
        write(place, elf64_sections(BUILD_ID))
        check = debuginfo_check(HOST, tmp_path, {})
        assert check.state == "ok"
        assert check.found == f"{place}, build id {BUILD_ID.hex()[:12]}"

    def test_of_another_build_is_named_and_not_used(self, tmp_path: Path) -> None:
        write(tmp_path / "sys/kernel/notes", notes(BUILD_ID, "="))
        mine = write(tmp_path / "my/vmlinux", elf64_sections(OTHER_ID))
        check = debuginfo_check(HOST, tmp_path, {"FAULTPROF_VMLINUX": str(mine)})
        assert check.state == "missing"
        assert check.found.startswith(f"{mine}: its build id is {OTHER_ID.hex()[:12]}")
        assert BUILD_ID.hex()[:12] in check.found
        assert check.remedy == "sudo apt install linux-image-6.1.0-37-amd64-dbg"

    def test_none(self, tmp_path: Path) -> None:
        write(tmp_path / "sys/kernel/notes", notes(BUILD_ID, "="))
        check = debuginfo_check(HOST, tmp_path, {})
        assert check.found == f"none installed for build id {BUILD_ID.hex()[:12]}"


class TestBtf:
    BLOB = b"\x9f\xeb\x01\0\x18\0\0\0" + b"\0" * 16 + b"\0int\0btf_trace_sched_switch\0"

    @pytest.mark.parametrize("magic", [b"\x9f\xeb", b"\xeb\x9f"])
    def test_tracepoints_are_named_in_whole(self, tmp_path: Path, magic: bytes) -> None:
        write(tmp_path / "sys/kernel/btf/vmlinux", magic + self.BLOB[2:])
        assert btf_check(tmp_path).state == "ok"
        assert has_tracepoint("sched_switch", tmp_path) is True
        assert has_tracepoint("sched_swit", tmp_path) is False
        assert has_tracepoint("switch", tmp_path) is False

    @pytest.mark.parametrize("content", [None, b"", b"\x9f", b"nonsense"])
    def test_absent_and_damaged(self, tmp_path: Path, content: bytes | None) -> None:
        if content is not None:
            write(tmp_path / "sys/kernel/btf/vmlinux", content)
        assert btf_check(tmp_path).state == "missing"
        assert has_tracepoint("sched_switch", tmp_path) is None
