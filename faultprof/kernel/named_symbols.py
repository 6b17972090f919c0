"""The symbols of a few named functions, found quickly among all in /proc/kallsyms.

Knows: the file's lines, which symbols are a function or a variant of it, which names stand twice.
Leaves to others: names for addresses (``kallsyms``), what a symbol is good for (``resolve``).

Addresses may be hidden from the user (all 0): then names can still be told.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

from faultprof.errors import unsupported
from faultprof.kernel.kallsyms import KALLSYMS, Folded, fold

_TYPE_AT, _NAME_AT = 17, 19  # "ffffffff81000000 t do_fault\t[module]"
_DIGITS = 16
_TEXT = frozenset((b"t", b"T", b"w", b"W"))
_KEY_LENGTH = 8  # characters of a name by which lines are preselected
_NEIGHBOURS = 16


class FunctionSymbol(NamedTuple):
    """A function's symbol: its name as the kernel gives it, address (0: hidden), and module."""

    name: str
    address: int
    module: str = ""

    @property
    def folded(self) -> Folded:
        """The name taken apart."""
        return fold(self.name)


class Place(NamedTuple):
    """Where a probe goes: so many bytes behind a symbol that no other function shares."""

    symbol: str
    offset: int = 0

    def __str__(self) -> str:
        return f"{self.symbol}+{self.offset:#x}" if self.offset else self.symbol


class NamedSymbols:
    """A kernel's symbols by name.

    Args:
        text: contents of /proc/kallsyms.
    """

    def __init__(self, text: bytes) -> None:
        self._lines = text.split(b"\n")

    @classmethod
    def read(cls, path: Path = KALLSYMS) -> NamedSymbols:
        """Read the running kernel's symbols: some 100 ms.

        Raises ``FaultprofError`` (exit code 3) when the kernel has no such file.
        """
        try:
            return cls(path.read_bytes())
        except OSError as error:
            raise unsupported(
                f"{path} cannot be read: {error.strerror}",
                "a kernel built with CONFIG_KALLSYMS is needed",
            ) from error

    def find(self, functions: Iterable[str]) -> dict[str, list[FunctionSymbol]]:
        """Return the symbols of each function and its variants, the plain name first.

        All names at once, in some 40 ms: each call looks at every line. A function without
        a symbol is not in the result; nor is padding (``__pfx_do_fault``).
        """
        wanted = {name.encode() for name in functions}
        length = min([_KEY_LENGTH, *map(len, wanted)])
        keys = {name[:length] for name in wanted}
        end = _NAME_AT + length
        found: dict[str, list[FunctionSymbol]] = {}
        for line in [line for line in self._lines if line[_NAME_AT:end] in keys]:
            symbol = _parsed(line)
            prefix, function, _ = symbol.folded if symbol else Folded("", "", "")
            if symbol and not prefix and function.encode() in wanted:
                found.setdefault(function, []).append(symbol)
        for symbols in found.values():
            symbols.sort()
        return found

    def place(self, address: int) -> Place | None:
        """Return the nearest symbol at or before ``address`` whose name stands only once.

        A probe at a name that stands twice is refused by the kernel (since 6.6) or goes to the
        first of them (before). None when there is no such symbol nearby, or addresses are hidden.
        """
        lines, counts = self._by_address
        end = bisect_right(lines, b"%016x~" % address)  # "~" is behind all that a line may have
        for line in reversed(lines[max(0, end - _NEIGHBOURS) : end]):
            symbol = _parsed(line)
            if symbol and symbol.address and not symbol.module and counts[_name(line)] == 1:
                return Place(symbol.name, address - symbol.address)
        return None

    @cached_property
    def _by_address(self) -> tuple[list[bytes], Counter[bytes]]:
        """The lines of functions in the order of addresses, and how often each name stands."""
        lines = sorted(line for line in self._lines if line[_TYPE_AT : _TYPE_AT + 1] in _TEXT)
        return lines, Counter(map(_name, lines))


def _name(line: bytes) -> bytes:
    return line[_NAME_AT:].partition(b"\t")[0]


def _parsed(line: bytes) -> FunctionSymbol | None:
    """Return the function's symbol in a line; None when it is none."""
    if line[_TYPE_AT : _TYPE_AT + 1] not in _TEXT:
        return None
    name, _, module = line[_NAME_AT:].decode("utf-8", "replace").partition("\t")
    return FunctionSymbol(name, int(line[:_DIGITS], 16), module.strip("[]"))
