"""The running kernel's symbols: /proc/kallsyms, read fast and searched by address or name.

Knows: the file's format, which of several names at one address to show, where a symbol ends,
which suffixes the compiler adds to a function's name.
Leaves to others: inlined functions (``inline_index``), frames (``symbols``).

The file is read between a command's end and the user's prompt, and making its 200,000 lines costs
the kernel some 50-100 ms already. So lines are found and addresses decoded all at once by numpy,
and a name is looked at only when its symbol is wanted.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from faultprof.errors import FaultprofError, unsupported

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

BPF = "bpf"  # the "module" of JIT-compiled BPF programs and of their trampolines

KALLSYMS = Path("/proc/kallsyms")
MODULES = Path("/proc/modules")

_ADDRESS_DIGITS = 16
_TYPE_AT = 17  # "ffffffff81000000 T _text\t[module]"
_NAME_AT = 19
_TEXT_TYPES = b"tTwW"
_ABSOLUTE_TYPES = b"aA"  # numbers, not places
_PAGE = 4096
_BPF_PROGRAM_MAX = 1 << 16  # bytes of JIT code that the last of neighbouring programs may have
_ADDRESS_MAX = (1 << 64) - 1

# What GCC and clang append to a function's name when they make a variant of it.
_SUFFIX = re.compile(
    r"(?:\.(?:isra|part|constprop|cold|llvm|lto_priv|localalias|__uniq|clone)(?:\.[0-9]+)*)+$"
)
# The padding before a function (call depth tracking runs code in it) and its CFI preamble.
_PREFIX = re.compile(r"^(?:__pfx_|__cfi_)(?=.)")
# Symbols that the linker script puts at the edges of text: they name no function.
_MARKER = re.compile(
    r"^(?:__pi_)?(?:_text|_stext|_etext|_sinittext|_einittext|_sexittext|_eexittext"
    r"|__[a-z_]*text_(?:start|end)|__init_begin|__init_end|__exittext_begin|__exittext_end)$"
)


class Folded(NamedTuple):
    """A symbol's name taken apart: ``__pfx_`` or "", function, and ``.isra.0`` or ""."""

    prefix: str
    function: str
    suffix: str

    @property
    def variant(self) -> str:
        """What makes the symbol a variant of the function; "" when it is the function itself."""
        return self.prefix + self.suffix


def fold(name: str) -> Folded:
    """Take a symbol's name apart into the function and what marks a variant of it."""
    suffix = _SUFFIX.search(name) if "." in name else None
    # A suffix alone is no variant of anything.
    end = suffix.start() if suffix and suffix.start() > 0 else len(name)
    prefix = _PREFIX.match(name, 0, end)
    begin = prefix.end() if prefix else 0
    return Folded(name[:begin], name[begin:end], name[end:])


@dataclass(frozen=True, slots=True)
class Symbol:
    """One function's symbol.

    Attributes:
        name: as the kernel gives it.
        address: of its first byte.
        end: one behind the last byte that can be part of it.
        module: "" for the kernel proper; ``bpf`` and ``__builtin__ftrace`` are no modules, but
            are named like them.
        kind: ``T`` global, ``t`` local, ``W`` or ``w`` weak.
    """

    name: str
    address: int
    end: int
    module: str
    kind: str

    @property
    def folded(self) -> Folded:
        """The name taken apart; that of a BPF program is its author's and stays whole."""
        return Folded("", self.name, "") if self.module == BPF else fold(self.name)


class Kallsyms:
    """A kernel's symbols at one moment.

    Args:
        text: contents of /proc/kallsyms.
        modules: contents of /proc/modules; "" on a kernel without modules.

    Raises ``FaultprofError`` (exit code 3) when the kernel hides the addresses.
    """

    def __init__(self, text: bytes, modules: str = "") -> None:
        import numpy as np

        self._text = text
        self._modules = _module_ranges(modules)
        self._known: dict[int, Symbol | None] = {}
        starts = _line_starts(text)
        addresses = _hexadecimal(text, starts)
        kinds = np.frombuffer(text, np.uint8)[starts + _TYPE_AT]
        is_text = np.isin(kinds, np.frombuffer(_TEXT_TYPES, np.uint8))
        if not addresses[is_text].any():
            raise _no_addresses()
        kept = ~np.isin(kinds, np.frombuffer(_ABSOLUTE_TYPES, np.uint8))
        order = np.flatnonzero(kept)
        if np.any(addresses[order][1:] < addresses[order][:-1]):  # modules come in any order
            order = order[np.argsort(addresses[order], kind="stable")]
        self._addresses = addresses[order]
        self._starts = starts[order]
        self._is_text = is_text[order]

    @classmethod
    def read(cls, path: Path = KALLSYMS, modules: Path = MODULES) -> Kallsyms:
        """Read the running kernel's symbols: some 100 ms."""
        try:
            with path.open("rb", buffering=0) as file:
                text = file.read()
        except OSError as error:
            raise unsupported(
                f"{path} cannot be read: {error.strerror}",
                "a kernel built with CONFIG_KALLSYMS is needed",
            ) from error
        return cls(text, modules.read_text() if modules.exists() else "")

    def lookup(self, addresses: NDArray[np.uint64]) -> list[Symbol | None]:
        """Return the symbol of the function at each address; None where there is none.

        None between functions' text and what follows it, outside of modules, and where only data
        or a mark of the linker script stands. Shape (n,) in, length n out.
        """
        import numpy as np

        places = np.searchsorted(self._addresses, addresses, side="right") - 1
        self._learn(np.unique(places))
        symbols = [self._known[place] for place in places.tolist()]
        return [
            symbol if symbol is not None and address < symbol.end else None
            for symbol, address in zip(symbols, addresses.tolist(), strict=True)
        ]

    def find(self, function: str) -> list[Symbol]:
        """Return the symbols of a function and of its variants, itself before its variants.

        ``find("do_fault")`` also finds ``do_fault.isra.0``, but not ``__pfx_do_fault``.
        """
        found = []
        for start in self._lines_with(function):
            name = self._name(start)[0]
            if fold(name)[:2] == ("", function) and self._text[start + _TYPE_AT] in _TEXT_TYPES:
                address = int(self._text[start : start + _ADDRESS_DIGITS], 16)
                found.append(self._symbol(start, address, self._next_address(address)))
        return sorted(found, key=lambda symbol: (symbol.name, symbol.address))

    def _lines_with(self, function: str) -> Iterator[int]:
        """Yield the starts of lines whose symbol's name begins with ``function``."""
        wanted = b" " + function.encode()
        at = self._text.find(wanted)
        while at >= 0:
            start = at + 1 - _NAME_AT
            if start == 0 or (start > 0 and self._text[start - 1] == ord("\n")):
                yield start
            at = self._text.find(wanted, at + 1)

    def _learn(self, places: NDArray[np.int64]) -> None:
        """Find the best symbol at each of some places (indices in address order, -1: before)."""
        import numpy as np

        self._known.setdefault(-1, None)
        new = places[[place not in self._known for place in places.tolist()]]
        addresses = self._addresses[new]
        firsts = np.searchsorted(self._addresses, addresses)
        bounds = np.append(self._addresses, np.uint64(_ADDRESS_MAX))
        nexts = bounds[np.searchsorted(self._addresses, addresses, side="right")]
        columns = (new, firsts, addresses, nexts)
        rows = zip(*(column.tolist() for column in columns), strict=True)
        for place, first, address, following in rows:
            starts = [int(self._starts[at]) for at in range(first, place + 1) if self._is_text[at]]
            symbols = [self._symbol(start, address, following) for start in starts]
            best = min(symbols, key=_rank) if len(symbols) > 1 else next(iter(symbols), None)
            self._known[place] = None if best is None or _MARKER.match(best.name) else best

    def _symbol(self, start: int, address: int, following: int) -> Symbol:
        name, module = self._name(start)
        end = min(following, self._limit(name, module, address)) if module else following
        return Symbol(name, address, end, module, chr(self._text[start + _TYPE_AT]))

    def _name(self, start: int) -> tuple[str, str]:
        """Return the name and module in the line at ``start``."""
        line = self._text[start + _NAME_AT : self._text.index(b"\n", start)]
        name, _, module = line.decode("utf-8", "replace").partition("\t")
        return name, module.removeprefix("[").removesuffix("]")

    def _next_address(self, address: int) -> int:
        import numpy as np

        place = int(np.searchsorted(self._addresses, np.uint64(address), side="right"))
        return int(self._addresses[place]) if place < self._addresses.size else _ADDRESS_MAX

    def _limit(self, name: str, module: str, address: int) -> int:
        """Return where a function must have ended, whatever symbol comes next.

        The last function of a module would else reach to the next module, over text of modules
        that are no longer loaded.
        """
        start, end = self._modules.get(module, (0, 0))
        if start <= address < end:
            return end
        if name.startswith("bpf_prog_"):
            return address + _BPF_PROGRAM_MAX
        return (address // _PAGE + 1) * _PAGE  # trampolines and a module's init text


def _rank(symbol: Symbol) -> tuple[bool, bool, bool, bool, bool, int, int, str]:
    """Return the order of preference among symbols at one address; the least is shown.

    A function before a mark of the linker script and before padding; the function itself before
    a variant, a hot one before a cold one; global before local, as the global name is the one
    that other files call; the plain name before ``__`` and ``__pi_`` aliases of it (``memcpy``,
    ``__memcpy``); the shorter (``__x64_sys_sync``, ``__ia32_sys_sync``). Functions that the
    compiler merged because their code is the same cannot be told apart: by alphabet, so that
    two recordings agree.
    """
    name = symbol.name
    prefix, function, suffix = fold(name)
    underscores = len(function) - len(function.lstrip("_"))
    is_marker = _MARKER.match(name) is not None
    is_cold, is_local = ".cold" in suffix, symbol.kind == "t"
    variant = bool(suffix)
    return is_marker, bool(prefix), is_cold, variant, is_local, underscores, len(name), name


def _line_starts(text: bytes) -> NDArray[np.int64]:
    """Return where the lines with a symbol begin; a last line without its end is left out."""
    import numpy as np

    characters = np.frombuffer(text, np.uint8)
    ends = np.flatnonzero(characters == ord("\n"))
    starts = np.concatenate(([0], ends[:-1] + 1))[: ends.size]
    starts = starts[ends - starts > _NAME_AT]
    spaces = characters[starts + _ADDRESS_DIGITS], characters[starts + _TYPE_AT + 1]
    well_formed: NDArray[np.int64] = starts[(spaces[0] == ord(" ")) & (spaces[1] == ord(" "))]
    return well_formed


def _hexadecimal(text: bytes, starts: NDArray[np.int64]) -> NDArray[np.uint64]:
    """Return the numbers of 16 lower-case hexadecimal digits at ``starts``.

    Eight digits are decoded at once within a 64-bit word: the value of each digit in its byte,
    then neighbours joined into pairs, fours, and all eight; the first digit is in the low byte.
    """
    import numpy as np

    if not starts.size:
        return np.empty(0, np.uint64)
    words = np.ndarray((len(text) - 7,), np.dtype("<u8"), text, strides=(1,))
    halves = []
    for at in (0, 8):
        word = words[starts + at]
        word = (word & 0x0F0F0F0F0F0F0F0F) + 9 * ((word >> 6) & 0x0101010101010101)
        word = ((word << 4) | (word >> 8)) & 0x00FF00FF00FF00FF
        word = ((word << 8) | (word >> 16)) & 0x0000FFFF0000FFFF
        halves.append(((word << 16) | (word >> 32)) & 0xFFFFFFFF)
    return ((halves[0] << 32) | halves[1]).astype(np.uint64)


def _module_ranges(modules: str) -> dict[str, tuple[int, int]]:
    """Return the address ranges of modules from /proc/modules.

    The size there is that of all of a module's memory, so that the end is an upper bound of its
    text's end.
    """
    ranges = {}
    for line in modules.splitlines():
        fields = line.split()
        if len(fields) >= 6 and fields[5].startswith("0x"):
            start = int(fields[5], 16)
            ranges[fields[0]] = (start, start + int(fields[1]))
    return ranges


def _no_addresses() -> FaultprofError:
    return unsupported(
        "the kernel hides the addresses of its symbols (kptr_restrict)",
        "run as root with: sysctl kernel.kptr_restrict=1",
    )
