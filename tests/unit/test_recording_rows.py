"""What is written is what is read: rows, metadata, and other tools' view of the file."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings

from faultprof.recording.frames import SYMBOL, Frame
from faultprof.recording.metadata import Metadata
from faultprof.recording.paths import PathCount, nodes_from_paths
from faultprof.recording.reader import Recording, read_recording
from faultprof.recording.schema import COLUMNS, MAX_DEPTH, arrow_schema
from tests.unit.recordings import SESSION, Runs, held, random_runs, recorded, session_metadata


def paths_of(recording: Recording, run: int) -> Counter[tuple[str, tuple[Frame, ...]]]:
    """Rebuild the paths of one run from its rows alone."""
    rows, paths = recording.rows, Counter()  # type: ignore[var-annotated]
    for segment in rows.segments:
        stack: list[Frame] = []
        for row in range(segment.start, segment.stop):
            del stack[rows.depth[row] :]
            stack.append(rows.frames[rows.frame[row]])
            if segment.run == run and rows.self_samples[row]:
                paths[segment.comm, tuple(stack)] += int(rows.self_samples[row])
    return paths


@settings(deadline=None)
@given(runs=random_runs())
def test_paths_survive_the_file(runs: Runs) -> None:
    recording = held(runs)
    for number, paths in enumerate(runs):
        expected: Counter[tuple[str, tuple[Frame, ...]]] = Counter()
        for comm, frames, samples in paths:
            if samples:
                expected[comm, frames] += samples
        assert paths_of(recording, number) == expected


def test_metadata_survive_the_file(tmp_path: Path) -> None:
    assert recorded(tmp_path / "x.fprof", SESSION).metadata == session_metadata()


def test_metadata_are_the_documented_json(tmp_path: Path) -> None:
    recorded(tmp_path / "x.fprof", SESSION)
    stored = json.loads(pq.read_schema(tmp_path / "x.fprof").metadata[b"faultprof"])
    assert stored["schema_version"] == 1
    assert stored["kernel"]["release"] == "6.12.43+deb12-amd64"
    assert stored["command"][0] == "usemem"
    assert stored["runs"][1]["exit_status"] == 3
    assert stored["ledger"]["verdict"].startswith("degraded: 12 of 1012 samples lost")
    assert Metadata.from_json({**stored, "of a later version": 1}) == session_metadata()


def test_the_file_has_the_documented_columns(tmp_path: Path) -> None:
    recorded(tmp_path / "x.fprof", SESSION)
    schema = pq.read_schema(tmp_path / "x.fprof")
    assert schema.remove_metadata() == arrow_schema()
    assert all(column.doc for column in COLUMNS)


def test_unknown_columns_are_ignored(tmp_path: Path) -> None:
    recording = recorded(tmp_path / "x.fprof", SESSION)
    table = recording.nodes
    pq.write_table(table.append_column("calls", table["samples"]), tmp_path / "y.fprof")
    assert list(read_recording(tmp_path / "y.fprof").rows.samples) == list(recording.rows.samples)


def test_names_may_be_plain_strings(tmp_path: Path) -> None:
    """A file that went through a tool without dictionaries is the same recording."""
    recording = recorded(tmp_path / "x.fprof", SESSION)
    table = recording.nodes
    for place, column in enumerate(COLUMNS):
        if column.kind == "name":
            table = table.set_column(place, column.name, table[column.name].cast("string"))
    pq.write_table(table, tmp_path / "y.fprof", row_group_size=7)
    again = read_recording(tmp_path / "y.fprof")
    assert paths_of(again, 0) == paths_of(recording, 0)
    assert again.rows.segments == recording.rows.segments


def test_many_row_groups_read_as_one(tmp_path: Path) -> None:
    recording = recorded(tmp_path / "x.fprof", SESSION)
    for size in (1, 2, 5):
        pq.write_table(recording.nodes, tmp_path / "y.fprof", row_group_size=size)
        again = read_recording(tmp_path / "y.fprof").rows
        assert again.segments == recording.rows.segments
        assert again.parent.tolist() == recording.rows.parent.tolist()


def test_a_run_without_samples_is_a_recording(tmp_path: Path) -> None:
    assert len(recorded(tmp_path / "x.fprof", [[]]).rows) == 0


def test_names_that_are_no_utf8_are_kept_readable(tmp_path: Path) -> None:
    comm = b"us\xffemem".decode("utf-8", "surrogateescape")
    recording = recorded(tmp_path / "x.fprof", [[PathCount(comm, (Frame("a"),), 1)]])
    assert recording.rows.segments[0].comm == "us?emem"


def test_deep_paths(tmp_path: Path) -> None:
    deep = tuple(Frame(f"f{level % 3}") for level in range(MAX_DEPTH))
    rows = recorded(tmp_path / "x.fprof", [[PathCount("a", deep, 2)]]).rows
    assert rows.depth[-1] == MAX_DEPTH - 1
    assert set(rows.samples.tolist()) == {2}


@pytest.mark.parametrize(
    ("frames", "samples"),
    [((), 1), ((Frame("a"),), -1), ((Frame("a"),) * (MAX_DEPTH + 1), 1)],
)
def test_impossible_paths_are_refused(frames: tuple[Frame, ...], samples: int) -> None:
    with pytest.raises(ValueError, match="a path has"):
        nodes_from_paths(0, [PathCount("a", frames, samples)])


def test_equal_data_give_equal_files(tmp_path: Path) -> None:
    paths = [path for path in SESSION[0] if path.frames[0].resolution == SYMBOL]
    recorded(tmp_path / "x.fprof", [paths])
    recorded(tmp_path / "y.fprof", [paths[::-1]])
    assert (tmp_path / "x.fprof").read_bytes() == (tmp_path / "y.fprof").read_bytes()
