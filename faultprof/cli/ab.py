"""``faultprof ab``: two commands that take turns, recorded into two recordings."""

from __future__ import annotations

import os
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from faultprof.cli import record_options as common
from faultprof.errors import ExitCode, FaultprofError

if TYPE_CHECKING:
    from faultprof.capture.identity import Identity

_NAMES = ("a", "b")


def ab(
    directory: Annotated[
        Path,
        typer.Option("-o", "--output", metavar="DIR", help="Where a.fprof and b.fprof go."),
    ],
    a: Annotated[
        str, typer.Option("--a", metavar="CMD", help="One command, in quotes; no shell runs it.")
    ],
    b: Annotated[str, typer.Option("--b", metavar="CMD", help="The other one.")],
    repeat: Annotated[
        int, typer.Option(metavar="N", help="Blocks: how often each command runs.")
    ] = 10,
    seed: Annotated[
        int | None,
        typer.Option(
            metavar="S", min=0, help="Of the order within the blocks.  [default: another each time]"
        ),
    ] = None,
    frequency: common.FrequencyOption = None,
    clock: common.ClockOption = common.Clock.AUTO,
    mode: common.ModeOption = common.Mode.AUTO,
    preset: common.PresetOption = None,
    function: common.FunctionOption = None,
    attach: common.AttachOption = common.Attach.AUTO,
    off_cpu: common.OffCpuOption = True,
    metric: common.MetricOption = None,
    contention: common.ContentionOption = False,
    occupancy: common.OccupancyOption = False,
    locks: common.LocksOption = False,
    folio: common.FolioOption = False,
    yield_: common.YieldOption = False,
    outcomes: common.OutcomesOption = False,
    order: common.OrderOption = False,
    fault_labels: common.FaultLabelsOption = common.Switch.AUTO,
    user_stacks: common.UserStacksOption = False,
    max_stacks: common.MaxStacksOption = 16384,
    as_root: common.AsRootOption = False,
    strict: common.StrictOption = False,
    quiet: common.QuietOption = False,
) -> None:
    """Run two commands in turns, in random order, and record both.

    Each block has one run of either, in random order: what the machine does meanwhile disturbs
    both alike, and compare looks at the differences within the blocks. Ctrl-C keeps whole blocks.

    Examples:
      faultprof ab --repeat 10 -o ab --a "usemem -t 4 1g" --b "usemem -t 8 1g"

      faultprof compare ab/a.fprof ab/b.fprof

      faultprof ab -o ab --seed 7 --a "./old 1g" --b "sh -c 'ulimit -n 64; ./new 1g'"
    """
    from faultprof.capture.identity import invoking_user
    from faultprof.capture.options import RecordOptions
    from faultprof.capture.schedule import fresh_seed, interleaved
    from faultprof.capture.session import Session

    commands = _split("--a", a), _split("--b", b)
    _check_repeat(repeat)
    reader = common.metrics_reader(commands, metric or ())
    if seed is None:
        seed = fresh_seed()
    asked = common.parts(
        occupancy=occupancy,
        locks=locks,
        folio=folio,
        yield_=yield_,
        outcomes=outcomes,
        order=order,
    )
    recordings = tuple(
        RecordOptions(
            output=directory / f"{name}.fprof",
            command=command,
            mode=mode.value,
            frequency=frequency,
            clock=clock.value,
            max_stacks=max_stacks,
            user_stacks=user_stacks,
            fault_labels=fault_labels.value,
            presets=tuple(preset or ()),
            functions=tuple(function or ()),
            attach=attach.value,
            off_cpu=off_cpu,
            as_root=as_root,
            strict=strict,
            metrics=tuple(metric or ()),
            contention=asked,
            all_contention=contention,
        )
        for name, command in zip(_NAMES, commands, strict=True)
    )
    say = common.speaker(quiet)
    _make_directory(directory, invoking_user(os.environ))
    say(f"{repeat} blocks of both commands; --seed {seed} gives the same order again")
    status = Session(interleaved(recordings, repeat, seed), say, reader).run()
    if status == ExitCode.OK:
        files = [shlex.quote(str(one.output)) for one in recordings]
        say(f"see: faultprof compare {' '.join(files)}")
    raise typer.Exit(status)


def _split(option: str, command: str) -> tuple[str, ...]:
    try:
        words = tuple(shlex.split(command))
    except ValueError as error:
        raise FaultprofError(
            f"{option} cannot be split into words: {error}", "close what is quoted"
        ) from error
    if not words:
        raise FaultprofError(f"{option} names no command", "give one, in quotes")
    return words


def _check_repeat(repeat: int) -> None:
    from faultprof.capture.schedule import MOST_RUNS

    most = MOST_RUNS // len(_NAMES)
    if not 1 <= repeat <= most:
        raise FaultprofError(f"{repeat} blocks cannot be run", f"give --repeat 1 to {most}")


def _make_directory(directory: Path, identity: Identity | None) -> None:
    """Make the directory, if it is missing, for the user behind sudo if there is one."""
    try:
        directory.mkdir()
    except FileExistsError:
        if directory.is_dir():
            return
        raise FaultprofError(f"{directory} is no directory", "name another one with -o") from None
    except OSError as error:
        raise FaultprofError(
            f"cannot make the directory {directory}: {error.strerror}", "name another one with -o"
        ) from error
    if identity is not None:
        os.chown(directory, *identity.owner, follow_symlinks=False)
