"""The columns of a recording, and what each one means.

Knows: the Parquet schema of an ``.fprof`` file and its version.
Leaves to others: filling it (``paths``, ``writer``) and checking it (``reader``).

A recording is one Parquet file (zstd), one row per node of a call tree, so that any Parquet tool
can query it: ``SELECT comm, max(samples) FROM '*.fprof' GROUP BY comm``. Rows of one
(run, source) are contiguous, those of one comm within it too, and each comm's rows are a forest in
preorder: a node is followed by its whole subtree, callees after their caller. A node's samples
are its own plus those of its children: ``samples = self_samples + sum(children's samples)``.

A recording that holds a trace has its nodes as further rows, with ``source`` 'trace', no samples,
and the figures in ``TRACE_COLUMNS``, which only such a recording has and which are null in other
rows. Times are nanoseconds, ``inclusive_ns = self_ns + sum(children's inclusive_ns)`` exactly. In a
node whose calls were counted but not timed, the times are 0 and ``min_ns``, ``max_ns`` and
``histogram`` null; in one without finished calls ``min_ns`` and ``max_ns`` are null and
``histogram`` is empty. ``offcpu_ns`` is null when nobody looked. ``per_call`` is empty for a root
and when nobody looked; the first traces lack the column. Readers that know no traces take
the rows of source 'sample' only.

The file's key-value metadata holds, under the key ``faultprof``, the JSON of
:class:`faultprof.recording.metadata.Metadata`. Readers ignore columns and keys they do not know.
"""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

SCHEMA_VERSION = 1
METADATA_KEY = b"faultprof"

SAMPLE = "sample"  # the source of rows that come from the sampler
TRACE = "trace"  # the source of rows that come from the tracer

Kind = Literal["name", "int16", "int32", "int64", "histogram", "per_call"]


class Column(NamedTuple):
    """One column: its name, its kind and its meaning.

    The kind ``name`` is a dictionary-encoded string, ``histogram`` a list of (upper_ns, count),
    ``per_call`` one of (most, count).
    """

    name: str
    kind: Kind
    doc: str


COLUMNS: tuple[Column, ...] = (
    Column("run", "int32", "which execution of the command, from 0"),
    Column("source", "name", "where the row's figures come from: 'sample' or 'trace'"),
    Column("comm", "name", "name of the task (the kernel's comm)"),
    Column("node", "int32", "number of the node within its (run, source), from 0, in preorder"),
    Column("parent", "int32", "number of the caller's node; -1 for a root"),
    Column("depth", "int16", "callers above the node; 0 for a root"),
    Column("function", "name", "function, without the suffixes that compilers add"),
    Column("module", "name", "kernel module or user object; '' for the kernel proper"),
    Column("resolution", "name", "how the function was found, see recording/frames.py"),
    Column("samples", "int64", "samples in the function or in anything that it called"),
    Column("self_samples", "int64", "samples in the function itself"),
)
TRACE_COLUMNS: tuple[Column, ...] = (
    Column("calls", "int64", "calls that returned; where they are only counted, all calls"),
    Column("unfinished", "int64", "calls that did not return; the time in them is not known"),
    Column("inclusive_ns", "int64", "time in the calls and in everything that they called"),
    Column("self_ns", "int64", "time in the calls themselves"),
    Column("min_ns", "int64", "the shortest call"),
    Column("max_ns", "int64", "the longest call"),
    Column("offcpu_ns", "int64", "the part of inclusive_ns in which the task did not run"),
    Column("histogram", "histogram", "calls by duration, up to and with upper_ns; no empty ones"),
    Column("per_call", "per_call", "calls of the caller that called this, by up to how often"),
)
MAX_DEPTH = 2**15 - 1

# Columns of pairs: the name of what is counted up to; the other one is ``count``.
BOUNDS = {"histogram": "upper_ns", "per_call": "most"}
OPTIONAL = {"per_call"}


def arrow_schema(*, traced: bool = False) -> Any:
    """Return the columns as a ``pyarrow.Schema``; only those of a trace are nullable."""
    import pyarrow as pa

    types = {
        "name": pa.dictionary(pa.int32(), pa.string()),
        "int16": pa.int16(),
        "int32": pa.int32(),
        "int64": pa.int64(),
        **{kind: pa.list_(_pair(bound)) for kind, bound in BOUNDS.items()},
    }
    fields = [pa.field(c.name, types[c.kind], nullable=False) for c in COLUMNS]
    if traced:
        fields += [pa.field(c.name, types[c.kind]) for c in TRACE_COLUMNS]
    return pa.schema(fields)


def _pair(bound: str) -> Any:
    import pyarrow as pa

    fields = [pa.field(name, pa.int64(), nullable=False) for name in (bound, "count")]
    return pa.field("element", pa.struct(fields), nullable=False)
