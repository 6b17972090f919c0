"""``faultprof diff``: read two recordings, match their call trees, print the difference."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from faultprof.cli.report import Source
from faultprof.errors import FaultprofError

if TYPE_CHECKING:
    from faultprof.render.diff import DiffView


def diff(
    base: Annotated[Path, typer.Argument(metavar="BASE", help="The recording to compare with.")],
    new: Annotated[Path, typer.Argument(metavar="NEW", help="The recording that is compared.")],
    as_json: Annotated[bool, typer.Option("--json", help="Print everything as JSON.")] = False,
    source: Annotated[
        Source | None,
        typer.Option(help="Which figures to compare.  [default: traces, if both have one]"),
    ] = None,
    root: Annotated[
        str | None, typer.Option(metavar="FN", help="Compare the trees below this function.")
    ] = None,
    comm: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="Compare only tasks of this name (may be repeated)."),
    ] = None,
    relative: Annotated[
        bool,
        typer.Option("--relative", help="Percent of what is shown, not of everything recorded."),
    ] = False,
    top: Annotated[
        int, typer.Option(metavar="N", min=1, help="How many functions explain the change.")
    ] = 10,
    min_percent: Annotated[
        float | None,
        typer.Option(
            metavar="P",
            help="Leave out of the tree what has less than this inclusive percentage on both "
            "sides. Default 0.5; with --json 0.",
        ),
    ] = None,
    max_depth: Annotated[
        int | None, typer.Option(metavar="N", help="Show at most this many levels of the tree.")
    ] = None,
) -> None:
    """Show two recordings as one call tree, and what explains the difference.

    Functions are the same whatever they are called on either kernel. Of samples, percentages are
    compared; of traced calls, times and calls per fault, and each change is split into what was
    called more often and what was slower per call. Intervals where both have several runs.

    Examples:
      faultprof diff before.fprof after.fprof

      faultprof diff before.fprof after.fprof --root do_read_fault --relative
    """
    from faultprof.cli.report import check_numbers
    from faultprof.render.diff import diff_lines
    from faultprof.render.diff_json import diff_json_text
    from faultprof.render.terminal import Terminal, write_lines

    least = min_percent if min_percent is not None else 0.0 if as_json else 0.5
    check_numbers(least, max_depth)
    view = _view(
        (base, new), source.value if source else None, root, tuple(comm or ()) or None, relative
    )
    shown = _with(view, least, max_depth, top)
    lines = [diff_json_text(shown)] if as_json else diff_lines(shown, Terminal.of(sys.stdout))
    try:
        write_lines(sys.stdout, lines)
    except BrokenPipeError:
        # The reader (head, less) has seen enough. What is still buffered must not fail again.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _view(
    files: tuple[Path, Path],
    source: str | None,
    root: str | None,
    comms: tuple[str, ...] | None,
    relative: bool,
) -> DiffView:
    """Read and compare."""
    from faultprof.analysis.diff_match import diff_sides
    from faultprof.analysis.diff_sides import read_side
    from faultprof.analysis.diff_terms import find_terms
    from faultprof.analysis.diff_worth import Worth
    from faultprof.recording.reader import read_recording
    from faultprof.recording.schema import TRACE
    from faultprof.render.diff import DiffView

    recordings = [read_recording(file) for file in files]
    terms = find_terms(*recordings, source=source, root=root)
    sides = []
    for file, recording in zip(files, recordings, strict=True):
        try:
            sides.append(
                read_side(
                    recording,
                    terms.source,
                    root=terms.root,
                    comms=comms,
                    relative=relative,
                    folding=terms.folding,
                )
            )
        except FaultprofError as error:
            message = f"{file}: {error.message}" if str(file) not in error.message else ""
            raise FaultprofError(message or error.message, error.hint, error.exit_code) from error
    found = diff_sides(*sides, traced=terms.source == TRACE)
    return DiffView(found, terms, Worth.of(found), (str(files[0]), str(files[1])))


def _with(view: DiffView, min_percent: float, max_depth: int | None, top: int) -> DiffView:
    from dataclasses import replace

    return replace(view, min_percent=min_percent, max_depth=max_depth, top=top)
