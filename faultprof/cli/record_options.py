"""The options that every recording command has: what they are called, and what they become.

Knows: how to say how something is recorded.
Leaves to others: what is recorded (``record``, ``ab``), and what the options do (``capture``).
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from faultprof.cli import notices

if TYPE_CHECKING:
    from faultprof.capture.session import ReadOutput


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


FrequencyOption = Annotated[
    int | None,
    typer.Option(
        "-F", "--frequency", help="Samples a second and CPU.  [default: 999; 99 beside a trace]"
    ),
]
ClockOption = Annotated[
    Clock, typer.Option(help="What drives the sampler; auto: cycles where there is a PMU.")
]
ModeOption = Annotated[
    Mode,
    typer.Option(
        help="sample: stacks on a timer; trace: exact calls and times by probes, and samples "
        "beside them; auto: trace where this machine can."
    ),
]
PresetOption = Annotated[
    list[str] | None,
    typer.Option(
        metavar="NAME",
        help="What to trace (repeatable); see 'faultprof functions'.  [default: read, anon, cow]",
    ),
]
FunctionOption = Annotated[
    list[str] | None,
    typer.Option(
        "-f", "--function", metavar="FN", help="Trace this function or glob too (repeatable)."
    ),
]
AttachOption = Annotated[
    Attach, typer.Option(help="How to trace; auto: fentry where it goes, else kprobe.")
]
OffCpuOption = Annotated[
    bool,
    typer.Option(help="While tracing, tell time not running (sched_switch) from time running."),
]
CalibrateOption = Annotated[
    bool,
    typer.Option(
        help="Take what probes cost out of traced times; it is measured once, where that takes "
        "5 s at the most, else by 'faultprof calibrate'."
    ),
]
CheckOverheadOption = Annotated[
    bool,
    typer.Option(
        "--check-overhead",
        help="Record nothing: run the command without and with the probes, in turn, and say what "
        "they change; --repeat times each way (5 by default), --metric may be wall, user, sys, "
        "usemem, or a REGEX.",
    ),
]
FaultLabelsOption = Annotated[
    Switch,
    typer.Option(
        help="Tell read from write faults where do_read_fault is inlined; "
        "auto: unless matching debuginfo does it better."
    ),
]
UserStacksOption = Annotated[
    bool, typer.Option("--user-stacks", help="Also record user stacks (frame pointers).")
]
MaxStacksOption = Annotated[
    int, typer.Option(help="Distinct stacks that the kernel side can hold.")
]
ContentionOption = Annotated[
    bool,
    typer.Option(
        "--contention",
        help="Also record what the tasks fight over: all of the following that this machine can; "
        "see 'faultprof contention'. What is asked for by its own name must work.",
    ),
]
OccupancyOption = Annotated[
    bool,
    typer.Option(
        "--occupancy", help="How many CPUs are inside each traced function at the same moment."
    ),
]
LocksOption = Annotated[
    bool, typer.Option("--locks", help="Waits for kernel locks, by lock and by who waits.")
]
FolioOption = Annotated[
    bool, typer.Option("--folio", help="Waits for folio locks, by file and page; wake-ups.")
]
YieldOption = Annotated[
    bool, typer.Option("--yield", help="How much of fault-around's work is of use.")
]
OutcomesOption = Annotated[
    bool, typer.Option("--outcomes", help="Faults by kind, by lock, and how long each takes.")
]
OrderOption = Annotated[
    bool, typer.Option("--order", help="Clears and copies of huge pages: speed, and which way.")
]
MetricOption = Annotated[
    list[str] | None,
    typer.Option(
        metavar="NAME=REGEX",
        help="Find a number in the command's output: what the first group matches, at its last "
        "match (repeatable). usemem's report is found without that.",
    ),
]
AsRootOption = Annotated[
    bool, typer.Option("--as-root", help="Under sudo, run the command as root all the same.")
]
StrictOption = Annotated[
    bool, typer.Option("--strict", help="Exit with 5 if the recording is degraded.")
]
QuietOption = Annotated[bool, typer.Option("-q", "--quiet", help="Say nothing but errors.")]


def parts(**asked: bool) -> tuple[str, ...]:
    """Return the parts of contention that were asked for by name."""
    return tuple(name.rstrip("_") for name, wanted in asked.items() if wanted)


def metrics_reader(commands: Sequence[Sequence[str]], metrics: Sequence[str]) -> ReadOutput | None:
    """Return what finds metrics in the commands' output; None if none is to be looked for.

    Raises:
        FaultprofError: exit code 2, for a metric that cannot be understood.
    """
    from faultprof.analysis.metrics import UserMetric, prints_usemem_report, read_output

    user = [UserMetric.parse(text) for text in metrics]
    if not user and not any(prints_usemem_report(command) for command in commands):
        return None
    return lambda output: read_output(output, user)


def speaker(quiet: bool) -> Callable[[str], None]:
    """Return what is to be done with lines for the user's terminal."""
    return _silent if quiet or notices.quiet else _to_stderr


def _to_stderr(line: str) -> None:
    print(f"faultprof: {line}", file=sys.stderr)


def _silent(_line: str) -> None:
    pass
