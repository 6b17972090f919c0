"""Exports: a recording in the formats of other viewers, one module per format.

Knows: which formats there are, their suffixes, and what every one of them is made from.
Leaves to others: the formats (``folded``, ``speedscope``, ``pprof``, ``firefox``, ``table``), and
writing (``render.files``).

What stands in an export are functions, figures and what the recording says about itself; never an
address of the kernel.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

from faultprof.errors import FaultprofError
from faultprof.render.exports import firefox, pprof, speedscope, table
from faultprof.render.exports.source import Source
from faultprof.render.folded import folded_weight_lines
from faultprof.render.names import without_addresses
from faultprof.render.terminal import Terminal
from faultprof.render.views import json_view


class Format(NamedTuple):
    """A format: the suffixes that choose it, what reads it, and how its bytes are made."""

    suffixes: tuple[str, ...]
    read_by: str
    pieces: Callable[[Source], Iterator[bytes]]


def _folded(source: Source) -> Iterator[bytes]:
    for comm, tree in source.tasks:
        for line in folded_weight_lines(comm, tree):
            yield line.encode() + b"\n"


def _json(source: Source) -> Iterator[bytes]:
    for line in json_view(source.recording, source.selection, Terminal()):
        yield without_addresses(line).encode() + b"\n"


FORMATS: dict[str, Format] = {
    "folded": Format((".folded",), "flame graph programs", _folded),
    "speedscope": Format((".speedscope.json",), "speedscope", speedscope.pieces),
    "pprof": Format((".pb.gz", ".pprof"), "pprof", pprof.pieces),
    "firefox": Format((".firefox.json",), "the Firefox Profiler", firefox.pieces),
    "csv": Format((".csv",), "spreadsheets", table.pieces),
    "json": Format((".json",), "scripts; as report --json", _json),
}


def format_of(path: Path) -> str:
    """Return the format that a file's suffix names; the longest suffix that fits decides.

    Raises:
        FaultprofError: exit code 2, when none fits.
    """
    fitting = [
        (len(suffix), name)
        for name, one in FORMATS.items()
        for suffix in one.suffixes
        if path.name.lower().endswith(suffix)
    ]
    if not fitting:
        suffixes = ", ".join(suffix for one in FORMATS.values() for suffix in one.suffixes)
        raise FaultprofError(
            f"the suffix of {path.name} names no format",
            f"use one of {suffixes}, or say --format",
        )
    return max(fitting)[1]
