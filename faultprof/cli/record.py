"""``faultprof record``: parse the options, run the session."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from faultprof.cli import record_options as common
from faultprof.errors import FaultprofError

DEFAULT_OUTPUT = Path("faultprof.fprof")


def record(
    command: Annotated[
        list[str] | None,
        typer.Argument(metavar="[--] COMMAND [ARG]...", help="What to run and record."),
    ] = None,
    pid: Annotated[
        int | None,
        typer.Option("-p", "--pid", help="Record a running process and what it forks."),
    ] = None,
    everything: Annotated[
        bool, typer.Option("-a", "--all", help="Record every task of this machine.")
    ] = False,
    duration: Annotated[
        float | None, typer.Option(help="Stop recording after this many seconds.")
    ] = None,
    repeat: Annotated[
        int, typer.Option(metavar="N", help="Run the command so often; the runs are kept apart.")
    ] = 1,
    frequency: common.FrequencyOption = None,
    clock: common.ClockOption = common.Clock.AUTO,
    mode: common.ModeOption = common.Mode.AUTO,
    preset: common.PresetOption = None,
    function: common.FunctionOption = None,
    attach: common.AttachOption = common.Attach.AUTO,
    off_cpu: common.OffCpuOption = True,
    calibrate: common.CalibrateOption = True,
    output: Annotated[
        Path | None,
        typer.Option(
            "-o",
            "--output",
            help="The recording. Default: faultprof.fprof; a former one is kept as .old.",
        ),
    ] = None,
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
    check_overhead: common.CheckOverheadOption = False,
    quiet: common.QuietOption = False,
) -> None:
    """Run a command (or watch a process) and record where its page faults spend their time.

    Where the kernel has kprobes, faults are traced: exactly, but at a cost; --mode sample disturbs
    least. Elsewhere they are sampled, and that is said. Naming a preset, a function or a way to
    attach asks for a trace.

    Examples:
      faultprof record -- usemem -t 4 1g

      faultprof record -p 4711 --duration 10 -o busy.fprof

      faultprof record -a --duration 5

      faultprof record --preset read -- usemem --readonly -f /dev/shm/file 1g

      faultprof record --repeat 10 --metric 'us=took ([0-9.]+) us' -- ./benchmark

      faultprof record --contention -- usemem -t 4 --readonly -f /dev/shm/file 1g

      faultprof record --check-overhead --repeat 10 -- usemem -t 4 1g
    """
    from faultprof.capture.options import RecordOptions
    from faultprof.capture.schedule import repeated
    from faultprof.capture.session import Session

    asked = common.parts(
        occupancy=occupancy,
        locks=locks,
        folio=folio,
        yield_=yield_,
        outcomes=outcomes,
        order=order,
    )
    options = RecordOptions(
        output=output or DEFAULT_OUTPUT,
        keep_old=output is None,
        command=tuple(command or ()),
        pid=pid,
        everything=everything,
        duration=duration,
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
        calibrate=calibrate,
        as_root=as_root,
        strict=strict,
        metrics=tuple(metric or ()),
        contention=asked,
        all_contention=contention,
    )
    check_scope(options.command, pid, everything, duration)
    if check_overhead:
        from faultprof.cli.overhead import print_overhead

        print_overhead(options, repeat, common.speaker(quiet))
        return
    _check_repeat(options.command, repeat, everything, duration)
    if metric and not options.command:
        raise FaultprofError("--metric reads the output of a command", "give a command")
    reader = common.metrics_reader([options.command], options.metrics)
    session = Session(repeated(options, repeat), common.speaker(quiet), reader)
    raise typer.Exit(session.run())


def check_scope(
    command: tuple[str, ...], pid: int | None, everything: bool, duration: float | None
) -> None:
    """Refuse a scope that is none, or two.

    Raises:
        FaultprofError: exit code 2.
    """
    if pid is not None and (command or everything):
        raise FaultprofError(
            "-p PID goes with neither a command nor -a", "give one of them: what to record"
        )
    if not (command or pid is not None or everything):
        raise FaultprofError(
            "nothing to record", "give a command (faultprof record -- usemem 1g), -p PID or -a"
        )
    if duration is not None and not duration > 0:
        raise FaultprofError(f"a duration of {duration:g} s records nothing", "give more than 0")


def _check_repeat(
    command: tuple[str, ...], repeat: int, everything: bool, duration: float | None
) -> None:
    from faultprof.capture.schedule import MOST_RUNS

    if not 1 <= repeat <= MOST_RUNS:
        raise FaultprofError(f"{repeat} runs cannot be made", f"give --repeat 1 to {MOST_RUNS}")
    if repeat > 1 and not command:
        raise FaultprofError("there is no command to repeat", "give one, or leave out --repeat")
    if repeat > 1 and (everything or duration is not None):
        # Of these a run would not end with its command, and reach into the next one.
        raise FaultprofError(
            "--repeat goes with neither -a nor --duration", "leave out the one or the other"
        )
