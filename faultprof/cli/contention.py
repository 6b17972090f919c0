"""``faultprof contention``: read a recording, show what its tasks fought over."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from faultprof.cli.notices import tell
from faultprof.cli.report import DEFAULT_INPUT

if TYPE_CHECKING:
    from faultprof.analysis.selection import Selection
    from faultprof.recording.reader import Recording


def contention(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="The recording.")] = DEFAULT_INPUT,
    as_json: Annotated[bool, typer.Option("--json", help="Print everything as JSON.")] = False,
    plot: Annotated[
        Path | None,
        typer.Option(metavar="NAME", help="Draw it instead, into a .png, .svg or .pdf file."),
    ] = None,
    run: Annotated[
        int | None,
        typer.Option(metavar="K", min=0, help="Show one run, from 0.  [default: all together]"),
    ] = None,
) -> None:
    """Show who fights over what in the fault path.

    How many CPUs are in a function at once, waits for kernel locks and folio locks, how much of
    fault-around's work is of use, faults by outcome, and how huge pages are cleared: as far as it
    was recorded, with record --contention or the option of each part.

    Examples:
      faultprof contention

      faultprof contention busy.fprof --run 0

      faultprof contention --json | jq .locks

      faultprof contention --plot contention.svg
    """
    from faultprof.analysis.selection import Selection
    from faultprof.recording.reader import read_recording
    from faultprof.render.contention.report import contention_json, contention_lines
    from faultprof.render.terminal import Terminal, write_lines

    recording = read_recording(file)
    selection = Selection(run=run)
    selection.check_run(recording.metadata)
    if plot is not None:
        _plot(plot, recording, selection)
        return
    if as_json:
        lines = contention_json(recording, selection)
    else:
        lines = contention_lines(recording, selection, Terminal.of(sys.stdout))
    write_lines(sys.stdout, lines)


def _plot(output: Path, recording: Recording, selection: Selection) -> None:
    from faultprof.render.files import write_bytes
    from faultprof.render.plots.contention import contention_figure
    from faultprof.render.plots.style import file_of, format_of, styled

    kind = format_of(output)
    with styled():
        content = file_of(contention_figure(recording, selection), kind)
    write_bytes(output, [content])
    tell(f"wrote {output}")
