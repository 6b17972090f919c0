"""``faultprof plot``: read recordings, choose a kind of plot, write a picture."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from faultprof.cli.flame import By
from faultprof.cli.notices import tell
from faultprof.cli.report import DEFAULT_INPUT
from faultprof.errors import FaultprofError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from faultprof.analysis.selection import Selection
    from faultprof.recording.reader import Recording


class Kind(StrEnum):
    """What can be plotted."""

    HIST = "hist"
    METRICS = "metrics"
    PARTS = "parts"
    DOSES = "doses"


EVERYTHING = "-"  # the root of parts that stands for no root

# Options that only some kinds have a use for.
_ONLY = {
    "--function": (Kind.HIST,),
    "--metric": (Kind.METRICS,),
    "--by": (Kind.PARTS,),
    "--root": (Kind.HIST, Kind.PARTS),
    "--comm": (Kind.HIST, Kind.PARTS),
}


def plot(
    kind: Annotated[
        Kind,
        typer.Argument(
            metavar="KIND",
            help="hist: durations of functions; metrics: of runs; parts: of the fault path; "
            "doses: what delays did.",
        ),
    ],
    files: Annotated[
        list[Path] | None,
        typer.Argument(
            metavar="FILE",
            help="Recordings, side by side; for doses what perturb --json printed.  "
            "[default: faultprof.fprof]",
        ),
    ] = None,
    output: Annotated[
        Path, typer.Option("-o", "--output", metavar="NAME", help="A .png, .svg or .pdf file.")
    ] = Path("plot.png"),
    function: Annotated[
        list[str] | None,
        typer.Option(
            "-f", "--function", metavar="FN", help="hist: whose durations (may be repeated)."
        ),
    ] = None,
    metric: Annotated[
        list[str] | None,
        typer.Option(metavar="GLOB", help="metrics: only matching ones (may be repeated)."),
    ] = None,
    by: Annotated[
        By | None,
        typer.Option(help="parts: of what.  [default: time, if it was traced, or samples]"),
    ] = None,
    root: Annotated[
        str | None,
        typer.Option(
            metavar="FN",
            help="Only the tree below this function.  [default: in parts, handle_mm_fault; "
            "- for everything]",
        ),
    ] = None,
    comm: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="Only tasks of this name (may be repeated)."),
    ] = None,
) -> None:
    """Plot recordings, for a mail or a paper.

    hist overlays how long the calls of functions took. metrics shows every run, the means and
    their intervals. parts shows what the fault path, or another root, is made of. doses shows a
    metric against the delays of perturb.

    Examples:
      faultprof plot parts before.fprof after.fprof -o parts.svg

      faultprof plot hist traced.fprof -f next_uptodate_folio -f set_pte_range -o durations.png

      faultprof plot metrics before.fprof after.fprof --metric 'usemem.*' -o runs.pdf

      faultprof plot doses perturb.json -o doses.svg
    """
    from faultprof.analysis.selection import Selection
    from faultprof.recording.reader import read_recording
    from faultprof.render.files import write_bytes
    from faultprof.render.flame import labels_of
    from faultprof.render.plots.style import file_of, format_of, styled

    given = {
        "--function": function,
        "--metric": metric,
        "--by": by,
        "--root": root,
        "--comm": comm,
    }
    _check_together(kind, given)
    suffix = format_of(output)
    paths = files or [DEFAULT_INPUT]
    if kind is Kind.DOSES:
        with styled():
            content = file_of(_doses(files or []), suffix)
        write_bytes(output, [content])
        tell(f"wrote {output}")
        return
    recordings = dict(zip(labels_of(paths), [read_recording(path) for path in paths], strict=True))
    selection = Selection(root=root, comms=tuple(comm) if comm else None)
    with styled():
        if kind is Kind.HIST:
            figure = _durations(recordings, function or [], selection)
        elif kind is Kind.METRICS:
            figure = _metrics(recordings, metric or [])
        else:
            figure = _parts(recordings, selection, by)
        content = file_of(figure, suffix)
    write_bytes(output, [content])
    tell(f"wrote {output}")


def _check_together(kind: Kind, given: Mapping[str, object]) -> None:
    for option, value in given.items():
        if value and kind not in _ONLY[option]:
            kinds = " and ".join(one.value for one in _ONLY[option])
            raise FaultprofError(f"{option} is for {kinds} only", "leave it out")


def _durations(
    recordings: dict[str, Recording], functions: Sequence[str], selection: Selection
) -> Any:
    from faultprof.analysis.selection import no_trace
    from faultprof.render.plots.durations import Series, durations_figure
    from faultprof.render.trace_histogram import timed_calls

    if not functions:
        raise FaultprofError(
            "hist needs the functions whose durations are wanted", "for example: -f do_fault"
        )
    series = []
    for label, recording in recordings.items():
        if not recording.has_trace:
            raise no_trace(recording)
        tree = selection.trace_tree(recording)
        names = dict.fromkeys(functions)
        series += [Series(name, label, timed_calls(tree, name)) for name in names]
    return durations_figure(series)


def _doses(files: Sequence[Path]) -> Any:
    from faultprof.analysis.perturbation_file import read_perturbation
    from faultprof.render.plots.doses import Titled, doses_figure

    if not files:
        raise FaultprofError(
            "doses needs a file", "make one with: faultprof perturb --json ... > FILE"
        )
    read = [read_perturbation(path) for path in files]
    return doses_figure([Titled(one.delayed, one.found) for one in read])


def _metrics(recordings: dict[str, Recording], globs: Sequence[str]) -> Any:
    from faultprof.analysis.measurement import side_of_recording
    from faultprof.render.plots.metrics import metrics_figure

    sides = [side_of_recording(one.metadata, label) for label, one in recordings.items()]
    return metrics_figure(sides, globs)


def _parts(recordings: dict[str, Recording], selection: Selection, by: By | None) -> Any:
    from dataclasses import replace

    from faultprof.analysis.parts import have_faults, recording_parts
    from faultprof.analysis.trace_tree import FAULT
    from faultprof.analysis.weights import Measure, measure_of
    from faultprof.render.plots.parts import Bar, parts_figure

    measure = Measure(by.value) if by else measure_of(recordings.values())
    if selection.root == EVERYTHING:
        selection = replace(selection, root=None)
    elif selection.root is None and have_faults(recordings.values(), selection, measure):
        selection = replace(selection, root=FAULT)
    bars = [
        Bar(label, recording_parts(one, selection, measure)) for label, one in recordings.items()
    ]
    return parts_figure(bars, measure, selection.root)
