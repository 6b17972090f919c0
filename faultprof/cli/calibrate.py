"""``faultprof calibrate``: measure what probes cost here, keep it, print it."""

from __future__ import annotations

import json
import os
import sys
from typing import Annotated

import typer

from faultprof.errors import FaultprofError


def calibrate(
    threads: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            help="Measure with this many threads at once too, each on a CPU of its own.",
        ),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print everything as JSON.")] = False,
) -> None:
    """Measure what each kind of probe costs on this machine.

    The tracer's own programs are hit in a loop inside the kernel, without and with them. The
    result is kept for this kernel, this model of CPU and this version of faultprof: recordings of
    traced calls are compensated by it.

    Examples:
      faultprof calibrate

      faultprof calibrate --threads 4 --json
    """
    from faultprof.bpf.janitor import Janitor
    from faultprof.capture.calibration import calibrate as measure
    from faultprof.capture.calibration_store import store
    from faultprof.capture.identity import invoking_user
    from faultprof.kernel.privileges import require_privileges
    from faultprof.render.calibration import calibration_lines
    from faultprof.render.terminal import Terminal, write_lines

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
        found = measure(threads=sorted({1, threads or 1}), owner=owner, say=_progress)
    finally:
        janitor.dismiss()
    kept = store(found, owner)
    lines = (
        iter([json.dumps(found.to_json(), indent=1)])
        if as_json
        else calibration_lines(found, Terminal.of(sys.stdout))
    )
    write_lines(sys.stdout, lines)
    if not kept:
        print("faultprof: the calibration could not be kept: no writable cache", file=sys.stderr)


def _progress(line: str) -> None:
    """Say on a terminal what goes on: under emulation it takes a minute."""
    if sys.stderr.isatty():
        print(f"faultprof: {line}", file=sys.stderr)
