"""Reads the figures of a trace and refuses those that contradict each other.

Knows: how the trace columns of an ``.fprof`` file become nodes.
Leaves to others: the tree itself, which ``reader`` has checked, and the arithmetic (``traced``).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from faultprof.recording.opening import damaged
from faultprof.recording.rows import Rows, Segment
from faultprof.recording.schema import BOUNDS, OPTIONAL, TRACE, TRACE_COLUMNS
from faultprof.recording.traced import TracedNode, contradiction

_NULLABLE = ("min_ns", "max_ns", "offcpu_ns", "histogram")

Pairs = tuple[tuple[int, int], ...]


def read_traces(path: Path, file: Any, rows: Rows) -> dict[int, tuple[TracedNode, ...]]:
    """Return the nodes of the traces by run.

    Args:
        path: the recording, for errors.
        file: the open Parquet file.
        rows: its rows, already checked.

    Raises:
        FaultprofError: exit code 4, when columns are missing or figures contradict each other.
    """
    segments = [segment for segment in rows.segments if segment.source == TRACE]
    if not segments:
        return {}
    _check_columns(path, file.schema_arrow)
    names = set(file.schema_arrow.names)
    table = file.read(columns=[column.name for column in TRACE_COLUMNS if column.name in names])
    table.validate(full=True)
    nodes: dict[int, list[TracedNode]] = {}
    for segment in segments:
        of_run = nodes.setdefault(segment.run, [])
        of_run.extend(_nodes(path, table, rows, segment, segment.start - len(of_run)))
    for run, of_run in nodes.items():
        if fault := contradiction(of_run):
            raise damaged(path, f"in the trace of run {run}, {fault}")
    return {run: tuple(of_run) for run, of_run in nodes.items()}


def _check_columns(path: Path, schema: Any) -> None:
    import pyarrow as pa

    number = pa.int64()
    for column in TRACE_COLUMNS:
        if column.name in OPTIONAL and column.name not in schema.names:
            continue
        if schema.names.count(column.name) != 1:
            raise damaged(path, f"column {column.name} is missing")
        kind = schema.field(column.name).type
        bound = BOUNDS.get(column.kind)
        fits = kind == number if bound is None else _has_pairs(kind, bound)
        if not fits:
            raise damaged(path, f"column {column.name} holds {kind}, not {column.kind}")


def _has_pairs(kind: Any, bound: str) -> bool:
    import pyarrow as pa

    if not (pa.types.is_list(kind) or pa.types.is_large_list(kind)):
        return False
    bucket = kind.value_type
    return pa.types.is_struct(bucket) and {field.name: field.type for field in bucket} == {
        bound: pa.int64(),
        "count": pa.int64(),
    }


def _nodes(path: Path, table: Any, rows: Rows, segment: Segment, base: int) -> Iterator[TracedNode]:
    span = slice(segment.start, segment.stop)
    frames, depths = rows.frame[span].tolist(), rows.depth[span].tolist()
    parents = rows.parent[span].tolist()
    figures = table.slice(segment.start, segment.stop - segment.start).to_pylist()
    for frame, depth, parent, row in zip(frames, depths, parents, figures, strict=True):
        if any(value is None for name, value in row.items() if name not in _NULLABLE):
            raise damaged(path, "its trace has rows with missing values")
        buckets, per_call = row.pop("histogram"), row.pop("per_call", ())
        yield TracedNode(
            segment.comm,
            rows.frames[frame],
            parent - base if parent >= 0 else -1,
            depth,
            **row,
            histogram=_pairs(path, buckets or (), "upper_ns"),
            per_call=_pairs(path, per_call, "most"),
            timed=buckets is not None,
        )


def _pairs(path: Path, buckets: Sequence[dict[str, int] | None], bound: str) -> Pairs:
    pairs = tuple((bucket[bound], bucket["count"]) for bucket in buckets if bucket)
    if len(pairs) < len(buckets) or any(None in pair for pair in pairs):
        raise damaged(path, "its trace has rows with missing values")
    return pairs
