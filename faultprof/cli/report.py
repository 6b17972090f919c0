"""``faultprof report``: read a recording, choose a view, print it."""

from __future__ import annotations

import sys
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from faultprof.errors import FaultprofError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from faultprof.analysis.selection import Selection
    from faultprof.recording.reader import Recording
    from faultprof.render.terminal import Terminal

DEFAULT_INPUT = Path("faultprof.fprof")
_MIN_PERCENT = 0.5  # of the views for reading; those for programs are complete
_NOT_WITH = {
    "tree": (),
    "flat": ("--max-depth",),
    "folded": ("--wide", "--per-fault"),
    "json": ("--wide",),
    "hist": ("--wide", "--per-fault", "--relative", "--min-percent", "--max-depth"),
    "check": ("--wide", "--per-fault", "--relative", "--min-percent", "--max-depth", "--comm"),
}


class Source(StrEnum):
    """Where a report's figures come from."""

    SAMPLE = "sample"
    TRACE = "trace"


def report(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="The recording.")] = DEFAULT_INPUT,
    flat: Annotated[bool, typer.Option("--flat", help="List functions instead of a tree.")] = False,
    folded: Annotated[
        bool,
        typer.Option(
            "--folded",
            help="Print folded stacks, as flame graph programs read; counts are samples, or of a "
            "trace nanoseconds of self time.",
        ),
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print everything as JSON.")] = False,
    histogram: Annotated[
        str | None,
        typer.Option("--hist", metavar="FN", help="Draw how long the calls of a function took."),
    ] = None,
    check: Annotated[
        bool,
        typer.Option("--check", help="Compare the trace's shares with those of the samples."),
    ] = False,
    source: Annotated[
        Source | None,
        typer.Option(help="Which figures to show.  [default: the trace, if there is one]"),
    ] = None,
    wide: Annotated[
        bool, typer.Option("--wide", help="Show all figures of traced calls, in long lines.")
    ] = False,
    per_fault: Annotated[
        bool,
        typer.Option(
            "--per-fault", help="Divide traced calls and times by the calls of handle_mm_fault."
        ),
    ] = False,
    run: Annotated[
        int | None,
        typer.Option(metavar="K", min=0, help="Show one run, from 0.  [default: all together]"),
    ] = None,
    root: Annotated[
        str | None, typer.Option(metavar="FN", help="Show the tree below this function.")
    ] = None,
    comm: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="Show only tasks of this name (may be repeated)."),
    ] = None,
    relative: Annotated[
        bool,
        typer.Option("--relative", help="Percent of what is shown, not of everything recorded."),
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
    """Show where a recording's samples were taken, or what its traced calls cost.

    A tree from caller to callee, with inclusive percentages; what is left out is said. Of samples,
    self percentages; of a trace, exact calls, and the mean, the 99th percentile and the time off
    the CPU of each function on each path.

    Examples:
      faultprof report

      faultprof report --root do_read_fault --relative

      faultprof report --hist next_uptodate_folio

      faultprof report --check

      faultprof report --folded before.fprof > before.folded
    """
    from faultprof.analysis.selection import Selection
    from faultprof.recording.reader import read_recording
    from faultprof.render.terminal import Terminal, write_lines

    is_hist = histogram is not None
    view = _view({"flat": flat, "folded": folded, "json": as_json, "hist": is_hist, "check": check})
    of_trace = {"--hist": is_hist, "--check": check, "--wide": wide, "--per-fault": per_fault}
    given = {
        "--relative": relative,
        "--min-percent": min_percent is not None,
        "--max-depth": max_depth is not None,
        "--comm": bool(comm),
    }
    _check_together(view, source, of_trace, given)
    if min_percent is None:
        min_percent = _MIN_PERCENT if view in ("tree", "flat") else 0.0
    check_numbers(min_percent, max_depth)
    selection = Selection(
        run=run,
        root=root,
        comms=tuple(comm) if comm else None,
        relative=relative,
        min_percent=min_percent,
        max_depth=max_depth,
        source=source.value if source else None,
        per_fault=per_fault,
        wide=wide,
    )
    terminal = Terminal.of(sys.stdout)
    write_lines(sys.stdout, _lines(view, read_recording(file), histogram, selection, terminal))


def _lines(
    view: str,
    recording: Recording,
    function: str | None,
    selection: Selection,
    terminal: Terminal,
) -> Iterator[str]:
    from faultprof.render.trace_histogram import histogram_lines
    from faultprof.render.views import VIEWS, check_view

    if function is not None:
        return histogram_lines(recording, function, selection, terminal)
    if view == "check":
        return check_view(recording, selection, terminal)
    return VIEWS[view](recording, selection, terminal)


def _view(asked: dict[str, bool]) -> str:
    views = [view for view, wanted in asked.items() if wanted]
    if len(views) > 1:
        raise FaultprofError(
            "--flat, --folded, --json, --hist and --check exclude each other",
            "give one of them, or none for a tree",
        )
    return views[0] if views else "tree"


def _check_together(
    view: str, source: Source | None, of_trace: dict[str, bool], given: dict[str, bool]
) -> None:
    """Refuse options that mean nothing in a view; whoever gives them expects something else."""
    for option, is_given in {**of_trace, **given}.items():
        if is_given and option in _NOT_WITH[view]:
            raise FaultprofError(f"{option} does not go with --{view}", "leave one of them out")
    for option, is_given in of_trace.items():
        if is_given and source is Source.SAMPLE:
            raise FaultprofError(
                f"{option} is for traced calls only", "leave it out, or --source sample"
            )


def check_numbers(min_percent: float, max_depth: int | None) -> None:
    """Refuse a percentage or depth that is none."""
    if not 0 <= min_percent <= 100:
        raise FaultprofError(
            f"--min-percent {min_percent:g} is no percentage", "give a number from 0 to 100"
        )
    if max_depth is not None and max_depth < 1:
        raise FaultprofError(f"--max-depth {max_depth} shows nothing", "give 1 or more")
