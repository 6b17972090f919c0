"""What is no recording is refused: exit code 4, one line, and a remedy."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from faultprof.errors import ExitCode, FaultprofError
from faultprof.recording.reader import Recording, read_recording
from tests.unit.recordings import SESSION, recorded

Spoil = Callable[[Path], None]


def with_column(name: str, change: Callable[[Any], Any]) -> Spoil:
    """Return what rewrites one column of a recording through ``change`` (numbers in, array out)."""

    def spoil(path: Path) -> None:
        table = pq.read_table(path)
        values = change(table[name].to_numpy().copy())
        place = table.column_names.index(name)
        pq.write_table(table.set_column(place, name, pa.array(values)), path)

    return spoil


def at(row: int, value: int) -> Callable[[Any], Any]:
    """Return what sets one row of a column."""

    def change(values: Any) -> Any:
        values[row] = value
        return values

    return change


def with_metadata(change: Callable[[dict[str, Any]], Any]) -> Spoil:
    """Return what rewrites the metadata; ``change`` may give another value or change in place."""

    def spoil(path: Path) -> None:
        table = pq.read_table(path)
        data = json.loads(table.schema.metadata[b"faultprof"])
        data = change(data) or data
        pq.write_table(table.replace_schema_metadata({"faultprof": json.dumps(data)}), path)

    return spoil


def without_key(path: Path) -> None:
    pq.write_table(pq.read_table(path).replace_schema_metadata(None), path)


def foreign(path: Path) -> None:
    pq.write_table(pa.table({"x": [1, 2]}), path)


def without_column(path: Path) -> None:
    pq.write_table(pq.read_table(path).drop_columns(["parent"]), path)


def with_nulls(path: Path) -> None:
    table = pq.read_table(path)
    nulls = pa.array([None] * len(table), pa.int64())
    pq.write_table(table.set_column(9, "samples", nulls), path)


def reordered(path: Path) -> None:
    table = pq.read_table(path)
    pq.write_table(table.take(list(range(len(table)))[::-1]), path)


def runs_mixed(path: Path) -> None:
    table = pq.read_table(path)
    pq.write_table(pa.concat_tables([table, table]), path)


def replaced(content: bytes) -> Spoil:
    return lambda path: path.write_bytes(content) and None


def made_directory(path: Path) -> None:
    path.unlink()
    path.mkdir()


def made_pipe(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


BAD: dict[str, tuple[Spoil, str, str]] = {
    "missing": (Path.unlink, "there is no recording", "faultprof record -- COMMAND"),
    "directory": (made_directory, "is a directory", "name the recording in it"),
    "pipe": (made_pipe, "is not a faultprof recording", "faultprof record"),
    "empty": (replaced(b""), "is empty", "record again"),
    "text": (replaced(b"a;b;c 12\n"), "is not a faultprof recording", "faultprof record"),
    "magic only": (replaced(b"PAR1PAR1"), "its end is missing", "record again"),
    "garbage": (replaced(b"PAR1" + b"x" * 99 + b"PAR1"), "cannot be decoded", "record again"),
    "foreign Parquet": (foreign, "is not a faultprof recording", "faultprof record"),
    "no metadata": (without_key, "is not a faultprof recording", "faultprof record"),
    "no JSON object": (with_metadata(lambda _: [1]), "metadata are incomplete", "record again"),
    "metadata gone": (with_metadata(lambda d: d.pop("runs") and None), "metadata", "record again"),
    "metadata of another type": (
        with_metadata(lambda d: d.update(runs=3)),
        "metadata are incomplete",
        "record again",
    ),
    "newer": (
        with_metadata(lambda d: d.update(schema_version=7, tool_version="9.9")),
        "has recording format 7; faultprof 0.1.0 reads formats up to 1",
        "read it with faultprof 9.9",
    ),
    "newer, of another shape": (
        with_metadata(lambda _: {"schema_version": 2}),
        "has recording format 2",
        "a newer version",
    ),
    "column gone": (without_column, "column parent is missing", "record again"),
    "column of text": (
        with_column("samples", lambda v: [str(x) for x in v]),
        "column samples holds string, not int64",
        "record again",
    ),
    "names of numbers": (
        with_column("function", lambda v: np.arange(len(v))),
        "column function holds int64, not name",
        "record again",
    ),
    "values missing": (with_nulls, "rows with missing values", "record again"),
    "reordered": (reordered, "not numbered in order", "record again"),
    "runs mixed": (runs_mixed, "runs are not in order", "record again"),
    "negative run": (with_column("run", lambda v: v - 1), "runs are not in order", "record again"),
    "node number": (with_column("node", at(3, 9)), "not numbered in order", "record again"),
    "parent after node": (with_column("parent", at(3, 9)), "parents of its nodes", "record again"),
    "own parent": (with_column("parent", at(3, 3)), "parents of its nodes", "record again"),
    "uncle as parent": (with_column("parent", at(-1, 0)), "parents of its nodes", "record again"),
    "root too deep": (with_column("depth", at(0, 1)), "depths of its nodes", "record again"),
    "level skipped": (with_column("depth", at(1, 2)), "depths of its nodes", "record again"),
    "negative depth": (with_column("depth", at(2, -1)), "depths of its nodes", "record again"),
    "negative counts": (
        with_column("self_samples", at(0, -1)),
        "has negative counts",
        "record again",
    ),
    "sums": (with_column("samples", at(0, 10**6)), "do not add up", "record again"),
    "sums beyond exactness": (
        with_column("samples", lambda v: v + 2**60),
        "do not add up",
        "record again",
    ),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_recordings_are_refused(name: str, tmp_path: Path) -> None:
    spoil, message, remedy = BAD[name]
    path = tmp_path / "x.fprof"
    recorded(path, SESSION)
    spoil(path)
    with pytest.raises(FaultprofError) as caught:
        _ = read_recording(path).rows
    assert caught.value.exit_code == ExitCode.BAD_RECORDING
    assert message in caught.value.message
    assert str(path) in caught.value.message
    assert remedy in caught.value.hint
    assert "\n" not in caught.value.message + caught.value.hint


def test_every_truncation_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "x.fprof"
    recorded(path, SESSION)
    whole = path.read_bytes()
    for length in range(0, len(whole), 41):
        path.write_bytes(whole[:length])
        with pytest.raises(FaultprofError) as caught:
            _ = read_recording(path).rows
        assert caught.value.exit_code == ExitCode.BAD_RECORDING


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Recording:
    """Return a recording that is kept for copies."""
    return recorded(tmp_path_factory.mktemp("whole") / "x.fprof", SESSION)


@settings(deadline=None, max_examples=300)
@given(data=st.data())
def test_flipped_bits_are_refused_or_harmless(data: st.DataObject, whole: Recording) -> None:
    """Pages have checksums; what else changes may be refused, but never misread."""
    path = whole.path.with_name("flipped.fprof")
    content = bytearray(whole.path.read_bytes())
    place = data.draw(st.integers(0, len(content) - 1))
    content[place] ^= 1 << data.draw(st.integers(0, 7))
    path.write_bytes(content)
    try:
        rows = read_recording(path).rows
    except FaultprofError as error:
        refusal = error
    else:
        assert rows.samples.tolist() == whole.rows.samples.tolist()
        assert rows.parent.tolist() == whole.rows.parent.tolist()
        return
    assert refusal.exit_code == ExitCode.BAD_RECORDING
