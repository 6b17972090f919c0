"""The rows of a recording as an Arrow table.

Knows: how nodes become columns.
Leaves to others: the nodes (``paths``, ``traced``) and the file (``writer``).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from faultprof.recording.paths import Nodes
from faultprof.recording.schema import TRACE, TRACE_COLUMNS, arrow_schema
from faultprof.recording.traced import TracedNode


def nodes_table(runs: Iterable[Nodes]) -> Any:
    """Return the nodes of all runs as a ``pyarrow.Table`` with ``schema.COLUMNS``."""
    import pyarrow as pa

    schema = arrow_schema()
    parts = [pa.Table.from_arrays(_columns(nodes), schema=schema) for nodes in runs]
    return pa.concat_tables([schema.empty_table(), *parts]).unify_dictionaries()


def _columns(nodes: Nodes) -> list[Any]:
    import pyarrow as pa

    count = len(nodes)
    return [
        pa.array([nodes.run] * count, pa.int32()),
        _names([nodes.source] * count),
        _names(nodes.comm),
        pa.array(range(count), pa.int32()),
        pa.array(nodes.parent, pa.int32()),
        pa.array(nodes.depth, pa.int16()),
        _names([frame.function for frame in nodes.frame]),
        _names([frame.module for frame in nodes.frame]),
        _names([frame.resolution for frame in nodes.frame]),
        pa.array(nodes.samples, pa.int64()),
        pa.array(nodes.self_samples, pa.int64()),
    ]


def _names(values: list[str]) -> Any:
    """Encode names; comms and user symbols may hold bytes that are no UTF-8."""
    import pyarrow as pa

    # Not ``dictionary_encode``: it would load pyarrow.compute, 65 ms before the prompt returns.
    # In the order of their appearance: two recordings of the same are the same bytes.
    names = dict.fromkeys(values)
    known = {name: name.encode("utf-8", "replace").decode() for name in names}
    codes = {name: code for code, name in enumerate(dict.fromkeys(known.values()))}
    indices = pa.array([codes[known[name]] for name in values], pa.int32())
    return pa.DictionaryArray.from_arrays(indices, pa.array(list(codes), pa.string()))


def with_traces(samples: Any, traces: Iterable[Sequence[TracedNode]]) -> Any:
    """Return the table ``samples`` with the nodes of each run's trace behind it."""
    import pyarrow as pa

    schema = arrow_schema(traced=True)
    nulls = [pa.nulls(len(samples), schema.field(c.name).type) for c in TRACE_COLUMNS]
    former = pa.Table.from_arrays([*samples.columns, *nulls], schema=schema)
    parts = [
        pa.Table.from_arrays([*_columns(_structure(run, nodes)), *_figures(nodes)], schema=schema)
        for run, nodes in enumerate(traces)
    ]
    return pa.concat_tables([former, *parts]).unify_dictionaries()


def _structure(run: int, nodes: Sequence[TracedNode]) -> Nodes:
    return Nodes(
        run,
        TRACE,
        comm=[node.comm for node in nodes],
        parent=[node.parent for node in nodes],
        depth=[node.depth for node in nodes],
        frame=[node.frame for node in nodes],
        samples=[0] * len(nodes),
        self_samples=[0] * len(nodes),
    )


def _figures(nodes: Sequence[TracedNode]) -> list[Any]:
    """Return ``schema.TRACE_COLUMNS``."""
    import pyarrow as pa

    histograms = [
        [{"upper_ns": upper, "count": count} for upper, count in node.histogram]
        if node.timed
        else None
        for node in nodes
    ]
    per_call = [[{"most": most, "count": count} for most, count in n.per_call] for n in nodes]
    numbers = [column.name for column in TRACE_COLUMNS if column.kind == "int64"]
    arrays = [pa.array([getattr(node, name) for node in nodes], pa.int64()) for name in numbers]
    schema = arrow_schema(traced=True)
    return [
        *arrays,
        pa.array(histograms, schema.field("histogram").type),
        pa.array(per_call, schema.field("per_call").type),
    ]
