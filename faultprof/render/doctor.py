"""The doctor's findings as text: a line for each check, what it costs, how to get it.

Knows: the layout, the colours of the states.
Leaves to others: the findings (``capture.doctor``), whether colour is wanted (``terminal``).
"""

from __future__ import annotations

import textwrap

from faultprof.kernel.checks import Check, Diagnosis, Mode
from faultprof.render.terminal import PIPE_WIDTH, sanitise

_MARGIN = "  "
_STATE_WIDTH = len("limited")
_COLOUR = {"ok": "32", "limited": "33", "missing": "31", "unknown": "36", "yes": "32", "no": "31"}


def doctor_lines(diagnosis: Diagnosis, *, colour: bool = False) -> list[str]:
    """Return the diagnosis as lines of at most 80 columns; a longer single word is not cut."""
    kernel = diagnosis.kernel
    checks = diagnosis.checks
    name_width = max(len(check.name) for check in checks)
    mode_width = max(len(mode.name) for mode in diagnosis.modes)
    return [
        f"Linux {kernel['release']} {kernel['machine']}, {sanitise(str(kernel['distribution']))}",
        f"build id {kernel['build_id'] or 'not shown'}",
        "",
        *(line for check in checks for line in _check_lines(check, name_width, colour)),
        "",
        "What works here:",
        *(line for mode in diagnosis.modes for line in _mode_lines(mode, mode_width, colour)),
    ]


def _check_lines(check: Check, name_width: int, colour: bool) -> list[str]:
    state = _painted(check.state, _STATE_WIDTH, colour)
    head = f"{_MARGIN}{state}  {check.name:<{name_width}}  "
    indent = len(_MARGIN) + _STATE_WIDTH + 2
    lines = _hanging(head, indent + name_width + 2, check.found)
    for label, text in (("cost:", check.cost), ("to do:", check.remedy)):
        if text:
            lines += _hanging(f"{'':{indent}}{label:<7}", indent + 7, text)
    return lines


def _mode_lines(mode: Mode, name_width: int, colour: bool) -> list[str]:
    word = _painted("yes" if mode.works else "no", 3, colour)
    head = f"{_MARGIN}{word}  {mode.name:<{name_width}}  "
    return _hanging(head, len(_MARGIN) + 3 + 2 + name_width + 2, mode.why)


def _hanging(head: str, indent: int, text: str) -> list[str]:
    """Wrap ``text`` behind ``head``; ``indent`` is the head's width as shown, without colours."""
    wrapped = textwrap.wrap(
        sanitise(text), PIPE_WIDTH - indent, break_long_words=False, break_on_hyphens=False
    ) or [""]
    return [head + wrapped[0], *(" " * indent + line for line in wrapped[1:])]


def _painted(word: str, width: int, colour: bool) -> str:
    padded = f"{word:<{width}}"
    return f"\x1b[{_COLOUR[word]}m{padded}\x1b[0m" if colour else padded
