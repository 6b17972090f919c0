"""``faultprof report``: read a recording, choose a view, print it."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Annotated

import typer

from faultprof.errors import FaultprofError

DEFAULT_INPUT = Path("faultprof.fprof")
_MIN_PERCENT = 0.5  # of the views for reading; those for programs are complete


def report(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="The recording.")] = DEFAULT_INPUT,
    flat: Annotated[bool, typer.Option("--flat", help="List functions instead of a tree.")] = False,
    folded: Annotated[
        bool, typer.Option("--folded", help="Print folded stacks, as flame graph programs read.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print everything as JSON.")] = False,
    root: Annotated[
        str | None, typer.Option(metavar="FN", help="Show the tree below this function.")
    ] = None,
    comm: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="Show only tasks of this name (may be repeated)."),
    ] = None,
    relative: Annotated[
        bool, typer.Option("--relative", help="Percent of what is shown, not of all samples.")
    ] = False,
    min_percent: Annotated[
        float | None,
        typer.Option(
            metavar="P",
            help="Leave out what has less than this inclusive percentage. "
            "Default 0.5; with --json and --folded 0.",
        ),
    ] = None,
    max_depth: Annotated[
        int | None, typer.Option(metavar="N", help="Show at most this many levels of the tree.")
    ] = None,
) -> None:
    """Show where a recording's samples were taken.

    A tree from caller to callee, with inclusive and self percentages; what is left out is said.

    Examples:
      faultprof report

      faultprof report --root do_read_fault --relative

      faultprof report --folded before.fprof > before.folded
    """
    from faultprof.analysis.selection import Selection
    from faultprof.recording.reader import read_recording
    from faultprof.render.terminal import Terminal, write_lines
    from faultprof.render.views import VIEWS

    view = _view({"flat": flat, "folded": folded, "json": as_json})
    if min_percent is None:
        min_percent = _MIN_PERCENT if view in ("tree", "flat") else 0.0
    _check(view, min_percent, max_depth)
    selection = Selection(root, tuple(comm) if comm else None, relative, min_percent, max_depth)
    lines = VIEWS[view](read_recording(file), selection, Terminal.of(sys.stdout))
    try:
        write_lines(sys.stdout, lines)
    except BrokenPipeError:
        # The reader (head, less) has seen enough. What is still buffered must not fail again.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _view(asked: dict[str, bool]) -> str:
    views = [view for view, wanted in asked.items() if wanted]
    if len(views) > 1:
        raise FaultprofError(
            "--flat, --folded and --json exclude each other", "give one of them, or none for a tree"
        )
    return views[0] if views else "tree"


def _check(view: str, min_percent: float, max_depth: int | None) -> None:
    if not 0 <= min_percent <= 100:
        raise FaultprofError(
            f"--min-percent {min_percent:g} is no percentage", "give a number from 0 to 100"
        )
    if max_depth is not None and max_depth < 1:
        raise FaultprofError(f"--max-depth {max_depth} shows nothing", "give 1 or more")
    if max_depth is not None and view == "flat":
        raise FaultprofError("--max-depth does not go with --flat", "leave one of them out")
