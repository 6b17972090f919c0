"""``faultprof html``: read one recording or two, write a page."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from faultprof.cli.flame import By
from faultprof.cli.notices import tell
from faultprof.cli.report import DEFAULT_INPUT
from faultprof.errors import FaultprofError


def html(
    files: Annotated[
        list[Path] | None,
        typer.Argument(
            metavar="FILE",
            help="The recording; with two, what changed from the first to the second.  "
            "[default: faultprof.fprof]",
        ),
    ] = None,
    output: Annotated[
        Path, typer.Option("-o", "--output", metavar="NAME", help="The file to write.")
    ] = Path("report.html"),
    by: Annotated[
        By | None,
        typer.Option(help="What weights are.  [default: time, if it was traced, or samples]"),
    ] = None,
    perturbation: Annotated[
        list[Path] | None,
        typer.Option(
            metavar="FILE", help="Also show what delays did: what perturb --json printed."
        ),
    ] = None,
    root: Annotated[
        str | None, typer.Option(metavar="FN", help="Show the tree below this function.")
    ] = None,
    comm: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="Show only tasks of this name (may be repeated)."),
    ] = None,
    relative: Annotated[
        bool, typer.Option("--relative", help="Percent of what is shown, not of all recorded.")
    ] = False,
) -> None:
    """Write everything about a recording, or what changed between two, as one HTML page.

    The verdict and its reasons, a flame graph, the call tree as a table that unfolds and sorts,
    the functions, the metrics of all runs, contention and what the probes cost. It opens from disk
    and loads nothing.

    Examples:
      faultprof html -o report.html

      faultprof html before.fprof after.fprof -o change.html

      faultprof html traced.fprof --root do_read_fault --relative -o read.html

      faultprof html traced.fprof --perturbation doses.json -o all.html
    """
    from faultprof.analysis.perturbation_file import read_perturbation
    from faultprof.analysis.selection import Selection
    from faultprof.analysis.weights import Measure
    from faultprof.recording.reader import read_recording
    from faultprof.render.files import write_text
    from faultprof.render.flame import labels_of
    from faultprof.render.html import page_pieces

    paths = files or [DEFAULT_INPUT]
    if len(paths) > 2:
        raise FaultprofError("a page is of one recording or of two", "leave some out")
    recordings = [read_recording(path) for path in paths]
    selection = Selection(root=root, comms=tuple(comm) if comm else None, relative=relative)
    measure = Measure(by.value) if by else None
    doses = [read_perturbation(path) for path in perturbation or ()]
    pieces = page_pieces(recordings, labels_of(paths), selection, measure, doses)
    write_text(output, pieces)
    tell(f"wrote {output}")
