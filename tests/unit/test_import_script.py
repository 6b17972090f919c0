"""perf script's text becomes paths: stored outputs, hostile text, and a plain reader to compare."""

from __future__ import annotations

import contextlib
import io
import re
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from faultprof.analysis.imports import perf_script
from faultprof.analysis.imports.account import MOST_NAMED, Account
from faultprof.analysis.imports.formats import Choice, Imported, import_text, tell_format
from faultprof.errors import ExitCode, FaultprofError
from faultprof.recording.frames import INLINED, SYMBOL, UNRESOLVED, USER, Frame

PERF = Path(__file__).parent / "data" / "perf"
SCRIPTS = sorted(path for path in PERF.glob("*.txt") if "report" not in path.name)

HEAD = "usemem 12 [000] 1.000001:     1001001 cpu-clock:pppH: \n"
LEAF = "\tffffffff8161f362 clear_page_erms+0x7 ([kernel.kallsyms])\n"
CALLER = "\tffffffff8161f999 do_anonymous_page+0x1f ([kernel.kallsyms])\n"
MAIN = "\t            12d8 main+0x38 (/usr/bin/usemem)\n"

Paths = Counter[tuple[str, tuple[str, ...]]]


def read(text: str | bytes, choice: Choice | None = None) -> Imported:
    data = text.encode() if isinstance(text, str) else text
    return import_text(io.BytesIO(data), "text", choice or Choice(format="perf-script"))


def named(imported: Imported) -> Paths:
    """Paths by function names, their weights added up."""
    found: Paths = Counter()
    for path in imported.paths:
        found[path.comm, tuple(frame.function for frame in path.frames)] += path.samples
    return found


def plainly(text: str, event: str) -> Paths:
    """Read a stored output with the means that its form allows: blank lines, tabs, columns."""
    found: Paths = Counter()
    for paragraph in text.split("\n\n" if "\n\n" in text else "\n"):
        lines = [line for line in paragraph.split("\n") if line and line[0] != "#"]
        lines = [
            line for line in lines if not re.match(r"  \S", line) and "PERF_RECORD" not in line
        ]
        if not lines or (event and f" {event}:" not in lines[0]):
            continue
        comm = re.sub(r"\s+\d+(/\d+)?\s+(\[\d+\] )?\s*\d+\.\d+:.*|\s+$", "", lines[0].lstrip())
        frames = lines[1:] or ["\t" + lines[0].partition(f"{event}:")[2].strip()]
        names = []
        for line in frames:
            _, name, *where = line.split(None, 2)
            name = re.sub(r"\+0x[0-9a-f]+$", "", name)
            name = re.sub(r"\.(isra|part|constprop|cold)\..*|\.cold$", "", name)
            file = where[0].strip("()").rpartition("/")[2] if where else ""
            unknown = name == "[unknown]" and file and "kernel" not in file
            names.append(f"[{file.strip('[]')}]" if unknown else name)
        found[comm, tuple(reversed(names))] += 1
    return found


def test_there_are_twenty_outputs_of_several_versions() -> None:
    assert len(list(PERF.glob("*.txt"))) >= 20
    versions = {path.name.partition("-")[0] for path in SCRIPTS}
    assert versions == {"4.8", "5.10", "6.1", "6.12", "7.3"}


@pytest.mark.parametrize("name", ["default", "nochain", "tracepoint", "dwarf"])
def test_the_layout_of_perf_4(name: str) -> None:
    """No perf 4.x was to be had: these are recordings of 5.10's in the layout of 4.8's source.

    That prints no offsets unless they are asked for (builtin-script.c: symoff is in no default),
    and is otherwise the same.
    """
    rewritten = (PERF / f"4.8-{name}-rewritten.txt").read_text()
    assert "+0x" not in rewritten
    assert named(read(rewritten)) == named(read((PERF / f"5.10-{name}.txt").read_text()))


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.stem)
def test_a_stored_output_is_read_whole(path: Path) -> None:
    text = path.read_text()
    imported = import_text(io.BytesIO(text.encode()), path.name, Choice())
    assert imported.account.unread == []
    assert imported.account.lines == text.count("\n")
    expected = plainly(text, imported.metadata.clock)
    # The plain reader takes C names only; C++ and BPF names hold blanks.
    assert named(imported) == expected
    assert imported.metadata.runs[0].samples == sum(expected.values()) > 0


def test_a_header_tells_machine_command_and_frequency() -> None:
    metadata = read((PERF / "6.1-header.txt").read_bytes()).metadata
    assert metadata.mode == "import"
    assert metadata.kernel.release == "6.18.44-test"
    assert metadata.host == "testbox"
    assert metadata.cpu.count == 2
    assert metadata.command[:2] == ("/usr/bin/perf", "record")
    assert (metadata.clock, metadata.frequency) == ("cpu-clock", 49)


def test_without_a_header_the_kernel_is_unknown() -> None:
    metadata = read(HEAD + LEAF).metadata
    assert metadata.kernel.release == "unknown"
    assert (metadata.host, metadata.command, metadata.frequency) == ("", (), 0)


def test_frames_say_where_they_live_and_how_they_were_found() -> None:
    text = (
        HEAD
        + "\tffffffff8161f362 clear_page+0x7 (inlined)\n"
        + "\tffffffff8161f362 folio_zero_user.isra.0+0x7 ([kernel.kallsyms])\n"
        + "\tffffffffc0000001 ext4_fault+0x1 ([ext4])\n"
        + "\tffffffffc0000002 xfs_fault ([/lib/modules/6.1/kernel/fs/xfs/xfs.ko.xz)\n".replace(
            "([", "("
        )
        + "\tffffffffc0000003 [unknown] ([unknown])\n"
        + "\t            12d8 std::map<int, a (b)>::at(int (*)(char)) const+0x3 (/o a/x (1).so)\n"
        + "\t    7f1234567890 [unknown] (/memfd:jit (deleted))\n"
        + "\t               0 [unknown] ([unknown])\n"
    )
    (path,) = read(text).paths
    assert list(reversed(path.frames)) == [
        Frame("clear_page", "", INLINED),
        Frame("folio_zero_user", "", f"{SYMBOL}:.isra.0"),
        Frame("ext4_fault", "ext4"),
        Frame("xfs_fault", "xfs"),
        Frame("[unknown]", "", UNRESOLVED),
        Frame("std::map<int, a (b)>::at(int (*)(char)) const", "x (1).so", USER),
        Frame("[memfd:jit]", "memfd:jit", USER),
        Frame("[unknown]", "", USER),
    ]


@pytest.mark.parametrize(
    "comm", ["usemem", "CPU 0/KVM", "my task 7", "kworker/0:1", "a.b", "dd", "(sd-pam)", "x 1.5: y"]
)
@pytest.mark.parametrize(
    "rest",
    [
        " 12 [001] 1.000001:     1001001 cpu-clock:pppH: ",
        " 12/13 1.000001: cycles:P: ",
        "  12 [001] 1.000000001: ",
        " 12/13 ",
        " 12 cpu-clock: ",
        " 12 [000] 3.000001: sched:sched_switch: prev_comm=a 5 ==> next_comm=b",
    ],
)
def test_a_task_may_be_called_anything(comm: str, rest: str) -> None:
    imported = read(f"{comm}{rest}\n{LEAF}{CALLER}\n" * 3)
    assert named(imported) == {(comm, ("do_anonymous_page", "clear_page_erms")): 3}
    assert imported.account.unread_lines == 0


def test_lines_that_cannot_be_read_are_named() -> None:
    text = (
        f"{HEAD}{LEAF}{CALLER}\nwhat is this\n\n{HEAD}{LEAF}\x1b[31mbroken\n{CALLER}\n{HEAD}{LEAF}"
    )
    imported = read(text)
    assert [(one.line, one.text) for one in imported.account.unread] == [
        (5, "what is this"),
        (9, "\x1b[31mbroken"),
    ]
    ledger = imported.metadata.ledger
    assert ledger.counters["lines_not_read"] == 2
    assert "2 of 13 lines could not be read, the first is line 5" in ledger.verdict
    assert sum(named(imported).values()) == 3


def test_far_too_many_unread_lines_are_counted() -> None:
    imported = read(f"{HEAD}{LEAF}\n" + "what is this\n" * 5000)
    assert imported.account.unread_lines == 5000
    assert len(imported.account.unread) == MOST_NAMED


@pytest.mark.parametrize("chunk", [1, 7, 64, 1000])
def test_where_chunks_end_makes_no_difference(chunk: int, monkeypatch: pytest.MonkeyPatch) -> None:
    text = (PERF / "7.3-events.txt").read_bytes() + b"\nodd line\n\n" + (HEAD + LEAF).encode()
    whole = read(text)
    monkeypatch.setattr(perf_script, "_CHUNK", chunk)
    parts = read(text)
    assert named(parts) == named(whole)
    assert parts.account == whole.account


def test_forgetting_known_pieces_makes_no_difference(monkeypatch: pytest.MonkeyPatch) -> None:
    text = b"\n".join(path.read_bytes() for path in SCRIPTS if "default" in path.name)
    whole = read(text)
    monkeypatch.setattr(perf_script, "_CHUNK", 256)
    monkeypatch.setattr(perf_script, "_MOST_TEXT", 300)
    monkeypatch.setattr(perf_script, "_MOST_LINES", 3)
    assert named(read(text)) == named(whole)


def test_known_pieces_do_not_grow_with_the_text(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(perf_script, "_CHUNK", 4096)
    monkeypatch.setattr(perf_script, "_MOST_LINES", 100)
    reader = perf_script._Reader(Account())
    for number in range(200):
        reader.read((HEAD + LEAF.replace("61f362", f"{number:06x}") + "\n").encode() * 20)
    assert max(map(len, (reader._leaves, reader._in_kernel, reader._heads))) <= 101
    assert sum(reader.counts.events.values()) == 4000


def test_windows_line_ends() -> None:
    text = f"{HEAD}{LEAF}{CALLER}\n{HEAD}{LEAF}".replace("\n", "\r\n")
    assert sum(named(read(text)).values()) == 2


def test_the_largest_event_is_taken_and_the_others_are_named() -> None:
    faults = HEAD.replace("cpu-clock:pppH", "page-faults:u")
    text = f"{faults}{MAIN}\n" + f"{HEAD}{LEAF}\n" * 3
    imported = read(text)
    assert imported.metadata.clock == "cpu-clock"
    assert sum(named(imported).values()) == 3
    assert imported.metadata.ledger.counters["samples_of_other_events"] == 1
    other = read(text, Choice("perf-script", event="page-faults"))
    assert sum(named(other).values()) == 1
    with pytest.raises(FaultprofError) as caught:
        read(text, Choice("perf-script", event="cycles"))
    assert caught.value.exit_code == ExitCode.USAGE
    assert "page-faults:u" in caught.value.hint


def test_periods_weigh_where_they_are_asked_to() -> None:
    heavy = HEAD.replace("1001001", "3003003")
    text = f"{HEAD}{LEAF}\n{heavy}{MAIN}\n{HEAD}{MAIN}"
    assert sorted(named(read(text)).values()) == [1, 2]
    weighed = named(read(text, Choice("perf-script", periods=True)))
    assert sorted(weighed.values()) == [1001001, 4004004]
    assert any("periods differ" in note.text for note in read(text).metadata.ledger.notes)


def test_a_sample_without_a_stack_is_kept() -> None:
    imported = read(f"{HEAD}\n{HEAD}{LEAF}")
    assert imported.metadata.ledger.counters["samples_without_stack"] == 1
    assert sum(named(imported).values()) == 2


@pytest.mark.parametrize("data", [b"", b"\n\n\n", b"PERFILE2" + bytes(100), b"\x1f\x8b12", b"no"])
def test_what_is_no_such_text_is_refused(data: bytes) -> None:
    with pytest.raises(FaultprofError) as caught:
        import_text(io.BytesIO(data), "text", Choice())
    assert caught.value.exit_code == ExitCode.BAD_RECORDING


_PIECES = st.sampled_from(
    [
        HEAD,
        LEAF,
        CALLER,
        MAIN,
        "\n",
        "# cmdline : 'a\n",
        " ",
        "\t",
        "(",
        ")",
        "[",
        "%",
        ":",
        "0x1",
        ";",
    ]
    + [path.read_text()[:400] for path in sorted(PERF.glob("*.txt"))[::6]]
)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.one_of(_PIECES, st.text(max_size=20)), max_size=25))
def test_no_text_makes_it_crash(pieces: list[str]) -> None:
    text = "".join(pieces).encode("utf-8", "replace")
    for chosen in (None, "perf-script", "folded", "mail"):
        try:
            imported = import_text(io.BytesIO(text), "text", Choice(chosen, part=1))
        except FaultprofError:
            continue
        assert all(path.frames and path.samples >= 0 for path in imported.paths)


@pytest.mark.parametrize(
    "line",
    [
        "|" * 100_000 + "x",
        "1.00% a" + " " * 100_000 + "b",
        "1.00% a  b  [k] c" + " -" * 100_000 + "x",
        "1.00% a  b  [k] c\n" + " " * 100_000 + "d",
        HEAD + "\t" + " " * 100_000 + "x",
        "a;b" * 100_000 + " 1 1",
        "a " * 200_000,
        "(" * 200_000,
        "\t" * 100_000,
        "1 " * 200_000,
        "|" * 100_000,
        "x" * 10**6,
    ],
)
@pytest.mark.parametrize("chosen", ["perf-script", "folded", "mail"])
def test_no_line_makes_it_hang(line: str, chosen: str) -> None:
    with contextlib.suppress(FaultprofError):
        import_text(io.BytesIO((line + "\n" + line).encode()), "text", Choice(chosen, part=1))


def test_formats_are_told_apart() -> None:
    assert tell_format((HEAD + LEAF).encode()) == "perf-script"
    assert tell_format((PERF / "5.10-nochain.txt").read_bytes()) == "perf-script"
    assert tell_format(b"usemem;main;do_fault_[k] 12\nswapper;idle 3\n") == "folded"
    assert tell_format((PERF / "5.10-report.txt").read_bytes()) == "mail"
    assert tell_format(b"> hello,\n> 1 2 3\n") == "mail"
