"""``faultprof flame``: read one recording or two, choose a tree, write a flame graph."""

from __future__ import annotations

import sys
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from faultprof.cli.report import DEFAULT_INPUT
from faultprof.errors import FaultprofError

if TYPE_CHECKING:
    from faultprof.analysis.selection import Selection
    from faultprof.analysis.weights import WeightTree
    from faultprof.recording.reader import Recording

_SUFFIXES = (".svg", ".html")


class By(StrEnum):
    """What the frames' widths are."""

    SAMPLES = "samples"
    TIME = "time"
    CALLS = "calls"
    OFFCPU = "offcpu"


def flame(
    files: Annotated[
        list[Path] | None,
        typer.Argument(
            metavar="[FILE [AFTER]]",
            help="The recording; with two, what changed from the first to the second.",
        ),
    ] = None,
    output: Annotated[
        Path, typer.Option("-o", "--output", metavar="NAME", help="An .svg or .html file.")
    ] = Path("flame.svg"),
    by: Annotated[
        By | None,
        typer.Option(help="What widths are.  [default: time, if it was traced, or samples]"),
    ] = None,
    icicle: Annotated[bool, typer.Option("--icicle", help="Put callers at the top.")] = False,
    root: Annotated[
        str | None, typer.Option(metavar="FN", help="Draw the tree below this function.")
    ] = None,
    comm: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="Draw only tasks of this name (may be repeated)."),
    ] = None,
    relative: Annotated[
        bool, typer.Option("--relative", help="Percent of what is drawn, not of all recorded.")
    ] = False,
) -> None:
    """Draw a flame graph: one file that needs no network, to look at or to mail.

    Widths are inclusive; colours are areas of the kernel, the same in every graph; hatched frames
    were inferred. In a browser, a click zooms, / searches by regular expression, ? lists all keys.
    Of two recordings, widths are those of the second (s swaps), colours what changed.

    Examples:
      faultprof flame -o fault.svg --root handle_mm_fault

      faultprof flame traced.fprof --by calls --icicle -o calls.html

      faultprof flame before.fprof after.fprof -o diff.svg
    """
    from faultprof.analysis.selection import Selection
    from faultprof.recording.reader import read_recording
    from faultprof.render.files import write_text
    from faultprof.render.flame import MOST_FRAMES, FlameSide, flame_pieces, labels_of

    _check(files or [], output)
    paths = files or [DEFAULT_INPUT]
    recordings = [read_recording(path) for path in paths]
    selection = Selection(root=root, comms=tuple(comm) if comm else None, relative=relative)
    tree = _tree(recordings, selection, by)
    sides = [
        FlameSide(recording.metadata, label)
        for recording, label in zip(recordings, labels_of(paths), strict=True)
    ]
    html = output.suffix.lower() == ".html"
    write_text(output, flame_pieces(tree, sides, selection, icicle=icicle, html=html))
    cut = f", the largest {MOST_FRAMES:,} drawn" if len(tree) > MOST_FRAMES else ""
    print(f"faultprof: {len(tree):,} frames{cut}; wrote {output}", file=sys.stderr)


def _check(files: list[Path], output: Path) -> None:
    if len(files) > 2:
        raise FaultprofError("a flame graph is of one recording or of two", "leave some out")
    if output.suffix.lower() not in _SUFFIXES and str(output) != "-":
        raise FaultprofError(f"{output} is neither .svg nor .html", "name such a file with -o")


def _tree(recordings: list[Recording], selection: Selection, by: By | None) -> WeightTree:
    from faultprof.analysis.weights import Measure, weigh_all

    return weigh_all(recordings, selection, Measure(by.value) if by else None)
