"""Reads a recording and refuses, with a reason and a remedy, what is none.

Knows: how the rows of an ``.fprof`` file become arrays, and what makes them a call tree.
Leaves to others: merging and percentages (``analysis.tree``).

Everything that the file says is checked before it is believed: a recording may be cut short, come
from another tool, or have been put together by hand. The checks work on whole columns, so that a
few million nodes cost a few tenths of a second.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from faultprof import __version__
from faultprof.errors import FaultprofError, bad_recording
from faultprof.recording import preorder
from faultprof.recording.frames import Frame
from faultprof.recording.metadata import Metadata
from faultprof.recording.opening import damaged, failures, foreign, parquet_file, refuse_irregular
from faultprof.recording.rows import Rows, Segment
from faultprof.recording.schema import COLUMNS, METADATA_KEY, SCHEMA_VERSION, TRACE
from faultprof.recording.traced import TracedNode
from faultprof.recording.traced_rows import read_traces

if TYPE_CHECKING:
    from faultprof.recording.preorder import Int32, Int64

_NAMES = [column.name for column in COLUMNS if column.kind == "name"]
_MOST_SAMPLES = 2**53  # up to here float64 sums are exact


@dataclass(frozen=True)
class Recording:
    """A recording whose metadata has been read; its rows are read when they are asked for."""

    path: Path
    metadata: Metadata

    @cached_property
    def rows(self) -> Rows:
        """The checked rows.

        Raises:
            FaultprofError: exit code 4, when they are no call tree.
        """
        # Names as dictionaries: a few thousand strings instead of one per row.
        with failures(self.path), parquet_file(self.path, _NAMES) as file:
            return _RowReader(self.path, file.metadata.num_rows).read(file)

    @cached_property
    def traced(self) -> Mapping[int, tuple[TracedNode, ...]]:
        """The checked nodes of each run's trace, in preorder; runs that left none are not there.

        Raises:
            FaultprofError: exit code 4, when they are no call tree or contradict each other.
        """
        with failures(self.path), parquet_file(self.path) as file:
            return read_traces(self.path, file, self.rows)

    @cached_property
    def has_trace(self) -> bool:
        """Whether functions were traced, even if nothing called them."""
        is_traced = any(segment.source == TRACE for segment in self.rows.segments)
        return is_traced or self.metadata.mode == TRACE

    @cached_property
    def nodes(self) -> Any:
        """The rows as they stand in the file, a ``pyarrow.Table`` of ``schema.arrow_schema``."""
        with failures(self.path), parquet_file(self.path) as file:
            return file.read()


def read_recording(path: Path) -> Recording:
    """Read the metadata of the recording at ``path``.

    Raises:
        FaultprofError: exit code 4, when there is no recording, or a newer or damaged one.
    """
    with failures(path):
        refuse_irregular(path)
        with parquet_file(path) as file:
            text = (file.metadata.metadata or {}).get(METADATA_KEY)
            if text is None:
                raise foreign(path)
            metadata = _metadata(path, text)
            _check_columns(path, file.schema_arrow)
    return Recording(path, metadata)


def _metadata(path: Path, text: bytes) -> Metadata:
    try:
        data = json.loads(text)
        version = int(data["schema_version"])
        if version > SCHEMA_VERSION:
            raise _newer(path, version, str(data.get("tool_version", "")))
        return Metadata.from_json(data)
    except (KeyError, TypeError, ValueError, AttributeError, RecursionError) as error:
        raise damaged(path, "its metadata are incomplete") from error


def _newer(path: Path, version: int, tool_version: str) -> FaultprofError:
    message = (
        f"{path} has recording format {version}; "
        f"faultprof {__version__} reads formats up to {SCHEMA_VERSION}"
    )
    return bad_recording(message, f"read it with faultprof {tool_version or 'of a newer version'}")


def _check_columns(path: Path, schema: Any) -> None:
    import pyarrow as pa

    numbers = {"int16": pa.int16(), "int32": pa.int32(), "int64": pa.int64()}
    names = (pa.string(), pa.large_string())
    for column in COLUMNS:
        if schema.names.count(column.name) != 1:
            raise damaged(path, f"column {column.name} is missing")
        kind = schema.field(column.name).type
        if column.kind == "name":
            fits = (kind.value_type if pa.types.is_dictionary(kind) else kind) in names
        else:
            fits = kind == numbers[column.kind]
        if not fits:
            raise damaged(path, f"column {column.name} holds {kind}, not {column.kind}")


class _RowReader:
    """Reads row group after row group, so that little is held beside the arrays themselves."""

    def __init__(self, path: Path, count: int) -> None:
        import numpy as np

        if not 0 <= count < 2**31:
            raise damaged(path, f"it cannot have {count} nodes")
        self.path = path
        self.count = 0  # rows read so far
        self.group_start = 0  # first row of the current (run, source)
        self.groups: set[tuple[int, str]] = set()
        self.segments: list[Segment] = []
        self.codes: dict[Frame, int] = {}
        self.frame = np.empty(count, np.int32)
        self.depth = np.empty(count, np.int16)
        self.parent = np.empty(count, np.int32)
        self.samples = np.empty(count, np.int64)
        self.self_samples = np.empty(count, np.int64)

    def read(self, file: Any) -> Rows:
        """Read and check all rows of an open Parquet file."""
        columns = [column.name for column in COLUMNS]
        for group in range(file.num_row_groups):
            table = file.read_row_group(group, columns=columns)
            # Arrow takes dictionary indices as they come; a wrong one would reach beyond memory.
            table.validate(full=True)
            if table.num_rows:
                self._add(table.unify_dictionaries().combine_chunks())
        if self.count != len(self.frame):
            raise damaged(self.path, "rows are missing")
        rows = Rows(
            frames=tuple(self.codes),
            frame=self.frame,
            depth=self.depth,
            parent=self.parent,
            samples=self.samples,
            self_samples=self.self_samples,
            segments=tuple(self.segments),
        )
        check_tree(self.path, rows)
        return rows

    def _add(self, table: Any) -> None:
        if any(column.null_count for column in table.columns):
            raise damaged(self.path, "it has rows with missing values")
        rows = slice(self.count, self.count + table.num_rows)
        if rows.stop > len(self.frame):
            raise damaged(self.path, "it has more rows than it says")
        base = self._add_segments(table)
        self._check_numbering(_numbers(table, "node"), base)
        parent = _numbers(table, "parent")
        self.parent[rows] = parent + base * (parent >= 0)
        self.frame[rows] = self._frames(table)
        self.depth[rows] = _numbers(table, "depth")
        self.samples[rows] = _numbers(table, "samples")
        self.self_samples[rows] = _numbers(table, "self_samples")
        self.count = rows.stop

    def _check_numbering(self, node: Int32, base: Int32) -> None:
        import numpy as np

        row = np.arange(self.count, self.count + len(node), dtype=np.int32)
        if not np.array_equal(node, row - base):
            raise damaged(self.path, "its nodes are not numbered in order")

    def _add_segments(self, table: Any) -> Int32:
        """Note where run, source and comm change; return each row's first row of its group."""
        import numpy as np

        run = _numbers(table, "run")
        (source, sources), (comm, comms) = _coded(table, "source"), _coded(table, "comm")
        change = (np.diff(run) != 0) | (np.diff(source) != 0) | (np.diff(comm) != 0)
        starts = [0, *(np.flatnonzero(change) + 1).tolist()]
        base = np.empty(table.num_rows, np.int32)
        for start, stop in zip(starts, [*starts[1:], table.num_rows], strict=True):
            key = int(run[start]), sources[source[start]], comms[comm[start]]
            self._add_segment(Segment(*key, self.count + start, self.count + stop))
            base[start:stop] = self.group_start
        return base

    def _add_segment(self, segment: Segment) -> None:
        last = self.segments[-1] if self.segments else None
        if last is not None and last[:3] == segment[:3]:
            self.segments[-1] = last._replace(stop=segment.stop)
            return
        self.segments.append(segment)
        group = segment.run, segment.source
        if last is not None and group == (last.run, last.source):
            return
        if group in self.groups or segment.run < 0:
            raise damaged(self.path, "its runs are not in order")
        self.groups.add(group)
        self.group_start = segment.start

    def _frames(self, table: Any) -> Int32:
        """Return each row's frame as its number in ``self.codes``."""
        import numpy as np

        function, functions = _coded(table, "function")
        module, modules = _coded(table, "module")
        resolution, resolutions = _coded(table, "resolution")
        key = function.astype(np.int64)
        key = (key * len(modules) + module) * len(resolutions) + resolution
        distinct, local = _distinct(key, len(functions) * len(modules) * len(resolutions))
        codes = np.empty(len(distinct), np.int32)
        for position, one in enumerate(distinct.tolist()):
            rest, r = divmod(one, len(resolutions))
            f, m = divmod(rest, len(modules))
            frame = Frame(functions[f], modules[m], resolutions[r])
            codes[position] = self.codes.setdefault(frame, len(self.codes))
        frames: Int32 = codes[local]
        return frames


def _distinct(key: Int64, bound: int) -> tuple[Int64, Any]:
    """Return the distinct keys (0 to ``bound``) and each key's place among them."""
    import numpy as np

    if bound > 2**22:
        return np.unique(key, return_inverse=True)
    # A table is several times as fast as sorting millions of keys.
    present = np.zeros(bound, np.bool_)
    present[key] = True
    distinct = np.flatnonzero(present)
    place = np.empty(bound, np.int32)
    place[distinct] = np.arange(len(distinct), dtype=np.int32)
    return distinct, place[key]


def _numbers(table: Any, name: str) -> Any:
    return table.column(name).to_numpy()


def _coded(table: Any, name: str) -> tuple[Any, list[str]]:
    """Return a name column as numbers and the names they stand for."""
    import pyarrow as pa

    column = table.column(name)
    array = column.chunk(0) if isinstance(column, pa.ChunkedArray) else column
    if not pa.types.is_dictionary(array.type):
        array = array.dictionary_encode()
    return array.indices.to_numpy(), array.dictionary.to_pylist()


def check_tree(path: Path, rows: Rows) -> None:
    """Check that rows are call trees whose figures add up.

    Raises:
        FaultprofError: exit code 4, with what does not hold.
    """
    if not preorder.is_preorder(rows.depth) or any(
        rows.depth[segment.start] != 0 for segment in rows.segments
    ):
        raise damaged(path, "the depths of its nodes are no call tree's")
    order = preorder.by_depth(rows.depth)
    if not (preorder.parents(rows.depth, order) == rows.parent).all():
        raise damaged(path, "the parents of its nodes do not match their depths")
    if not len(rows):
        return
    if min(rows.samples.min(), rows.self_samples.min()) < 0:
        raise damaged(path, "it has negative counts")
    total = preorder.children_sums(rows.parent, rows.samples)
    total += rows.self_samples
    if rows.samples.max() > _MOST_SAMPLES or not (rows.samples == total).all():
        raise damaged(path, "the samples of its nodes do not add up")
