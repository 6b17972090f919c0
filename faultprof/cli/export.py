"""``faultprof export``: read a recording, choose a format, write it."""

from __future__ import annotations

import sys
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from faultprof.cli.flame import By
from faultprof.cli.report import DEFAULT_INPUT
from faultprof.errors import FaultprofError


class Kind(StrEnum):
    """The formats, by the names in ``render.exports.FORMATS``."""

    FOLDED = "folded"
    SPEEDSCOPE = "speedscope"
    PPROF = "pprof"
    FIREFOX = "firefox"
    CSV = "csv"
    JSON = "json"


def export(
    file: Annotated[Path, typer.Argument(metavar="[FILE]", help="The recording.")] = DEFAULT_INPUT,
    output: Annotated[
        Path | None,
        typer.Option("-o", "--output", metavar="NAME", help="The file to write; - for a pipe."),
    ] = None,
    format_: Annotated[
        Kind | None,
        typer.Option("--format", help="Which format.  [default: what the suffix of NAME says]"),
    ] = None,
    by: Annotated[
        By | None,
        typer.Option(
            help="What weights are, in folded, speedscope and firefox.  "
            "[default: time, if it was traced, or samples]"
        ),
    ] = None,
    root: Annotated[
        str | None, typer.Option(metavar="FN", help="Export the tree below this function.")
    ] = None,
    comm: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="Export only tasks of this name (may be repeated)."),
    ] = None,
    min_percent: Annotated[
        float,
        typer.Option(
            metavar="P",
            min=0,
            max=100,
            help="Leave out what has less than this inclusive percentage; it stays in its caller.",
        ),
    ] = 0.0,
) -> None:
    """Write a recording in another program's format.

    .folded for flame graph programs, .speedscope.json, .pb.gz for pprof, .firefox.json for
    profiler.firefox.com, .csv for spreadsheets, .json as report --json. None has kernel addresses.

    Examples:
      faultprof export -o fault.speedscope.json --root handle_mm_fault

      faultprof export traced.fprof -o traced.pb.gz

      faultprof export traced.fprof --format folded --by calls -o - | flamegraph.pl > calls.svg
    """
    from faultprof.analysis.selection import Selection
    from faultprof.analysis.weights import Measure
    from faultprof.recording.reader import read_recording
    from faultprof.render.exports import FORMATS, format_of
    from faultprof.render.exports.source import Source
    from faultprof.render.files import write_bytes

    if output is None:
        raise FaultprofError("export needs a file to write", "name it: -o fault.speedscope.json")
    name = format_.value if format_ else format_of(output)
    chosen = FORMATS[name]
    selection = Selection(
        root=root,
        comms=tuple(comm) if comm else None,
        min_percent=min_percent,
        source=_source(by),
    )
    source = Source(read_recording(file), selection, Measure(by.value) if by else None)
    write_bytes(output, chosen.pieces(source))
    if str(output) != "-":
        print(f"faultprof: wrote {output}, for {chosen.read_by}", file=sys.stderr)


def _source(by: By | None) -> str | None:
    """Return which of a recording's sources has what is asked for."""
    from faultprof.recording.schema import SAMPLE, TRACE

    if by is None:
        return None
    return SAMPLE if by is By.SAMPLES else TRACE
