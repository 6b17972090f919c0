"""``faultprof calibrate``: measure what probes cost here, keep it, print it.

``calibrate --json`` is one object, which recordings hold too: ``tool_version``, ``created``,
``kernel`` (``release``, ``build_id``, ``machine``), ``cpu`` (``model``, ``count``), ``missing`` (by
kind of probe, why it was not measured) and ``probes``: for each ``kind``, ``threads`` (at once),
``repeats``, ``total_ns``, ``inside_ns`` and ``outside_ns`` (of a pair of probes: all, and what lies
in and outside of the function's own time; each ``value``, ``low``, ``high``), ``in_place_ns`` (all
of a pair on the fault path, likewise), and ``parts_ns`` (``entry_to_clock``, ``clock_to_body``,
``body_to_clock``, ``clock_to_return``).
"""

from __future__ import annotations

import json
import os
import sys
from typing import TYPE_CHECKING, Annotated

import typer

from faultprof.errors import FaultprofError

if TYPE_CHECKING:
    from faultprof.recording.calibration import Calibration


def calibrate(
    command: Annotated[
        list[str] | None,
        typer.Argument(metavar="[--] [COMMAND [ARG]...]", help="What --verify runs."),
    ] = None,
    threads: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            help="Measure with this many threads at once too, each on a CPU of its own.",
        ),
    ] = None,
    verify: Annotated[
        bool,
        typer.Option(
            "--verify",
            help="Run COMMAND without probes and under probes that are made to cost 1, 2 and 4 "
            "times what they do, and say whether the line through these leads back to it.",
        ),
    ] = False,
    repeat: Annotated[int, typer.Option(metavar="N", min=2, help="Runs of COMMAND, each way.")] = 5,
    metric: Annotated[
        str,
        typer.Option(
            metavar="M", help="What --verify looks at: wall, user, sys, usemem, or a REGEX."
        ),
    ] = "wall",
    as_json: Annotated[bool, typer.Option("--json", help="Print everything as JSON.")] = False,
) -> None:
    """Measure what each kind of probe costs on this machine.

    The tracer's own programs are hit in a loop inside the kernel, without and with them. The
    result is kept for this kernel, this model of CPU and this version of faultprof: recordings of
    traced calls are compensated by it.

    Examples:
      faultprof calibrate

      faultprof calibrate --threads 4 --json

      faultprof calibrate --verify -- usemem -t 4 1g
    """
    from faultprof.capture.calibration_store import stored
    from faultprof.capture.identity import invoking_user

    if verify != bool(command):
        raise FaultprofError(
            "--verify and a COMMAND belong together", "faultprof calibrate --verify -- COMMAND"
        )
    if command:
        from faultprof.cli.verify import print_verification

        user = invoking_user(os.environ)
        found = stored(user.owner if user else None) or _measure(threads, beside=False)
        print_verification(
            command, found, metric=metric, repeat=repeat, as_json=as_json, say=_progress
        )
        return
    _print(_measure(threads), as_json)


def _measure(threads: int | None, *, beside: bool = True) -> Calibration:
    """Measure, and keep what was found; ``beside`` what is no pair of probes too."""
    from faultprof.bpf.janitor import Janitor
    from faultprof.capture.calibration import calibrate as measure
    from faultprof.capture.calibration_store import store
    from faultprof.capture.identity import invoking_user
    from faultprof.kernel.privileges import require_privileges

    most = len(os.sched_getaffinity(0))
    if threads is not None and not 1 <= threads <= most:
        raise FaultprofError(
            f"{threads} threads cannot have a CPU each", f"give --threads 1 to {most}"
        )
    require_privileges()
    user = invoking_user(os.environ)
    owner = user.owner if user else None
    janitor = Janitor()
    try:
        counts = sorted({1, threads or 1})
        found = measure(threads=counts, beside=beside, owner=owner, say=_progress)
    finally:
        janitor.dismiss()
    if not store(found, owner):
        print("faultprof: the calibration could not be kept: no writable cache", file=sys.stderr)
    return found


def _print(found: Calibration, as_json: bool) -> None:
    from faultprof.render.calibration import calibration_lines
    from faultprof.render.terminal import Terminal, write_lines

    lines = (
        iter([json.dumps(found.to_json(), indent=1)])
        if as_json
        else calibration_lines(found, Terminal.of(sys.stdout))
    )
    write_lines(sys.stdout, lines)


def _progress(line: str) -> None:
    """Say on a terminal what goes on: under emulation it takes a minute."""
    if sys.stderr.isatty():
        print(f"faultprof: {line}", file=sys.stderr)
