"""Sizes as users type them: digits and one of k, m, g, t (powers of 1024), as in usemem.

Knows: the notation. Leaves to others: what a size is used for.
"""

from __future__ import annotations

import re

from faultprof.errors import FaultprofError

_UNITS = "kmgt"
_SIZE = re.compile(rf"([0-9]+)([{_UNITS}]?)", re.IGNORECASE | re.ASCII)
LARGEST = 2**63 - 1


def parse_size(text: str) -> int:
    """Return the bytes that ``text`` (``4096``, ``64m``, ``1G``) stands for.

    Raises:
        FaultprofError: exit code 2, when it is not a size, zero, or beyond 2**63 - 1.
    """
    match = _SIZE.fullmatch(text)
    if match is None:
        raise FaultprofError(
            f"not a size: '{text}'", "give digits and one of k, m, g, t: 4096, 256m, 1g"
        )
    digits, unit = match.groups()
    size = int(digits) << 10 * (_UNITS.index(unit.lower()) + 1 if unit else 0)
    if not 0 < size <= LARGEST:
        raise FaultprofError(f"size out of range: '{text}'", "give a size such as 256m or 1g")
    return size


def format_size(size: int) -> str:
    """Return ``size`` (bytes) in the largest unit that keeps it whole: 268435456 is ``256m``."""
    for power in range(len(_UNITS), 0, -1):
        if size and size % (1 << 10 * power) == 0:
            return f"{size >> 10 * power}{_UNITS[power - 1]}"
    return str(size)
