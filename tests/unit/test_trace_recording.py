"""Traces in recordings: what is written is what is read, and contradictions are refused."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings

from faultprof.analysis.tree import CallTree
from faultprof.errors import ExitCode, FaultprofError
from faultprof.recording.frames import Frame
from faultprof.recording.histogram import bucket_upper_ns
from faultprof.recording.per_call import MOST, NO_END, fewest, per_call_of
from faultprof.recording.reader import Recording, read_recording
from faultprof.recording.schema import COLUMNS, TRACE_COLUMNS, arrow_schema
from faultprof.recording.traced import TracedNode, TracedPath, contradiction, nodes_from_traced
from tests.unit.recordings import SESSION, recorded, session_metadata
from tests.unit.traces import (
    TRACED,
    Frames,
    Tasks,
    held_calls,
    histogram,
    random_tasks,
    traced,
    traced_paths,
)

A, B, C = map(Frame, "abc")


def by_path(nodes: tuple[TracedNode, ...]) -> dict[tuple[str, Frames], TracedNode]:
    """Return nodes by task and path."""
    paths: list[Frames] = []
    for node in nodes:
        paths.append((*(paths[node.parent] if node.parent >= 0 else ()), node.frame))
    return {(node.comm, path): node for node, path in zip(nodes, paths, strict=True)}


@settings(deadline=None)
@given(tasks=random_tasks())
def test_traces_survive_the_file(tasks: Tasks) -> None:
    found = held_calls(tasks).traced
    assert set(found) == {run for run, calls in enumerate(tasks) if any(calls.values())}
    for run, nodes in found.items():
        expected = {(path.comm, path.frames): path for path in traced_paths(tasks[run])}
        read = by_path(nodes)
        assert set(read) == set(expected)
        for key, node in read.items():
            path = expected[key]
            assert node.depth == len(path.frames) - 1
            assert node.timed == path.timed
            assert (node.calls, node.unfinished) == (path.calls, path.unfinished)
            assert (node.inclusive_ns, node.self_ns) == (path.inclusive_ns, path.self_ns)
            assert node.offcpu_ns == path.offcpu_ns
            assert dict(node.histogram) == {
                bucket_upper_ns(bucket): count
                for bucket, count in enumerate(path.histogram)
                if count
            }
            assert node.per_call == per_call_of(path.per_call)
            if path.timed and path.calls:
                assert (node.min_ns, node.max_ns) == (path.min_ns, path.max_ns)
            else:
                assert (node.min_ns, node.max_ns) == (None, None)


@settings(deadline=None)
@given(tasks=random_tasks())
def test_inclusive_is_self_and_children_to_the_nanosecond(tasks: Tasks) -> None:
    for nodes in held_calls(tasks).traced.values():
        children = [0] * len(nodes)
        for place, node in enumerate(nodes):
            if node.parent >= 0:
                assert node.parent < place
                assert node.inclusive_ns <= nodes[node.parent].inclusive_ns
                children[node.parent] += node.inclusive_ns
        assert [node.inclusive_ns for node in nodes] == [
            node.self_ns + below for node, below in zip(nodes, children, strict=True)
        ]


def test_a_trace_leaves_the_samples_as_they_were(tmp_path: Path) -> None:
    """Readers of samples take no notice of a trace, whatever their version."""
    alone = recorded(tmp_path / "x.fprof", SESSION)
    both = traced(tmp_path / "y.fprof", TRACED)
    assert both.metadata.schema_version == alone.metadata.schema_version == 1
    one, other = (CallTree.from_recording(recording) for recording in (alone, both))
    assert one.functions() == other.functions()
    assert one.total == other.total
    table = both.nodes.select([column.name for column in COLUMNS])
    samples = table.filter(pa.compute.equal(table["source"].cast("string"), "sample"))
    assert samples.to_pylist() == alone.nodes.to_pylist()
    nulls = both.nodes.slice(0, len(alone.rows)).select([c.name for c in TRACE_COLUMNS])
    assert all(column.null_count == len(alone.rows) for column in nulls.columns)


def test_a_reader_that_knows_no_traces_copes(tmp_path: Path) -> None:
    """Version 1 as it first was: the columns of COLUMNS, none null, rows of source 'sample'."""
    path = tmp_path / "x.fprof"
    both = traced(path, TRACED)
    pq.write_table(both.nodes.select([column.name for column in COLUMNS]), path)
    rows = read_recording(path).rows
    assert rows.samples.tolist() == both.rows.samples.tolist()
    assert not any(
        rows.samples[s.start : s.stop].any() for s in rows.segments if s.source != "sample"
    )


def test_the_file_has_the_documented_columns(tmp_path: Path) -> None:
    traced(tmp_path / "x.fprof", TRACED)
    schema = pq.read_schema(tmp_path / "x.fprof")
    assert schema.remove_metadata() == arrow_schema(traced=True)
    assert all(column.doc for column in TRACE_COLUMNS)
    recorded(tmp_path / "y.fprof", SESSION)
    assert "calls" not in pq.read_schema(tmp_path / "y.fprof").names


def test_other_tools_can_query_it(tmp_path: Path) -> None:
    traced(tmp_path / "x.fprof", TRACED)
    (row,) = pq.read_table(
        tmp_path / "x.fprof",
        filters=[("source", "=", "trace"), ("function", "=", "ext4_filemap_fault")],
    ).to_pylist()
    assert (row["calls"], row["min_ns"], row["samples"]) == (90, 5_000, 0)
    assert row["histogram"] == [{"upper_ns": 5119, "count": 90}]


def test_a_recording_knows_whether_it_was_traced(tmp_path: Path) -> None:
    assert traced(tmp_path / "x.fprof", TRACED).has_trace
    assert traced(tmp_path / "x.fprof", [[], TRACED[1]], metadata=session_metadata()).has_trace
    assert traced(tmp_path / "x.fprof", [[]]).has_trace
    assert not recorded(tmp_path / "x.fprof", SESSION).has_trace
    assert recorded(tmp_path / "x.fprof", SESSION).traced == {}


def test_row_groups_and_compression_do_not_matter(tmp_path: Path) -> None:
    recording = traced(tmp_path / "x.fprof", TRACED)
    for size in (1, 7):
        pq.write_table(recording.nodes, tmp_path / "y.fprof", row_group_size=size)
        assert read_recording(tmp_path / "y.fprof").traced == recording.traced


def test_callers_without_totals_get_a_node(tmp_path: Path) -> None:
    path = TracedPath("t", (A, B, C), 1, 0, 8, 8, 8, 8, 0, histogram({8: 1}))
    nodes = traced(tmp_path / "x.fprof", [[path]]).traced[0]
    assert [(node.calls, node.inclusive_ns, node.self_ns) for node in nodes] == [
        (0, 8, 0),
        (0, 8, 0),
        (1, 8, 8),
    ]
    assert [node.offcpu_ns for node in nodes] == [None, None, 0]


def test_equal_paths_are_added_up() -> None:
    parts = [
        TracedPath("t", (A,), 1, 1, ns, ns, ns, ns, off, histogram({ns: 1}))
        for ns, off in ((8, 2), (70, 3))
    ]
    assert nodes_from_traced(parts) == [
        TracedNode("t", A, -1, 0, 2, 2, 78, 78, 8, 70, 5, ((9, 1), (79, 1)))
    ]
    nobody_looked = [part._replace(offcpu_ns=None) for part in parts]
    assert nodes_from_traced(nobody_looked)[0].offcpu_ns is None
    with pytest.raises(ValueError, match="timed and only counted"):
        nodes_from_traced([parts[0], TracedPath("t", (A,), 1, timed=False)])


TIMES = TracedPath("t", (A,), 2, 0, 30, 30, 10, 20, 0, histogram({10: 1, 20: 1}))

IMPOSSIBLE: dict[str, tuple[TracedPath, str]] = {
    "no frames": (TIMES._replace(frames=()), "a path has 0 frames"),
    "self too small": (TIMES._replace(self_ns=29), "not self time and children"),
    "negative": (TIMES._replace(self_ns=-1, inclusive_ns=-1), "out of range"),
    "wrapped": (TIMES._replace(self_ns=2**64 - 1, inclusive_ns=2**64 - 1), "out of range"),
    "too few in the histogram": (TIMES._replace(calls=3), "does not hold all calls"),
    "min above max": (TIMES._replace(min_ns=20, max_ns=10), "is not the shortest"),
    "min in another bucket": (TIMES._replace(min_ns=9), "begin at the shortest"),
    "max in another bucket": (TIMES._replace(max_ns=40), "end at the longest"),
    "counted, with times": (TIMES._replace(timed=False), "only counted have times"),
}


@pytest.mark.parametrize("name", IMPOSSIBLE)
def test_impossible_totals_are_not_written(name: str, tmp_path: Path) -> None:
    path, message = IMPOSSIBLE[name]
    with pytest.raises(ValueError, match=message):
        traced(tmp_path / "x.fprof", [[path]])
    assert not list(tmp_path.iterdir())


def test_children_may_not_take_longer_than_their_caller() -> None:
    child = TIMES._replace(frames=(A, B), inclusive_ns=40, self_ns=40)
    with pytest.raises(ValueError, match="not self time and children"):
        nodes_from_traced([TIMES, child])


def test_shortest_and_longest_come_together() -> None:
    (node,) = nodes_from_traced([TIMES])
    assert contradiction([node]) is None
    assert "lacks" in str(contradiction([replace(node, min_ns=None)]))
    assert "lacks" in str(contradiction([replace(node, min_ns=None, max_ns=None)]))
    none = replace(node, calls=0, histogram=())
    assert "not the shortest" in str(contradiction([none]))
    assert contradiction([replace(none, min_ns=None, max_ns=None)]) is None


# Damage.

Spoil = Callable[[list[dict[str, Any]]], None]
MAP_PAGES = "filemap_map_pages"


def spoiled(path: Path, spoil: Spoil, *, schema: pa.Schema | None = None) -> Recording:
    """Return the fixed session after ``spoil`` has changed the rows of its traces."""
    recording = traced(path, TRACED)
    rows = recording.nodes.to_pylist()
    spoil([row for row in rows if row["source"] == "trace"])
    schema = schema or recording.nodes.schema
    pq.write_table(pa.Table.from_pylist(rows, schema), path)
    return read_recording(path)


def at(function: str, **values: Any) -> Spoil:
    """Return what sets some figures of the first node of a function."""

    def spoil(rows: list[dict[str, Any]]) -> None:
        next(row for row in rows if row["function"] == function).update(values)

    return spoil


def more_of(function: str, column: str, amount: int) -> Spoil:
    """Return what raises one figure of a function."""

    def spoil(rows: list[dict[str, Any]]) -> None:
        next(row for row in rows if row["function"] == function)[column] += amount

    return spoil


BAD: dict[str, tuple[Spoil, str]] = {
    "a nanosecond more": (more_of(MAP_PAGES, "inclusive_ns", 1), "not self time and children"),
    "a nanosecond less of self": (more_of(MAP_PAGES, "self_ns", -1), "not self time and children"),
    "negative time": (at(MAP_PAGES, self_ns=-5), "out of range"),
    "negative calls": (at("clear_page_erms", calls=-1), "out of range"),
    "negative off-CPU": (at(MAP_PAGES, offcpu_ns=-1), "out of range"),
    "a call that is nowhere": (more_of(MAP_PAGES, "calls", 1), "does not hold all calls"),
    "min above max": (at(MAP_PAGES, min_ns=10**6), "is not the shortest"),
    "no min": (at(MAP_PAGES, min_ns=None), "lacks"),
    "calls missing": (at(MAP_PAGES, calls=None), "rows with missing values"),
    "time missing": (at(MAP_PAGES, inclusive_ns=None), "rows with missing values"),
    "histogram gone": (at(MAP_PAGES, histogram=None), "only counted have times"),
    "empty histogram": (at(MAP_PAGES, histogram=[]), "does not hold all calls"),
    "foreign bucket": (
        at("set_pte_range", histogram=[{"upper_ns": 500, "count": 352_000}]),
        "other buckets",
    ),
    "negative bucket": (
        at("set_pte_range", histogram=[{"upper_ns": -1, "count": 352_000}]),
        "other buckets",
    ),
    "falling buckets": (
        at("ext4_filemap_fault", histogram=[{"upper_ns": u, "count": 45} for u in (6143, 5119)]),
        "other buckets",
    ),
    "empty bucket": (
        at(
            "ext4_filemap_fault",
            histogram=[{"upper_ns": 5, "count": 0}, {"upper_ns": 5119, "count": 90}],
        ),
        "other buckets",
    ),
    "no numbers per call": (at(MAP_PAGES, per_call=None), "missing values"),
    "foreign number per call": (
        at(MAP_PAGES, per_call=[{"most": 3, "count": 1}]),
        "other buckets than there are",
    ),
    "falling numbers per call": (
        at(MAP_PAGES, per_call=[{"most": 2, "count": 1}, {"most": 1, "count": 1}]),
        "other buckets than there are",
    ),
    "negative callers": (at(MAP_PAGES, per_call=[{"most": 2, "count": -1}]), "out of range"),
    "bucket of other calls": (
        at("ext4_filemap_fault", histogram=[{"upper_ns": 6143, "count": 90}]),
        "begin at the shortest",
    ),
}


@pytest.mark.parametrize("name", BAD)
def test_contradictions_are_refused(name: str, tmp_path: Path) -> None:
    spoil, message = BAD[name]
    path = tmp_path / "x.fprof"
    recording = spoiled(path, spoil)
    assert len(recording.rows) > 0
    with pytest.raises(FaultprofError) as caught:
        _ = recording.traced
    assert caught.value.exit_code == ExitCode.BAD_RECORDING
    assert message in caught.value.message
    assert str(path) in caught.value.message


def test_a_trace_without_numbers_per_call_is_read(tmp_path: Path) -> None:
    """The first ones had none."""
    path = tmp_path / "x.fprof"
    recording = traced(path, TRACED)
    pq.write_table(recording.nodes.drop_columns(["per_call"]), path)
    for run, nodes in read_recording(path).traced.items():
        assert nodes == tuple(replace(node, per_call=()) for node in recording.traced[run])


def test_buckets_of_numbers_per_call() -> None:
    assert [fewest(most) for most in MOST] == [1, 2, 3, 5, 9, 17, 33, 65]
    assert per_call_of([0, 7, 0, 0, 0, 0, 0, 1]) == ((2, 7), (NO_END, 1))


@pytest.mark.parametrize("column", ["calls", "histogram", "per_call"])
def test_columns_of_a_trace_are_needed(column: str, tmp_path: Path) -> None:
    path = tmp_path / "x.fprof"
    table = traced(path, TRACED).nodes
    place = table.column_names.index(column)
    text = pa.array(["x"] * len(table))
    for damaged, message in (
        *([(table.drop_columns([column]), "is missing")] if column != "per_call" else []),
        (table.set_column(place, column, text), f"column {column} holds string"),
    ):
        pq.write_table(damaged, path)
        with pytest.raises(FaultprofError) as caught:
            _ = read_recording(path).traced
        assert caught.value.exit_code == ExitCode.BAD_RECORDING
        assert message in caught.value.message


def test_buckets_without_values_are_refused(tmp_path: Path) -> None:
    schema = arrow_schema(traced=True)
    loose = pa.list_(pa.struct([("upper_ns", pa.int64()), ("count", pa.int64())]))
    place = schema.names.index("histogram")
    metadata = traced(tmp_path / "x.fprof", TRACED).nodes.schema.metadata
    loose_schema = schema.set(place, pa.field("histogram", loose)).with_metadata(metadata)
    for buckets in ([None], [{"upper_ns": 5119, "count": None}]):
        spoil = at("ext4_filemap_fault", histogram=buckets)
        with pytest.raises(FaultprofError, match="missing values"):
            _ = spoiled(tmp_path / "x.fprof", spoil, schema=loose_schema).traced


def test_a_spoiled_tree_is_refused_as_for_samples(tmp_path: Path) -> None:
    for values in ({"parent": 0}, {"depth": 9}, {"node": 77}):
        with pytest.raises(FaultprofError) as caught:
            _ = spoiled(tmp_path / "x.fprof", at("next_uptodate_folio", **values)).traced
        assert caught.value.exit_code == ExitCode.BAD_RECORDING
