"""``faultprof diff``: read two recordings, match their call trees, print the difference."""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer

from faultprof.cli.report import Source


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
    from faultprof.analysis.diff_match import diff_recordings
    from faultprof.analysis.diff_worth import Worth
    from faultprof.cli.report import check_numbers
    from faultprof.recording.reader import read_recording
    from faultprof.render.diff import DiffView, diff_lines
    from faultprof.render.diff_json import diff_json_text
    from faultprof.render.terminal import Terminal, write_lines

    least = min_percent if min_percent is not None else 0.0 if as_json else 0.5
    check_numbers(least, max_depth)
    with _without_garbage_collection():
        found, terms = diff_recordings(
            read_recording(base),
            read_recording(new),
            source=source.value if source else None,
            root=root,
            comms=tuple(comm) if comm else None,
            relative=relative,
        )
        files = str(base), str(new)
        view = DiffView(found, terms, Worth.of(found), files, least, max_depth, top)
        lines = [diff_json_text(view)] if as_json else diff_lines(view, Terminal.of(sys.stdout))
        write_lines(sys.stdout, lines)


@contextmanager
def _without_garbage_collection() -> Iterator[None]:
    """Have Python not look for garbage among nodes that all stay, which takes half of the time."""
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
