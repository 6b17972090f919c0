"""``faultprof top``: parse the options, run a session with the live view standing by."""

from __future__ import annotations

import contextlib
import os
import shlex
import shutil
import sys
from pathlib import Path
from typing import IO, TYPE_CHECKING, Annotated

import typer

from faultprof.cli import notices
from faultprof.cli import record_options as common
from faultprof.cli.record import DEFAULT_OUTPUT, check_scope
from faultprof.errors import FaultprofError

if TYPE_CHECKING:
    from faultprof.capture.options import RecordOptions
    from faultprof.cli.top_view import TopView

_INTERVALS = (0.1, 60.0)  # seconds


def top(
    command: Annotated[
        list[str] | None,
        typer.Argument(metavar="[--] COMMAND [ARG]...", help="What to run and watch."),
    ] = None,
    pid: Annotated[
        int | None, typer.Option("-p", "--pid", help="Watch a running process and what it forks.")
    ] = None,
    everything: Annotated[
        bool, typer.Option("-a", "--all", help="Watch every task of this machine (the default).")
    ] = False,
    duration: Annotated[float | None, typer.Option(help="End after this many seconds.")] = None,
    interval: Annotated[float, typer.Option(help="Seconds between two pictures.")] = 1.0,
    frequency: common.FrequencyOption = None,
    mode: common.ModeOption = common.Mode.AUTO,
    preset: common.PresetOption = None,
    function: common.FunctionOption = None,
    output: Annotated[
        Path | None,
        typer.Option(
            "-o",
            "--output",
            help="Also write a recording of all of it at the end; what w writes, too.",
        ),
    ] = None,
    locks: Annotated[
        bool, typer.Option(help="Also count waits for kernel locks, where that can be done.")
    ] = True,
    as_root: common.AsRootOption = False,
) -> None:
    """Show page faults as they happen: how many of which kind, where their time goes, what waits.

    Once a second, in a terminal: keys sort, pause and scroll, w writes a recording, h lists them
    all. What a command prints follows when the view has ended. Where the output is no terminal,
    the pictures are printed one after the other.

    Examples:
      faultprof top -- usemem -t 4 1g

      faultprof top -p 4711 -o seen.fprof

      faultprof top -a --mode sample --duration 10 > pictures.txt
    """
    from faultprof.capture.options import RecordOptions
    from faultprof.recording.contention import LOCKS

    words = tuple(command or ())
    everything = everything or not (words or pid is not None)
    check_scope(words, pid, everything, duration)
    if not _INTERVALS[0] <= interval <= _INTERVALS[1]:
        raise FaultprofError(
            f"a picture every {interval:g} s cannot be made",
            f"give --interval {_INTERVALS[0]:g} to {_INTERVALS[1]:g}",
        )
    options = RecordOptions(
        output=output or DEFAULT_OUTPUT,
        keep_old=output is None,
        command=words,
        pid=pid,
        everything=everything,
        duration=duration,
        mode=mode.value,
        frequency=frequency,
        presets=tuple(preset or ()),
        functions=tuple(function or ()),
        optional_contention=(LOCKS,) if locks else (),
        pausable=True,
        as_root=as_root,
    )
    raise typer.Exit(_watch(options, interval, keeps=output is not None))


def _watch(options: RecordOptions, interval: float, *, keeps: bool) -> int:
    import tempfile

    from faultprof.capture.schedule import repeated
    from faultprof.capture.session import Session

    notices.silence()  # the terminal is the view's
    said: list[str] = []
    with tempfile.TemporaryFile() as printed, Path(os.devnull).open("rb") as nothing:
        view = _view(options, interval, keeps, {0: nothing.fileno(), 1: printed.fileno(),
                                                2: printed.fileno()})  # fmt: skip
        try:
            session = Session(repeated(options, 1), said.append, watch=view)
            view.owner = session.identity.owner if session.identity is not None else None
            status = session.run()
        finally:
            _hand_over(printed, said)
    return 0 if view.quit else status


def _view(options: RecordOptions, interval: float, keeps: bool, streams: dict[int, int]) -> TopView:
    from faultprof.cli.top_view import TopView
    from faultprof.render.terminal import Terminal

    title = shlex.join(options.command) or "every task of this machine"
    if options.pid is not None:
        title = f"process {options.pid}"
    return TopView(title, interval, keeps, streams, Terminal.of(sys.stdout), str(options.output))


def _hand_over(printed: IO[bytes], said: list[str]) -> None:
    """Pass on what the command has printed, and then what the session said; to whoever is there."""
    with contextlib.suppress(OSError):
        printed.seek(0)
        sys.stdout.flush()
        shutil.copyfileobj(printed, sys.stdout.buffer)
        sys.stdout.flush()
        for line in said:
            common.speaker(quiet=False)(line)
