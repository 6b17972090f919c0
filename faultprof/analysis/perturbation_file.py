"""What ``faultprof perturb --json`` has printed, read back for plots and pages.

Knows: what stands in such a file besides the result.
Leaves to others: the result (``perturbation``), drawing it (``render``).
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, NamedTuple

from faultprof.analysis.perturbation import Perturbation, perturbation_from_json
from faultprof.errors import ExitCode, FaultprofError

_HOW = "make one with: faultprof perturb --json ... > FILE"


class SavedPerturbation(NamedTuple):
    """A perturbation: what was delayed in which command, and what came of it."""

    delayed: str
    command: str
    found: Perturbation


def read_perturbation(path: Path) -> SavedPerturbation:
    """Read a file.

    Raises:
        FaultprofError: exit code 2, when it cannot be read; exit code 4, when it is something
            else.
    """
    try:
        data: Any = json.loads(path.read_text("utf-8"))
        return SavedPerturbation(
            str(data["delayed"]), str(data["command"]), perturbation_from_json(data)
        )
    except OSError as error:
        raise FaultprofError(f"cannot read {path}: {error.strerror}", _HOW) from error
    except (KeyError, TypeError, ValueError, AttributeError, RecursionError) as error:
        raise FaultprofError(
            f"{path} is not what perturb --json prints", _HOW, ExitCode.BAD_RECORDING
        ) from error
