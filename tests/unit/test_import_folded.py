"""Folded stacks, and tables of mails, become recordings that other commands open like any other."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest

import faultprof
from faultprof.analysis.comparison import compare_sides
from faultprof.analysis.imports.formats import Choice, import_text
from faultprof.analysis.selection import Selection
from faultprof.analysis.sides import read_comparands
from faultprof.errors import ExitCode, FaultprofError
from faultprof.recording.frames import INLINED, SYMBOL, USER, Frame
from faultprof.recording.reader import read_recording
from faultprof.recording.writer import write_recording
from faultprof.render.terminal import Terminal
from faultprof.render.views import folded_view
from tests.running import run
from tests.unit.recordings import SESSION, session_metadata
from tests.unit.threads import ARRAYS, HEADING, ROUNDS, ROWS, ZERO_DAY


def folded(text: str) -> dict[tuple[str, tuple[Frame, ...]], int]:
    imported = import_text(io.BytesIO(text.encode()), "text", Choice("folded"))
    return {(path.comm, path.frames): path.samples for path in imported.paths}


def test_marks_say_where_a_function_lives() -> None:
    text = "usemem;main;[libc.so.6];do_fault.isra.0_[k];clear_page_[k];f_[i] 7\nidle 3\n"
    expected = (
        Frame("main", "", USER),
        Frame("[libc.so.6]", "libc.so.6", USER),
        Frame("do_fault", "", f"{SYMBOL}:.isra.0"),
        Frame("clear_page"),
        Frame("f", "", USER),
    )
    found = folded(text)
    assert found["usemem", expected] == 7
    assert sum(found.values()) == 10


def test_bcc_marks_the_kernels_part_by_a_line() -> None:
    ((_, frames),) = folded("usemem;main;-;handle_mm_fault;do_fault_[i] 7\n")
    assert frames == (
        Frame("main", "", USER),
        Frame("handle_mm_fault"),
        Frame("do_fault", "", INLINED),
    )


def test_without_any_mark_nothing_is_taken_for_user_code() -> None:
    ((_, frames),) = folded("usemem;handle_mm_fault;do_fault 7\n")
    assert frames == (Frame("handle_mm_fault"), Frame("do_fault"))


def test_what_cannot_be_read_is_named() -> None:
    text = "a;b 1\na;b\na;b 1 2\na;b 1.5\na;b 99999999999999999\n;; 3\n# remark\n"
    imported = import_text(io.BytesIO(text.encode()), "text", Choice("folded"))
    assert [one.line for one in imported.account.unread] == [2, 3, 4, 5]
    assert imported.metadata.ledger.counters["lines_not_read"] == 4


def test_our_own_export_comes_back(tmp_path: Path) -> None:
    write_recording(tmp_path / "a.fprof", session_metadata(), SESSION[:1])
    exported = export(tmp_path / "a.fprof")
    text = "".join(f"{line}\n" for line in exported).encode()
    imported = import_text(io.BytesIO(text), "text", Choice())
    write_recording(tmp_path / "b.fprof", imported.metadata, [imported.paths])
    assert export(tmp_path / "b.fprof") == exported


def export(path: Path) -> list[str]:
    return sorted(folded_view(read_recording(path), Selection(), Terminal()))


def import_mail(path: Path, text: str) -> Path:
    path.with_suffix(".txt").write_text(text)
    imported = import_text(io.BytesIO(text.encode()), "text", Choice())
    write_recording(path, imported.metadata, [])
    return path


def test_imported_tables_print_as_they_were_mailed(tmp_path: Path) -> None:
    table = import_mail(tmp_path / "mail.fprof", ZERO_DAY)
    printed = run("compare", table, "--lkp").stdout.splitlines()
    assert [line.rstrip() for line in printed] == [line.rstrip() for line in (*HEADING, *ROWS)]


@pytest.mark.parametrize("text", [ZERO_DAY, ARRAYS, ROUNDS], ids=["0-day", "arrays", "rounds"])
def test_imported_tables_compare_as_the_text_does(text: str, tmp_path: Path) -> None:
    recording = import_mail(tmp_path / "mail.fprof", text)
    of_text = read_comparands([str(recording.with_suffix(".txt"))])
    of_import = read_comparands([str(recording)])
    assert len(of_import.tables) == len(of_text.tables) > 0
    for ours, theirs in zip(of_import.tables, of_text.tables, strict=True):
        assert ours.caption == theirs.caption
        ours_compared, theirs_compared = (compare_sides(one.sides) for one in (ours, theirs))
        assert [str(row.changes) for row in ours_compared.rows] == [
            str(row.changes) for row in theirs_compared.rows
        ]
        assert ours_compared.rows
    (turned,) = read_comparands([f"{recording}:2", f"{recording}:1"]).tables
    assert [side.label for side in turned.sides] == [
        side.label for side in reversed(of_text.tables[0].sides[:2])
    ]


def test_a_side_of_an_import_goes_with_a_recording(tmp_path: Path) -> None:
    recording = import_mail(tmp_path / "mail.fprof", ARRAYS)
    write_recording(tmp_path / "own.fprof", session_metadata(), SESSION)
    (table,) = read_comparands([f"{recording}:1", str(tmp_path / "own.fprof")]).tables
    assert "vm-scalability.throughput" in table.sides[0].metrics
    assert "wall_s" in table.sides[1].metrics


def test_samples_alone_have_nothing_to_compare(tmp_path: Path) -> None:
    imported = import_text(io.BytesIO(b"usemem;main 3\n"), "text", Choice())
    write_recording(tmp_path / "a.fprof", imported.metadata, [imported.paths])
    with pytest.raises(FaultprofError, match="no metrics"):
        read_comparands([str(tmp_path / "a.fprof")] * 2)


def test_a_damaged_table_is_refused(tmp_path: Path) -> None:
    imported = import_text(io.BytesIO(ARRAYS.encode()), "text", Choice())
    assert imported.metadata.imported is not None
    imported.metadata.imported["tables"][0]["sides"][0]["metrics"] = [1]  # type: ignore[index]
    write_recording(tmp_path / "a.fprof", imported.metadata, [])
    with pytest.raises(FaultprofError, match="tables are incomplete"):
        read_comparands([str(tmp_path / "a.fprof")])


def test_the_command_reads_a_pipe_and_says_what_it_found(tmp_path: Path) -> None:
    out = tmp_path / "a.fprof"
    done = run("import", "-", "-o", out, input="usemem;main 3\nusemem;main;x\x1b[2J\nusemem;b 1\n")
    assert done.returncode == 0
    assert done.stderr.splitlines() == [
        r"standard input:2: not read, no count of samples at its end: usemem;main;x\x1b[2J",
        "standard input: 3 lines: 4 samples",
    ]
    recording = faultprof.load(out)
    assert recording.metadata.mode == "import"
    assert out.stat().st_mode & 0o777 == 0o600
    report = run("report", out).stdout
    assert "import of folded stacks from standard input" in report
    assert "1 of 3 lines could not be read" in report
    assert json.loads(run("report", "--json", out).stdout)["imported"]["unread_lines"] == 1


def test_a_text_that_is_not_there(tmp_path: Path) -> None:
    done = run("import", tmp_path / "none.txt", "-o", tmp_path / "a.fprof")
    assert done.returncode == ExitCode.BAD_RECORDING
    assert "No such file" in done.stderr


def test_a_recording_is_not_overwritten_by_failure(tmp_path: Path) -> None:
    out = tmp_path / "a.fprof"
    write_recording(out, session_metadata(), SESSION)
    before = out.read_bytes()
    assert run("import", "-", "-o", out, input="nothing\n").returncode == ExitCode.BAD_RECORDING
    assert out.read_bytes() == before


def test_no_text_too_large_for_a_recording() -> None:
    text = "usemem;main 9007199254740992\nusemem;main 1\n"
    imported = import_text(io.BytesIO(text.encode()), "text", Choice("folded"))
    assert imported.account.unread_lines == 1
    with pytest.raises(FaultprofError):
        import_text(io.BytesIO(b"usemem;main 0x1\n"), "text", Choice("folded"))
