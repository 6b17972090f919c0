"""The kernel's variables by address, from /proc/kallsyms.

Knows: which symbols are data, and where the kernel's image lies.
Leaves to others: functions (``kallsyms``), what is at an address.

Only kernels built with CONFIG_KALLSYMS_ALL, as distributions' are, list their data. A name says
where in a variable an address is; addresses themselves must not leave this process.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path

from faultprof.kernel.kallsyms import KALLSYMS

_TYPE_AT, _NAME_AT, _DIGITS = 17, 19, 16
_DATA = frozenset((b"d", b"D", b"b", b"B", b"r", b"R", b"v", b"V"))
_FIRST, _END = b" _stext", b" _end"


class Variables:
    """A kernel's variables.

    Args:
        text: contents of /proc/kallsyms.
    """

    def __init__(self, text: bytes) -> None:
        self._text = text

    @classmethod
    def read(cls, path: Path = KALLSYMS) -> Variables:
        """Read those of the running kernel: some 100 ms. None are known where it has no list."""
        try:
            return cls(path.read_bytes())
        except OSError:
            return cls(b"")

    @property
    def image(self) -> tuple[int, int] | None:
        """Where the kernel's image begins and ends; None where its data are not listed."""
        start, end = self._address_of(_FIRST), self._address_of(_END)
        return (start, end) if start and end else None

    def name(self, address: int) -> str | None:
        """Return the variable at an address, such as ``tasklist_lock`` or ``table+0x40``."""
        place = bisect_right(self._sorted, address, key=lambda one: one[0]) - 1
        if place < 0:
            return None
        start, name = self._sorted[place]
        return name if start == address else f"{name}+{address - start:#x}"

    @cached_property
    def _sorted(self) -> list[tuple[int, str]]:
        return sorted(self._data())

    def _data(self) -> Iterator[tuple[int, str]]:
        for line in self._text.split(b"\n"):
            if line[_TYPE_AT : _TYPE_AT + 1] in _DATA:
                name, _, module = line[_NAME_AT:].partition(b"\t")
                if not module:
                    yield int(line[:_DIGITS], 16), name.decode("ascii", "replace")

    def _address_of(self, name: bytes) -> int:
        at = self._text.find(name + b"\n")
        start = self._text.rfind(b"\n", 0, at) + 1
        return int(self._text[start : start + _DIGITS], 16) if at >= 0 else 0
