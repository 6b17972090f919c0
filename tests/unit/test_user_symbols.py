"""Names for user stacks, held against what nm and readelf say of compiled programs."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from faultprof.capture.user_files import UserFiles
from faultprof.capture.user_symbols import UNKNOWN, UserSymbols
from faultprof.recording.frames import USER, Frame
from faultprof.recording.ledger import Ledger
from tests.user_programs import IP_ONLY, NEST, VALID, Program, Record, build, tool, user_stack

Naming = Callable[..., UserSymbols]


@pytest.fixture
def naming(tmp_path: Path) -> Iterator[Naming]:
    """Return a function that makes UserSymbols which know the given files."""
    files = UserFiles(None)
    made: list[UserSymbols] = []

    def make(*paths: Path) -> UserSymbols:
        for path in paths:
            assert files.learn(str(path)) is not None
        made.append(UserSymbols(files, debug_root=tmp_path / "debug"))
        return made[-1]

    yield make
    for symbols in made:
        symbols.close()
    files.close()


def nest(program: Program) -> list[Record]:
    """Return main→outer→inner, leaf first: the first byte of inner, returns behind the callers."""
    build_id = program.build_id
    return [
        (VALID, build_id, program.start("inner")),
        (VALID, build_id, program.end("outer")),
        (VALID, build_id, program.end("main")),
    ]


def in_file(name: str, *functions: str) -> tuple[Frame, ...]:
    return tuple(Frame(function, name, USER) for function in functions)


@pytest.mark.parametrize("flags", [["-pie", "-fPIE"], ["-no-pie", "-fno-pie"], ["-static"]])
def test_functions_of_a_program(tmp_path: Path, naming: Naming, flags: list[str]) -> None:
    program = build(tmp_path / "nest", NEST, *flags)
    frames = naming(program.path).resolve(user_stack(*nest(program)))
    assert frames == in_file("nest", "main", "outer", "inner")


def test_leaf_is_looked_up_where_it_is_and_a_caller_before_its_return_address(
    tmp_path: Path, naming: Naming
) -> None:
    program = build(tmp_path / "nest")
    at = (VALID, program.build_id, program.start("outer"))
    assert program.start("outer") == program.end("inner"), "the test needs them side by side"
    frames = naming(program.path).resolve(user_stack(at, at))
    assert frames == in_file("nest", "inner", "outer")


def test_stripped_program_has_the_names_of_its_dynamic_symbols(
    tmp_path: Path, naming: Naming
) -> None:
    program = build(tmp_path / "nest", NEST, "-rdynamic")
    tool("strip", program.path)
    symbols = naming(program.path)
    assert symbols.resolve(user_stack(*nest(program))) == in_file("nest", "main", "outer", "[nest]")


def test_stripped_program_with_its_debug_file(tmp_path: Path, naming: Naming) -> None:
    program = build(tmp_path / "nest")
    _split_debug(program, tmp_path / "debug", program.build_id)
    frames = naming(program.path).resolve(user_stack(*nest(program)))
    assert frames == in_file("nest", "main", "outer", "inner")


def test_debug_file_of_another_program_is_refused(tmp_path: Path, naming: Naming) -> None:
    program = build(tmp_path / "nest")
    other = build(tmp_path / "other", NEST.replace("outer", "somewhere_else"))
    _split_debug(other, tmp_path / "debug", program.build_id)
    frames = naming(program.path).resolve(user_stack(*nest(program)))
    assert frames == in_file("nest", "main", "outer", "inner")


def test_shared_library(tmp_path: Path, naming: Naming) -> None:
    library = build(tmp_path / "libnest.so.1", NEST, "-shared", "-fPIC")
    program = build(tmp_path / "nest")
    stack = user_stack(*nest(library)[:2], *nest(program)[2:])
    frames = naming(library.path, program.path).resolve(stack)
    assert frames == (*in_file("nest", "main"), *in_file("libnest.so.1", "outer", "inner"))


def test_of_several_names_the_public_one(tmp_path: Path, naming: Naming) -> None:
    source = """
    int __work(void) { return 1; }
    static int aaa_local(void) __attribute__((alias("__work"), used));
    int work(void) __attribute__((weak, alias("__work")));
    int main(void) { return work(); }
    """
    program = build(tmp_path / "aliases", source)
    symbols = naming(program.path)
    stack = user_stack((VALID, program.build_id, program.start("__work")))
    assert symbols.resolve(stack) == in_file("aliases", "work")


def test_versions_are_no_part_of_a_name(tmp_path: Path, naming: Naming) -> None:
    source = """
    __asm__(".symver work_new,work@@V2");
    int work_new(void) { return 2; }
    """
    script = tmp_path / "versions"
    script.write_text("V2 { global: work; local: *; };")
    flags = ("-shared", "-fPIC", f"-Wl,--version-script={script}")
    library = build(tmp_path / "libwork.so", source, *flags)
    assert "work@@V2" in tool("nm", library.path)
    stack = user_stack((VALID, library.build_id, library.start("work@@V2")))
    assert naming(library.path).resolve(stack) == in_file("libwork.so", "work")


def test_assembly_functions_without_size_end_at_the_next_or_with_their_section(
    tmp_path: Path, naming: Naming
) -> None:
    source = r"""
    __asm__(".pushsection .text.bare,\"ax\",@progbits; .p2align 4;"
            ".type first,@function; first: .skip 16,0x90;"
            ".type second,@function; second: .skip 8,0x90;"
            ".type sized,@function; .size sized,4; sized: .skip 16,0x90; .popsection;"
            ".pushsection elsewhere,\"ax\",@progbits; label: .skip 64,0x90; .popsection");
    int main(void) { return 0; }
    """
    program = build(tmp_path / "bare", source, "-Wl,--unique=.text.bare")
    symbols = naming(program.path)
    names = [
        symbols.resolve(user_stack((VALID, program.build_id, offset)))[0].function
        for offset in (
            program.start("first") + 15,
            program.start("second"),
            program.start("second") + 7,
            program.start("sized") + 3,
            program.start("sized") + 4,
            program.start("label") + 32,
        )
    ]
    assert names == ["first", "second", "second", "sized", "[bare]", "[bare]"]


def test_what_lies_in_no_file_is_unknown_and_no_name_holds_an_address(
    tmp_path: Path, naming: Naming
) -> None:
    program = build(tmp_path / "nest")
    vdso = (IP_ONLY, b"", 0x7FFD_1234_5678)
    nowhere = (VALID, b"\x01" * 20, 0x4242)
    frames = naming(program.path).resolve(user_stack(vdso, nowhere, *nest(program)[2:]))
    assert frames == (*in_file("nest", "main"), UNKNOWN, UNKNOWN)
    assert not any(char.isdigit() for frame in frames for char in frame.function)


def test_offset_outside_of_code_has_the_name_of_the_file(tmp_path: Path, naming: Naming) -> None:
    program = build(tmp_path / "nest")
    symbols = naming(program.path)
    for offset in (0, 2**64 - 1, os.stat(program.path).st_size):  # noqa: PTH116
        stack = user_stack((VALID, program.build_id, offset))
        assert symbols.resolve(stack) == in_file("nest", "[nest]")


def test_empty_stack_has_no_frames(naming: Naming) -> None:
    assert naming().resolve(user_stack()) == ()


def test_file_name_that_is_no_text_or_steers_the_terminal(tmp_path: Path, naming: Naming) -> None:
    program = build(tmp_path / "nest")
    hostile = tmp_path / os.fsdecode(b"a\xff\x1b[31m\nb")
    hostile.hardlink_to(program.path)
    (frame,) = naming(hostile).resolve(user_stack(nest(program)[0]))
    assert frame == Frame("inner", "a??[31m?b", USER)


def test_ledger_counts_frames_and_says_what_is_missing(tmp_path: Path, naming: Naming) -> None:
    program = build(tmp_path / "nest")
    symbols = naming(program.path)
    symbols.resolve(user_stack(*nest(program)), samples=20)
    symbols.resolve(user_stack((IP_ONLY, b"", 1), (VALID, b"\x01" * 20, 2)), samples=10)
    symbols.resolve(user_stack((VALID, program.build_id, 0)), samples=20)
    ledger = Ledger()
    symbols.enter(ledger)
    assert ledger.counters == {
        "user_frames_named": 60,
        "user_frames_without_function": 20,
        "user_frames_of_unknown_files": 10,
        "user_frames_outside_of_files": 10,
        "user_stacks_cut": 0,
    }
    assert any("frame pointers" in note.text for note in ledger.notes)
    assert ledger.verdict == (
        "degraded: 40% of the user frames have no name: "
        "20% in files without symbols there (install their debug files), "
        "10% in files that could not be found, "
        "10% outside of files, or wrong for want of frame pointers"
    )


def test_ledger_is_good_when_all_but_a_few_have_names(tmp_path: Path, naming: Naming) -> None:
    program = build(tmp_path / "nest")
    symbols = naming(program.path)
    symbols.resolve(user_stack(*nest(program)), samples=100)
    symbols.resolve(user_stack((IP_ONLY, b"", 1)), samples=9)
    ledger = Ledger()
    symbols.enter(ledger)
    assert not ledger.degraded
    assert ledger.counters["user_frames_outside_of_files"] == 9


def test_ledger_tells_of_cut_stacks_and_mangled_names(tmp_path: Path, naming: Naming) -> None:
    program = build(tmp_path / "nest", "int _ZN4nest4mainEv(void) { return 0; }" + NEST)
    symbols = naming(program.path)
    frame = (VALID, program.build_id, program.end("_ZN4nest4mainEv") - 1)
    assert symbols.resolve(user_stack(*[frame] * 32), samples=7)[0].function == "_ZN4nest4mainEv"
    ledger = Ledger()
    symbols.enter(ledger)
    assert ledger.counters["user_stacks_cut"] == 7
    assert ledger.verdict.startswith("degraded: 7 samples have user stacks deeper than 32")
    assert any("mangled" in note.text for note in ledger.notes)


def test_ledger_without_user_stacks_has_counters_only(naming: Naming) -> None:
    ledger = Ledger()
    naming().enter(ledger)
    assert not ledger.notes
    assert set(ledger.counters.values()) == {0}


def _split_debug(program: Program, debug_root: Path, build_id: bytes) -> None:
    """Move a program's symbols to the debug file of a build id."""
    digits = build_id.hex()
    (debug_root / digits[:2]).mkdir(parents=True)
    debug = debug_root / digits[:2] / f"{digits[2:]}.debug"
    tool("objcopy", "--only-keep-debug", program.path, debug)
    tool("strip", program.path)
