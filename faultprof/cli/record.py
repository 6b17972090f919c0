"""``faultprof record``: parse the options, run the session."""

from __future__ import annotations

import sys
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from faultprof.errors import FaultprofError

DEFAULT_OUTPUT = Path("faultprof.fprof")


class Clock(StrEnum):
    """What drives the sampler."""

    AUTO = "auto"
    CYCLES = "cycles"
    CPU_CLOCK = "cpu-clock"


class Switch(StrEnum):
    """A feature that can decide for itself."""

    AUTO = "auto"
    ON = "on"
    OFF = "off"


class Mode(StrEnum):
    """How to measure."""

    AUTO = "auto"
    SAMPLE = "sample"
    TRACE = "trace"


class Attach(StrEnum):
    """How probes are attached."""

    AUTO = "auto"
    KPROBE = "kprobe"
    FENTRY = "fentry"


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
    frequency: Annotated[
        int | None,
        typer.Option(
            "-F",
            "--frequency",
            help="Samples a second and CPU.  [default: 999; 99 beside a trace]",
        ),
    ] = None,
    clock: Annotated[
        Clock, typer.Option(help="What drives the sampler; auto: cycles where there is a PMU.")
    ] = Clock.AUTO,
    mode: Annotated[
        Mode,
        typer.Option(help="sample: stacks on a timer; trace: exact calls and times by probes."),
    ] = Mode.AUTO,
    preset: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME", help="What to trace (repeatable); see 'faultprof functions'.  [all]"
        ),
    ] = None,
    function: Annotated[
        list[str] | None,
        typer.Option(
            "-f", "--function", metavar="FN", help="Trace this function or glob too (repeatable)."
        ),
    ] = None,
    attach: Annotated[
        Attach, typer.Option(help="How to trace; auto: fentry where it goes, else kprobe.")
    ] = Attach.AUTO,
    off_cpu: Annotated[
        bool,
        typer.Option(help="While tracing, tell time not running (sched_switch) from time running."),
    ] = True,
    calibrate: Annotated[
        bool,
        typer.Option(
            help="While tracing, take out what the probes cost; measured once for each kernel."
        ),
    ] = True,
    output: Annotated[
        Path | None,
        typer.Option(
            "-o",
            "--output",
            help="The recording. Default: faultprof.fprof; a former one is kept as .old.",
        ),
    ] = None,
    fault_labels: Annotated[
        Switch,
        typer.Option(
            help="Tell read from write faults where do_read_fault is inlined; "
            "auto: unless matching debuginfo does it better."
        ),
    ] = Switch.AUTO,
    user_stacks: Annotated[
        bool, typer.Option("--user-stacks", help="Also record user stacks (frame pointers).")
    ] = False,
    max_stacks: Annotated[
        int, typer.Option(help="Distinct stacks that the kernel side can hold.")
    ] = 16384,
    as_root: Annotated[
        bool, typer.Option("--as-root", help="Under sudo, run the command as root all the same.")
    ] = False,
    strict: Annotated[
        bool, typer.Option("--strict", help="Exit with 5 if the recording is degraded.")
    ] = False,
    check_overhead: Annotated[
        bool,
        typer.Option(
            "--check-overhead",
            help="Record nothing; run the command without and with the probes, in turn, and say "
            "what they change.",
        ),
    ] = False,
    repeat: Annotated[
        int,
        typer.Option(metavar="N", min=1, help="With --check-overhead: runs each way."),
    ] = 5,
    metric: Annotated[
        str,
        typer.Option(
            metavar="M", help="With --check-overhead: wall, user, sys, usemem, or a REGEX."
        ),
    ] = "wall",
    quiet: Annotated[bool, typer.Option("-q", "--quiet", help="Say nothing but errors.")] = False,
) -> None:
    """Run a command (or watch a process) and record where its page faults spend their time.

    Examples:
      faultprof record -- usemem -t 4 1g

      faultprof record -p 4711 --duration 10 -o busy.fprof

      faultprof record -a --duration 5

      faultprof record --mode trace --preset read -- usemem --readonly -f /dev/shm/file 1g

      faultprof record --check-overhead -- usemem -t 4 1g
    """
    from faultprof.capture.options import RecordOptions
    from faultprof.capture.session import Session

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
        presets=tuple(preset or (() if function else ("all",))),
        functions=tuple(function or ()),
        attach=attach.value,
        off_cpu=off_cpu,
        calibrate=calibrate,
        as_root=as_root,
        strict=strict,
    )
    _check_scope(options.command, pid, everything, duration)
    say = _silent if quiet else _to_stderr
    if check_overhead:
        from faultprof.cli.overhead import print_overhead

        print_overhead(options, repeat, metric, say)
        return
    raise typer.Exit(Session(options, say).run())


def _check_scope(
    command: tuple[str, ...], pid: int | None, everything: bool, duration: float | None
) -> None:
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


def _to_stderr(line: str) -> None:
    print(f"faultprof: {line}", file=sys.stderr)


def _silent(_line: str) -> None:
    pass
