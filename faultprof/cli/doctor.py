"""``faultprof doctor``: what this machine offers, and which modes work on it."""

from __future__ import annotations

import json
import sys
from typing import Annotated

import typer

from faultprof.errors import unsupported


def doctor(
    as_json: Annotated[
        bool, typer.Option("--json", help="Print the findings as JSON, for other programs.")
    ] = False,
) -> None:
    """Try what this machine offers, say what it lacks, what that costs and how to get it.

    Nothing is changed and nothing stays attached. Exits with 0 if sampling works here, else 3.

    Examples:
      faultprof doctor

      faultprof doctor --json > machine.json
    """
    from faultprof.capture.doctor import diagnose
    from faultprof.kernel.checks import SAMPLE
    from faultprof.render.doctor import doctor_lines
    from faultprof.render.terminal import Terminal, write_lines

    diagnosis = diagnose()
    if as_json:
        print(json.dumps(diagnosis.to_json(), indent=2))
    else:
        colour = Terminal.of(sys.stdout).colour
        write_lines(sys.stdout, doctor_lines(diagnosis, colour=colour))
    sampling = diagnosis.mode(SAMPLE)
    if not sampling.works:
        raise unsupported(f"sampling does not work here: {sampling.why}", sampling.remedy)
