"""What the doctor says: checks, the modes that follow from them, and the whole diagnosis.

Knows: the words of a finding and how it is written as JSON. Pure data, so that ``render`` may
import it.
Leaves to others: finding out (``kernel``, ``bpf``) and printing (``render``).

``faultprof doctor --json`` is one object. ``checks``: for each ``name``, ``state`` (``ok``,
``limited``, ``missing``, ``unknown``), ``found``, ``cost`` and ``remedy``; ``modes``: for each
``name``, whether it ``works``, ``why`` and the ``remedy``; ``kernel`` (``release``, ``build_id``,
``machine``, ``distribution``; null: not known).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal

State = Literal["ok", "limited", "missing", "unknown"]

SAMPLE = "sample"


@dataclass(frozen=True, slots=True)
class Check:
    """One thing that a machine offers or not.

    Args:
        name: the thing, in the field's words.
        state: ``ok``; ``limited``: there, but less than it could be; ``missing``; ``unknown``: it
            could not be tried.
        found: what was seen.
        cost: what the user goes without; empty when nothing.
        remedy: how to get it, a command where there is one; empty when nothing is to be done.
    """

    name: str
    state: State
    found: str
    cost: str = ""
    remedy: str = ""


@dataclass(frozen=True, slots=True)
class Mode:
    """One way of using faultprof: whether it works on this machine, and why."""

    name: str
    works: bool
    why: str
    remedy: str = ""


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """All checks, the modes that work, and which kernel this is about."""

    checks: tuple[Check, ...]
    modes: tuple[Mode, ...]
    kernel: Mapping[str, str | None]

    def check(self, name: str) -> Check:
        """Return the check of that name; KeyError when there is none."""
        return {check.name: check for check in self.checks}[name]

    def mode(self, name: str) -> Mode:
        """Return the mode of that name; KeyError when there is none."""
        return {mode.name: mode for mode in self.modes}[name]

    def to_json(self) -> dict[str, Any]:
        """Return plain data with the keys ``checks``, ``modes`` and ``kernel``."""
        return {
            "checks": [asdict(check) for check in self.checks],
            "modes": [asdict(mode) for mode in self.modes],
            "kernel": dict(self.kernel),
        }
