"""The columns of a recording, and what each one means.

Knows: the Parquet schema of an ``.fprof`` file and its version.
Leaves to others: filling it (``paths``, ``writer``) and checking it (``reader``).

A recording is one Parquet file (zstd), one row per node of a call tree, so that any Parquet tool
can query it: ``SELECT comm, max(samples) FROM '*.fprof' GROUP BY comm``. Rows of one
(run, source) are contiguous, those of one comm within it too, and each comm's rows are a forest in
preorder: a node is followed by its whole subtree, callees after their caller. A node's samples
are its own plus those of its children: ``samples = self_samples + sum(children's samples)``.

The file's key-value metadata holds, under the key ``faultprof``, the JSON of
:class:`faultprof.recording.metadata.Metadata`. Readers ignore columns and keys they do not know.
"""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

SCHEMA_VERSION = 1
METADATA_KEY = b"faultprof"

SAMPLE = "sample"  # the source of rows that come from the sampler

Kind = Literal["name", "int16", "int32", "int64"]


class Column(NamedTuple):
    """One column: its name, its kind (``name`` is a dictionary-encoded string) and its meaning."""

    name: str
    kind: Kind
    doc: str


COLUMNS: tuple[Column, ...] = (
    Column("run", "int32", "which execution of the command, from 0"),
    Column("source", "name", "where the row's figures come from: 'sample'"),
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
MAX_DEPTH = 2**15 - 1


def arrow_schema() -> Any:
    """Return the columns as a ``pyarrow.Schema``, none of them nullable."""
    import pyarrow as pa

    types = {
        "name": pa.dictionary(pa.int32(), pa.string()),
        "int16": pa.int16(),
        "int32": pa.int32(),
        "int64": pa.int64(),
    }
    return pa.schema([pa.field(c.name, types[c.kind], nullable=False) for c in COLUMNS])
