"""Times and counts for people: three significant digits, and a unit.

Knows: how many digits and which unit.
Leaves to others: columns (``trace_text``); for programs, there are plain nanoseconds (``json``).
"""

from __future__ import annotations

from faultprof.render.terminal import Glyphs

NOTHING = "-"  # what is not known, or not there

_UNITS = (("s", 10**9), ("ms", 10**6), ("us", 10**3), ("ns", 1))
_UNIT_WIDTH = 2


def duration(ns: float | None, glyphs: Glyphs) -> str:
    """Return ``1.23 ms``; whole nanoseconds below 1000 as they are; ``-`` for None.

    The unit fills two columns, so that numbers stand in line when the texts end in line.
    """
    if ns is None:
        return NOTHING
    # 999.5 and more would have four digits.
    unit, size = next((one for one in _UNITS if ns >= 0.9995 * one[1]), _UNITS[-1])
    number = str(ns) if size == 1 and isinstance(ns, int) else three_digits(ns / size)
    return f"{number} {unit.replace('u', glyphs.micro):>{_UNIT_WIDTH}}"


def prose(ns: float | None, glyphs: Glyphs) -> str:
    """Return the same for use in a sentence."""
    return " ".join(duration(ns, glyphs).split())


def three_digits(number: float) -> str:
    """Return a number (0 or more) with three significant digits, larger ones whole."""
    if number >= 999.5:
        return f"{number:,.0f}"
    if number == 0:
        return "0"
    if number < 0.9995:
        return f"{number:#.3g}"
    decimals = 2 if number < 9.995 else 1 if number < 99.95 else 0
    return f"{number:.{decimals}f}"
