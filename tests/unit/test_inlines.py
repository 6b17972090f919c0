"""faultprof inlines on programs compiled at several levels, against readelf and addr2line."""

from __future__ import annotations

import json
import re
import subprocess
from collections import Counter
from pathlib import Path

import pytest

from faultprof.analysis.inlining import (
    ABSENT,
    INLINED,
    OUT_OF_LINE,
    InlinedFunction,
    Inlining,
    compare_inlining,
)
from faultprof.errors import ExitCode
from faultprof.kernel.dwarf import DwarfFile
from faultprof.kernel.dwarf_mentions import units_mentioning
from faultprof.kernel.inline_index import InlineIndex
from faultprof.kernel.inlines import Copy
from faultprof.render.inlines import Kernel, inlines_json, inlines_lines
from faultprof.render.terminal import Terminal
from tests.addr2line import addr2line
from tests.running import run
from tests.unit.dwarf_programs import VARIANTS, Variant, build, text_addresses

LEVELS = ("-O0", "-O1", "-O2", "-O3", "-Os")
FUNCTIONS = ("leaf", "middle", "wrapper", "outer", "guarded", "summed", "scaled", "first", "fourth")
OURS = "program"


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


@pytest.fixture(scope="module", params=LEVELS)
def program(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(Variant(code=(request.param,)), tmp_path_factory.mktemp(OURS))


def copies_of(path: Path, *globs: str) -> list[Copy]:
    return InlineIndex(path, OURS).copies(globs or ("*",))


_ENTRY = re.compile(r" <\d+><([0-9a-f]+)>: Abbrev Number: \d+ \((DW_TAG_\w+)\)")
_ATTRIBUTE = re.compile(r"\s+<[0-9a-f]+>\s+(DW_AT_\w+)\s*:\s*(.*)")


def readelf(path: Path) -> Counter[tuple[str, bool]]:
    """Count the copies with code of each function: (name, whether inlined)."""
    command = ["readelf", "--debug-dump=info", path]
    text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    entries: dict[str, tuple[str, dict[str, str]]] = {}
    attributes: dict[str, str] = {}
    for line in text.splitlines():
        if found := _ENTRY.match(line):
            attributes = {}
            entries[found[1]] = found[2], attributes
        elif found := _ATTRIBUTE.match(line):
            attributes[found[1]] = found[2]
    counts: Counter[tuple[str, bool]] = Counter()
    for tag, known in entries.values():
        if tag in ("DW_TAG_subprogram", "DW_TAG_inlined_subroutine") and (
            "DW_AT_high_pc" in known or "DW_AT_ranges" in known
        ):
            counts[_name(entries, known), tag == "DW_TAG_inlined_subroutine"] += 1
    return counts


def _name(entries: dict[str, tuple[str, dict[str, str]]], known: dict[str, str]) -> str:
    while "DW_AT_name" not in known:
        origin = known.get("DW_AT_abstract_origin") or known["DW_AT_specification"]
        known = entries[origin.strip("<>").removeprefix("0x").split(">")[0]][1]
    return known["DW_AT_name"].rpartition("): ")[2].strip()


def test_copies_are_those_that_readelf_lists(program: Path) -> None:
    ours = Counter((copy.function, copy.inlined) for copy in copies_of(program))
    assert ours == readelf(program)


def test_code_bytes_are_those_that_addr2line_finds(program: Path) -> None:
    expected: Counter[tuple[str, ...]] = Counter()
    for chain in addr2line(program, text_addresses(program)):
        for length in range(1, len(chain) + 1):
            expected[chain[:length]] += 1
    ours: Counter[tuple[str, ...]] = Counter()
    for copy in copies_of(program):
        ours[copy.chain] += copy.size
    assert {chain[0] for chain in ours} >= {"main", "first", "second", "third", "fourth"}
    # What no unit covers, as padding, addr2line names by the nearest symbol: see the next test.
    assert {c: n for c, n in ours.items() if c[1:]} == {c: n for c, n in expected.items() if c[1:]}


def test_bytes_out_of_line_are_the_sizes_of_symbols(program: Path) -> None:
    printed = subprocess.run(["nm", "-S", program], capture_output=True, text=True, check=True)
    sizes: Counter[str] = Counter()
    for line in printed.stdout.splitlines():
        fields = line.split()
        if len(fields) == 4:
            sizes[fields[3].partition(".")[0]] += int(fields[1], 16)  # .cold, .isra.0, .part.0
    ours: Counter[str] = Counter()
    for copy in copies_of(program):
        if not copy.inlined:
            ours[copy.function] += copy.size
    assert ours == {name: sizes[name] for name in ours}


def test_asking_for_names_finds_what_reading_everything_finds(program: Path) -> None:
    everything = Counter(copies_of(program))
    for name in FUNCTIONS:
        found = Counter(copies_of(program, name))
        assert found == Counter({c: n for c, n in everything.items() if c.function == name})
    globbed = Counter(copies_of(program, "*ddle", "g?ard[a-f]d"))
    wanted = {c: n for c, n in everything.items() if c.function in ("middle", "guarded")}
    assert globbed == Counter(wanted)


# Those that keep names, or the code that bears them, in another place each.
FORMS = (
    "dwarf2",
    "dwarf5-64bit",
    "zdebug",
    "zstd",
    "dwz-4",
    "dwz-multifile",
    "lto",
    "dropped-code",
)


@pytest.mark.parametrize("name", FORMS)
def test_every_form_of_debuginfo(name: str, tmp_path: Path) -> None:
    path = build(VARIANTS[name], tmp_path)
    everything = Counter(copies_of(path))
    assert sum(copy.inlined for copy in everything) > 0
    found = Counter(copies_of(path, "middle", "summed", "third"))
    wanted = ("middle", "summed", "third")
    assert found == Counter({c: n for c, n in everything.items() if c.function in wanted})


def test_few_units_are_read(tmp_path: Path) -> None:
    file = DwarfFile(build(VARIANTS["plain"], tmp_path))
    assert len(file.units) == 2
    assert len(units_mentioning(file, ["guarded"])) == 1
    assert len(units_mentioning(file, ["guarde"])) == 0
    assert len(units_mentioning(file, ["guard*"])) == 1
    assert len(units_mentioning(file, ["*"])) == 2


BEFORE = [
    Copy(("do_fault", "do_read_fault"), True, 400),
    Copy(("clear_huge_page",), False, 300),
    Copy(("clear_huge_page", "clear_page"), True, 5),
    Copy(("clear_huge_page", "clear_page"), True, 5),
    Copy(("wp", "helper", "clear_page"), True, 7),
]
AFTER = [
    Copy(("do_read_fault",), False, 410),
    Copy(("folio_zero_user",), False, 320),
    Copy(("folio_zero_user", "clear_page"), True, 6),
    Copy(("folio_zero_user", "clear_page"), True, 4),
    Copy(("wp", "helper", "clear_page"), True, 9),
]


def logical(name: str) -> str:
    return "folio_zero_user" if name == "clear_huge_page" else name


def compared() -> dict[str, InlinedFunction]:
    return {one.name: one for one in compare_inlining([BEFORE, AFTER], logical)}


def test_two_kernels_side_by_side() -> None:
    found = compared()
    assert {name: one.same for name, one in found.items()} == {
        "do_read_fault": False,  # out of line in one
        "folio_zero_user": True,  # renamed, and no difference but bytes
        "clear_page": True,  # its callers were renamed
    }
    assert [one.state for one in found["do_read_fault"].kernels] == [INLINED, OUT_OF_LINE]
    before, after = found["clear_page"].kernels
    assert (before.sites.count, before.sites.size) == (3, 17)
    assert after.into["helper", "wp"].size == 9
    assert found["folio_zero_user"].kernels[0].names == {"clear_huge_page"}


def test_another_number_of_sites_is_another_way() -> None:
    (one,) = compare_inlining([BEFORE[2:4], BEFORE[2:3]], logical)
    assert not one.same


def test_a_function_that_only_one_kernel_has() -> None:
    (one,) = compare_inlining([BEFORE[:1], []], logical)
    assert [kernel.state for kernel in one.kernels] == [INLINED, ABSENT]
    assert not one.same
    assert Inlining().sites.count == 0


def test_text_for_two_kernels() -> None:
    kernels = [Kernel("a/vmlinux", "0123456789abcdef"), Kernel("b\x1b[2J", None)]
    lines = list(inlines_lines(kernels, list(compared().values()), Terminal()))
    assert lines == [
        "# A        a/vmlinux (build id 0123456789ab)",
        r"# B        b\x1b[2J",
        "# bytes    of code, with what is inlined into it",
        "# verdict  1 of 3 functions are not inlined in the same way (*)",
        "#",
        "#        A copies, bytes       B copies, bytes  where the code is",
        "clear_page: inlined",
        "                   2, 10                 2, 10  inlined into folio_zero_user",
        "                    1, 7                  1, 9  inlined into helper, in wp",
        "do_read_fault: inlined / out of line *",
        "                       -                1, 410  out of line",
        "                  1, 400                     -  inlined into do_fault",
        "folio_zero_user (clear_huge_page): out of line",
        "                  1, 300                1, 320  out of line",
    ]


def test_json_has_what_is_documented() -> None:
    data = inlines_json([Kernel("a", "01"), Kernel("b", None)], list(compared().values()))
    assert data["kernels"] == [{"path": "a", "build_id": "01"}, {"path": "b", "build_id": None}]
    assert data["functions"][1] == {
        "name": "do_read_fault",
        "same": False,
        "kernels": [
            {
                "names": ["do_read_fault"],
                "state": "inlined",
                "out_of_line": {"copies": 0, "bytes": 0},
                "inlined": {"copies": 1, "bytes": 400},
                "into": [{"caller": "do_fault", "host": "do_fault", "copies": 1, "bytes": 400}],
            },
            {
                "names": ["do_read_fault"],
                "state": "out of line",
                "out_of_line": {"copies": 1, "bytes": 410},
                "inlined": {"copies": 0, "bytes": 0},
                "into": [],
            },
        ],
    }


def test_the_command_compares_two_levels(tmp_path: Path) -> None:
    paths = []
    for level in ("-O0", "-O2"):
        (tmp_path / level).mkdir()
        paths.append(build(Variant(code=(level,)), tmp_path / level))
    done = run("inlines", *paths, "-f", "summed", "-f", "guarde*", "--json")
    assert done.returncode == 0, done.stderr
    functions = {one["name"]: one for one in json.loads(done.stdout)["functions"]}
    assert set(functions) == {"summed", "guarded"}
    assert functions["guarded"]["kernels"][0]["state"] == "out of line"
    changed = run("inlines", *paths, "-f", "*", "--changed").stdout
    assert "are not inlined in the same way" in changed
    assert run("inlines", *paths, "-f", "no_such").returncode == ExitCode.USAGE
    assert run("inlines", tmp_path / "none").returncode == ExitCode.UNSUPPORTED
