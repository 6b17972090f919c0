"""ELF files made to do harm: nothing raises, hangs or takes memory without bound."""

from __future__ import annotations

import os
import resource
import struct
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from faultprof.capture.user_elf import UserElf, open_regular
from tests.user_programs import Program, build

FUNC, GLOBAL = 2, 1
SYMTAB, STRTAB, NOTE = 2, 3, 7
BUILD_ID = bytes(range(1, 21))
CODE = (0x1000, 0x40_0000, 0x10_0000)  # file offset, address, size


def elf(
    symbols: list[tuple[int, int, int]],
    names: bytes,
    *,
    bits: int = 64,
    order: str = "<",
    sizes: dict[str, int] | None = None,
    build_id: bytes = BUILD_ID,
    code: tuple[int, int, int] = CODE,
) -> bytes:
    """Return an ELF file of one executable segment.

    Args:
        symbols: name (offset into ``names``), address, size of each function.
        names: the string table.
        bits: word size.
        order: byte order, as in struct.
        sizes: claims that replace the true figures: symtab, strtab, sections, segments.
        build_id: the build id.
        code: file offset, address and size of the segment.
    """
    claims = sizes or {}
    word = "Q" if bits == 64 else "I"
    header = struct.calcsize(order + "16sHHI" + 3 * word + "I6H")
    note = struct.pack(order + "III4s", 4, len(build_id), 3, b"GNU\0") + build_id
    table = b"".join(_symbol(order, bits, *symbol) for symbol in symbols)
    note_at = header
    table_at = note_at + len(note)
    names_at = table_at + len(table)
    segments_at = names_at + len(names)
    segments = _segment(order, bits, 1, 5, *code) + _segment(
        order, bits, 4, 4, note_at, 0, len(note)
    )
    sections_at = segments_at + len(segments)
    sections = [
        _section(order, bits, 0, 0, 0, claims.get("section zero", 0), 0, 0),
        _section(order, bits, SYMTAB, 0, table_at, claims.get("symtab", len(table)), 2, 1),
        _section(order, bits, STRTAB, 0, names_at, claims.get("strtab", len(names)), 0, 0),
        _section(order, bits, 1, CODE[1], CODE[0], CODE[2], 0, 0),
    ]
    identity = b"\x7fELF" + bytes([bits // 32, 1 if order == "<" else 2, 1]) + bytes(9)
    head = struct.pack(
        order + "16sHHI" + 3 * word + "I6H",
        *(identity, 2, 62, 1, CODE[1], segments_at, sections_at, 0, header),
        *(len(segments) // 2, claims.get("segments", 2)),
        *(len(sections[0]), claims.get("sections", len(sections)), 0),
    )
    return b"".join([head, note, table, names, segments, *sections])


def _symbol(order: str, bits: int, name: int, value: int, size: int) -> bytes:
    info = GLOBAL << 4 | FUNC
    if bits == 64:
        return struct.pack(order + "IBBHQQ", name, info, 0, 3, value, size)
    return struct.pack(order + "IIIBBH", name, value, size, info, 0, 3)


def _segment(
    order: str, bits: int, kind: int, flags: int, offset: int, address: int, size: int
) -> bytes:
    if bits == 64:
        return struct.pack(order + "II6Q", kind, flags, offset, address, 0, size, size, 4096)
    return struct.pack(order + "8I", kind, offset, address, 0, size, size, flags, 4096)


def _section(
    order: str,
    bits: int,
    kind: int,
    address: int,
    offset: int,
    size: int,
    link: int,
    _is_table: int,
) -> bytes:
    word = "Q" if bits == 64 else "I"
    entry = (24 if bits == 64 else 16) if _is_table else 0
    layout = order + "II" + 4 * word + "II" + 2 * word
    return struct.pack(layout, 0, kind, 0, address, offset, size, link, 0, 1, entry)


def opened(path: Path, data: bytes) -> UserElf:
    path.write_bytes(data)
    file = UserElf.open(str(path))
    assert file is not None
    return file


def name_at(file: UserElf, address: int) -> str | None:
    functions = file.functions()
    return functions.find(address) if functions is not None else None


def exercise(path: Path) -> None:
    """Do with a file all that naming does."""
    file = UserElf.open(str(path))
    if file is None:
        return
    build_id = file.build_id()
    assert build_id is None or len(build_id) == 20
    for offset in (0, 0x1100, 2**63, 2**64 - 1):
        address = file.address(offset)
        if address is not None:
            name_at(file, address)
    file.close()


@pytest.mark.parametrize("bits", [32, 64])
@pytest.mark.parametrize("order", ["<", ">"])
def test_both_word_sizes_and_byte_orders(tmp_path: Path, bits: int, order: str) -> None:
    symbols = [(1, 0x40_0000, 0x20), (7, 0x40_0020, 0x10)]
    file = opened(tmp_path / "elf", elf(symbols, b"\0first\0second\0", bits=bits, order=order))
    assert file.build_id() == BUILD_ID
    assert file.address(0x1020) == 0x40_0020
    assert file.address(0xFFF) is None
    assert file.address(0x1000 + 0x10_0000) is None
    assert [name_at(file, 0x40_0000 + at) for at in (0, 0x1F, 0x20, 0x2F, 0x30)] == [
        *("first", "first", "second", "second"),
        None,
    ]


def test_short_build_id_is_padded_as_the_kernel_does(tmp_path: Path) -> None:
    file = opened(tmp_path / "elf", elf([], b"\0", build_id=b"\xab\0\xcd\0"))
    assert file.build_id() == b"\xab\0\xcd\0" + bytes(16)


def test_long_build_id_is_none_as_for_the_kernel(tmp_path: Path) -> None:
    assert opened(tmp_path / "elf", elf([], b"\0", build_id=bytes(24))).build_id() is None


def test_inner_function_hides_the_outer_one_only_where_it_is(tmp_path: Path) -> None:
    symbols = [(1, 0x40_0000, 0x100), (7, 0x40_0040, 0x10)]
    file = opened(tmp_path / "elf", elf(symbols, b"\0outer\0inner\0"))
    names = [name_at(file, 0x40_0000 + at) for at in (0x3F, 0x40, 0x4F, 0x50, 0xFF, 0x100)]
    assert names == ["outer", "inner", "inner", "outer", "outer", None]


def test_large_table_agrees_with_a_plain_search(tmp_path: Path) -> None:
    count = 20_000
    random = np.random.default_rng(7)
    starts = 0x40_0000 + random.choice(0x10_0000, count, replace=False)
    sizes = random.integers(1, 64, count)
    names = b"\0" + b"".join(b"f%05d\0" % number for number in range(count))
    symbols = [(1 + 7 * i, int(starts[i]), int(sizes[i])) for i in range(count)]
    file = opened(tmp_path / "elf", elf(symbols, names))
    functions = file.functions()
    assert functions is not None
    assert functions.count == count
    for address in random.integers(0x40_0000, 0x50_0000, 500).tolist():
        around = np.flatnonzero((starts <= address) & (address < starts + sizes))
        # The innermost is the one that starts last.
        expected = f"f{max(around, key=lambda i: starts[i]):05d}" if around.size else None
        assert functions.find(address) == expected


@pytest.mark.parametrize(
    "sizes",
    [
        {"symtab": 2**64 - 1},
        {"strtab": 2**64 - 1},
        {"sections": 0xFFFF},
        {"sections": 0, "section zero": 2**64 - 1},
        {"segments": 0xFFFF},
    ],
    ids=str,
)
def test_claimed_sizes_do_not_matter(tmp_path: Path, sizes: dict[str, int]) -> None:
    path = tmp_path / "elf"
    file = opened(path, elf([(1, 0x40_0000, 0x20)], b"\0first\0", sizes=sizes))
    assert file.build_id() == BUILD_ID
    assert file.address(0x1000) == 0x40_0000
    assert name_at(file, 0x40_0000) == "first"


def test_sparse_file_of_a_terabyte_of_symbols_takes_bounded_memory(tmp_path: Path) -> None:
    data = elf([(1, 0x40_0000, 0x20)], b"\0first\0", sizes={"symtab": 1 << 40, "strtab": 1 << 40})
    path = tmp_path / "elf"
    path.write_bytes(data)
    os.truncate(path, 1 << 40)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    exercise(path)
    after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    assert after - before < 1 << 20, "KiB"


def test_a_name_without_end_is_cut(tmp_path: Path) -> None:
    file = opened(tmp_path / "elf", elf([(1, 0x40_0000, 0x20)], b"\0" + b"x" * 100_000))
    assert name_at(file, 0x40_0000) == "x" * 1024


def test_code_that_reaches_beyond_the_address_space(tmp_path: Path) -> None:
    data = elf([(1, 0x40_0000, 0x20)], b"\0first\0", code=(0, 2**64 - 16, 2**64 - 1))
    file = opened(tmp_path / "elf", data)
    assert [file.address(15), file.address(16)] == [2**64 - 1, 0]
    assert name_at(file, 2**64 - 1) is None
    exercise(tmp_path / "elf")


def test_a_symbol_that_reaches_beyond_the_address_space(tmp_path: Path) -> None:
    file = opened(tmp_path / "elf", elf([(1, 0x40_0000, 2**64 - 1)], b"\0first\0"))
    assert name_at(file, 2**64 - 2) == "first"
    assert name_at(file, 0x3F_FFFF) is None


def test_thousands_of_symbols_at_one_address(tmp_path: Path) -> None:
    file = opened(tmp_path / "elf", elf([(1, 0x40_0000, 0x20)] * 50_000, b"\0same\0"))
    assert name_at(file, 0x40_0010) == "same"
    assert name_at(file, 0x40_0020) is None


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Program:
    return build(tmp_path_factory.mktemp("elf") / "nest")


def test_only_executable_segments_hold_code(program: Program) -> None:
    file = UserElf.open(str(program.path))
    assert file is not None
    assert file.address(program.start("main")) == program.functions["main"][0]
    assert file.address(0) is None


def test_every_truncation_of_a_program(program: Program, tmp_path: Path) -> None:
    data = program.path.read_bytes()
    path = tmp_path / "cut"
    for size in [*range(128), *range(128, len(data), 97)]:
        path.write_bytes(data[:size])
        exercise(path)


@settings(
    max_examples=300, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(data=st.data())
def test_damaged_headers(program: Program, tmp_path: Path, data: st.DataObject) -> None:
    content = bytearray(program.path.read_bytes())
    sections_at = struct.unpack_from("<Q", content, 40)[0]
    # The ELF header, the program headers, the section headers.
    places = st.one_of(st.integers(4, 64 + 13 * 56), st.integers(sections_at, len(content) - 9))
    words = st.sampled_from([0, 1, 2**31, 2**32 - 1, 2**63 - 1, 2**63, 2**64 - 1])
    for _ in range(data.draw(st.integers(1, 6))):
        struct.pack_into("<Q", content, data.draw(places), data.draw(words))
    path = tmp_path / "damaged"
    path.write_bytes(content)
    exercise(path)


def test_only_regular_files_are_opened(tmp_path: Path) -> None:
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    loop = tmp_path / "loop"
    loop.symlink_to(loop)
    for path in (str(fifo), str(loop), str(tmp_path), "/dev/zero", "/no/such/file", "a\0b", ""):
        assert open_regular(path) is None


def test_a_link_to_a_regular_file_is_opened(program: Program, tmp_path: Path) -> None:
    link = tmp_path / "link"
    link.symlink_to(program.path)
    file = UserElf.open(str(link))
    assert file is not None
    assert file.build_id() == program.build_id


def test_files_that_are_not_elf_leave_nothing_open(tmp_path: Path) -> None:
    path = tmp_path / "text"
    before = len(os.listdir("/proc/self/fd"))  # noqa: PTH208
    for content in (b"", b"\x7fELF", b"#!/bin/sh\n", b"\x7fELF" + bytes(60)):
        path.write_bytes(content)
        assert UserElf.open(str(path)) is None
    assert len(os.listdir("/proc/self/fd")) == before  # noqa: PTH208
