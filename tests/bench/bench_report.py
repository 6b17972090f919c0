"""Time and memory of `faultprof report` on a recording of a million distinct paths.

Knows: how to make such a recording (kept in a temporary directory).
Leaves to others: measuring a process (``commands``), taking turns (``rows``).
"""

from __future__ import annotations

import tempfile
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from faultprof.recording import preorder
from faultprof.recording.ledger import Ledger
from faultprof.recording.metadata import KernelInfo, Metadata, RunInfo
from faultprof.recording.schema import SAMPLE, arrow_schema
from faultprof.recording.writer import write_nodes
from tests.bench.commands import measure
from tests.bench.rows import Goal, Row, Subject, interleaved

PATHS = 1_000_000
FUNCTIONS = 4_000  # of a stock kernel's 60,000 text symbols, those that a busy system runs


def synthetic_nodes(paths: int, seed: int, *, run: int = 0, comms: int = 1) -> pa.Table:
    """Return the nodes of ``paths`` distinct paths, 20 to 30 deep, as kernel stacks share theirs.

    Each path shares its beginning with the one before, down to one or a few last callees; counts
    are heavy-tailed, so that some paths are hot and most were seen once.
    """
    rng = np.random.default_rng(seed)
    depth, leaf = _depths(rng, paths)
    order = preorder.by_depth(depth)
    parent = preorder.parents(depth, order)
    own = np.zeros(len(depth), np.int64)
    own[leaf] = np.minimum(rng.pareto(1.1, paths) + 1, 100_000).astype(np.int64)
    end = preorder.ends(depth, parent, order)
    before = np.concatenate([[0], np.cumsum(own)])
    roots = np.flatnonzero(depth == 0)
    comm = np.minimum(np.cumsum(depth == 0) * comms // (len(roots) + 1), comms - 1)
    count = len(depth)
    arrays = [
        pa.array(np.full(count, run, np.int32)),
        _names(np.zeros(count, np.int32), [SAMPLE]),
        _names(comm, [f"usemem-{number}" for number in range(comms)]),
        pa.array(np.arange(count, dtype=np.int32)),
        pa.array(parent),
        pa.array(depth),
        _names(
            _functions(depth, parent, order),
            [f"some_kernel_function_{n}" for n in range(FUNCTIONS)],
        ),
        _names((depth % 7 == 6).astype(np.int32), ["", "ext4"]),
        _names((depth % 5 == 4).astype(np.int32), ["symbol", "inlined"]),
        pa.array(before[end] - before[:-1]),
        pa.array(own),
    ]
    return pa.Table.from_arrays(arrays, schema=arrow_schema())


def _depths(rng: np.random.Generator, paths: int) -> tuple[Any, Any]:
    """Return the depth of every node, and the rows of the paths' last nodes."""
    length = np.clip(rng.normal(25, 2, paths), 20, 30).astype(np.int64)
    shared = np.minimum(length - rng.geometric(0.5, paths), np.roll(length, 1) - 1)
    # Now and then a path has little in common with its forerunner.
    far = rng.random(paths) < 0.01
    shared = np.where(far, rng.integers(1, 15, paths), np.maximum(shared, 0))
    shared[:: max(1, paths // 12)] = 0
    new = length - shared
    stop = np.cumsum(new)
    row = np.arange(stop[-1])
    return (row - np.repeat(stop - new - shared, new)).astype(np.int16), stop - 1


def _functions(depth: Any, parent: Any, order: Any) -> Any:
    """Give the children of one node distinct functions."""
    rank = np.arange(len(depth))
    siblings = parent[order]
    first = np.concatenate([[True], siblings[1:] != siblings[:-1]])
    place = np.empty(len(depth), np.int64)
    place[order] = rank - np.maximum.accumulate(np.where(first, rank, 0))
    assert place.max() < FUNCTIONS
    start = (depth.astype(np.int64) * 131 + parent.astype(np.int64) * 7) % 211
    return ((start + place) % FUNCTIONS).astype(np.int32)


def _names(codes: Any, names: list[str]) -> pa.DictionaryArray:
    return pa.DictionaryArray.from_arrays(pa.array(codes.astype(np.int32)), pa.array(names))


def write_synthetic(path: Path, paths: int = PATHS, *, runs: int = 1, comms: int = 1) -> int:
    """Write a recording of ``paths`` distinct paths in all and return its number of nodes."""
    tables = [synthetic_nodes(paths // runs, seed=run, run=run, comms=comms) for run in range(runs)]
    nodes = pa.concat_tables(tables).unify_dictionaries()
    metadata = Metadata(
        command=("usemem", "-t", "4", "1g"),
        kernel=KernelInfo("6.12.0-synthetic"),
        mode="sample",
        clock="cpu-clock",
        frequency=999,
        runs=tuple(RunInfo(run, samples=_samples(table)) for run, table in enumerate(tables)),
        ledger=Ledger(),
    )
    write_nodes(path, metadata, nodes)
    return int(nodes.num_rows)


def _samples(nodes: pa.Table) -> int:
    return int(pc.sum(nodes.column("self_samples")).as_py())


def rows(repeats: int, order: Random) -> list[Row]:
    """Measure both views on one task's recording, and on one that must be merged."""
    result = []
    with tempfile.TemporaryDirectory(prefix="faultprof-bench-") as directory:
        runs = {}
        for label, count, comms in (("1 task name", 1, 1), ("2 runs of 3 task names", 2, 3)):
            path = Path(directory, f"{count}.fprof")
            nodes = write_synthetic(path, runs=count, comms=comms)
            for view in ([], ["--flat"]):
                name = f"{' '.join(['report', *view])}, {label} ({nodes / 1e6:.1f} M nodes)"
                runs[name] = partial(measure, "report", *view, str(path))
        for name, measured in interleaved(runs, repeats, order).items():
            walls, peaks = zip(*measured, strict=True)
            result.append(Row(f"{name}: time", "s", walls, Goal("≤", 2)))
            result.append(Row(f"{name}: peak RSS", "MB", peaks, Goal("≤", 500)))
    return result


SUBJECT = Subject(
    name="report",
    title=f"report on a recording of {PATHS:,} distinct paths",
    rows=rows,
    repeats=7,
    needs_root=False,
)
