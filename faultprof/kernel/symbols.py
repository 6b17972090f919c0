"""From kernel addresses to frames: symbols of the running kernel, inlined functions with debuginfo.

Knows: that a return address belongs to the call before it, how KASLR shifts the debuginfo's
addresses, and what to say when something is missing.
Leaves to others: the symbol table (``kallsyms``), the debuginfo (``debuginfo``,
``inline_index``), stacks (``capture``).

Functions inlined in modules are not shown: the debuginfo of modules is not read.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from faultprof.errors import FaultprofError
from faultprof.kernel.build_id import kernel_build_id
from faultprof.kernel.debuginfo import Debuginfo, find_debuginfo
from faultprof.kernel.inline_index import InlineIndex
from faultprof.kernel.kallsyms import Kallsyms, Symbol
from faultprof.recording.frames import INLINED, SYMBOL, UNRESOLVED, Frame

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from faultprof.kernel.cache import Owner
    from faultprof.recording.ledger import Ledger

_COUNTERS = (
    "kernel_addresses",
    "unresolved_addresses",
    "module_addresses",
    "expanded_addresses",
)
UNKNOWN = Frame("[unknown]", resolution=UNRESOLVED)


class Symbolizer:
    """Names the addresses of a kernel.

    Args:
        owner: whose cache is used and who owns the files made there; None for the caller.
        kallsyms: symbols; None for those that the running kernel has now.
        debuginfo: where the debuginfo is; None to look for the running kernel's.

    Attributes:
        counters: distinct addresses asked for, by what could be said of them:
            ``kernel_addresses`` (all), ``unresolved_addresses`` (no symbol),
            ``module_addresses`` (the symbol at most, as modules' debuginfo is not used),
            ``expanded_addresses`` (inlined functions were added).
        notes: sentences for the ledger about the debuginfo.

    Raises ``FaultprofError`` (exit code 3) when the kernel hides its symbols' addresses.
    """

    def __init__(
        self,
        *,
        owner: Owner | None = None,
        kallsyms: Kallsyms | None = None,
        debuginfo: Debuginfo | None = None,
    ) -> None:
        self._kallsyms = kallsyms or Kallsyms.read()
        debuginfo = debuginfo or find_debuginfo(kernel_build_id())
        self.counters = dict.fromkeys(_COUNTERS, 0)
        self.notes = debuginfo.notes
        self._inlines: InlineIndex | None = None
        self._shift = 0  # running kernel's address minus the file's, modulo 2**64
        if debuginfo.path is not None and debuginfo.build_id is not None:
            self._use(InlineIndex(debuginfo.path, debuginfo.build_id, owner))

    @property
    def expands_inlines(self) -> bool:
        """Whether inlined functions are shown, exactly; guesses at them are then not needed."""
        return self._inlines is not None

    @property
    def units_read(self) -> int:
        """How many units of the debuginfo were not in the cache and had to be read."""
        return self._inlines.units_read if self._inlines is not None else 0

    def resolve(
        self, addresses: NDArray[np.uint64], is_return: NDArray[np.bool_]
    ) -> list[tuple[Frame, ...]]:
        """Return the frames at each address: the symbol's function, then inlined ones inward.

        One ``UNKNOWN`` frame where the kernel has no symbol, as for a module that was unloaded.

        Args:
            addresses: shape (n,).
            is_return: which of them are return addresses, shape (n,). Those are looked up one
                byte lower, in the call itself: a call may be its function's last instruction.
                The innermost frame of a sampled stack is none; all others count as such.
        """
        import numpy as np

        lookups = addresses - (is_return & (addresses > 0)).astype(np.uint64)
        distinct, places = np.unique(lookups, return_inverse=True)
        symbols = self._kallsyms.lookup(distinct)
        chains = self._chains(distinct, symbols)
        frames = _all_frames(symbols, chains)
        self._count(symbols, frames)
        return [frames[place] for place in places.tolist()]

    def enter(self, ledger: Ledger) -> None:
        """Write counters and notes into a recording's ledger."""
        for name, amount in self.counters.items():
            ledger.count(name, amount)
        for note in self.notes:
            ledger.info(note)
        if self._inlines is not None and not self._inlines.kept:
            ledger.info(
                f"the tables of inlined functions could not be kept in {self._inlines.cache_path} "
                f"and will be made anew next time"
            )
        unresolved = self.counters["unresolved_addresses"]
        if unresolved:
            ledger.info(
                f"{unresolved} of {self.counters['kernel_addresses']} kernel addresses have no "
                f"symbol (code of a module or BPF program that was unloaded?)"
            )

    def _use(self, inlines: InlineIndex) -> None:
        """Use the debuginfo if it can be read and laid over the running kernel."""
        try:
            markers = inlines.markers
        except FaultprofError as error:
            self._give_up(error.message)
            return
        for name, address in markers.items():
            running = [symbol for symbol in self._kallsyms.find(name) if not symbol.module]
            if running:
                self._shift = (running[0].address - address) % (1 << 64)
                self._inlines = inlines
                return
        self._give_up(f"{inlines.path} has no symbol to tell where the kernel was loaded")

    def _give_up(self, reason: str) -> None:
        self._inlines = None
        self.notes = [f"inlined functions are not shown: {reason}"]

    def _chains(
        self, addresses: NDArray[np.uint64], symbols: list[Symbol | None]
    ) -> list[tuple[str, ...]]:
        """Return the debuginfo's chain at each address; () for modules and without debuginfo."""
        import numpy as np

        chains: list[tuple[str, ...]] = [()] * addresses.size
        if self._inlines is None:
            return chains
        in_kernel = [place for place, symbol in enumerate(symbols) if symbol and not symbol.module]
        try:
            found = self._inlines.chains(addresses[in_kernel] - np.uint64(self._shift))
        except FaultprofError as error:
            self._give_up(error.message)
            return chains
        for place, chain in zip(in_kernel, found, strict=True):
            chains[place] = chain
        return chains

    def _count(self, symbols: list[Symbol | None], frames: list[tuple[Frame, ...]]) -> None:
        self.counters["kernel_addresses"] += len(symbols)
        self.counters["unresolved_addresses"] += symbols.count(None)
        self.counters["module_addresses"] += sum(
            1 for symbol in symbols if symbol and symbol.module
        )
        self.counters["expanded_addresses"] += sum(1 for found in frames if len(found) > 1)


def _all_frames(
    symbols: list[Symbol | None], chains: list[tuple[str, ...]]
) -> list[tuple[Frame, ...]]:
    """Return the frames of each address; few are distinct, and each is made once."""
    known: dict[tuple[int, tuple[str, ...]], tuple[Frame, ...]] = {}
    frames = []
    for symbol, chain in zip(symbols, chains, strict=True):
        key = symbol.address if symbol is not None else -1, chain
        if key not in known:
            known[key] = _frames(symbol, chain)
        frames.append(known[key])
    return frames


def _frames(symbol: Symbol | None, chain: tuple[str, ...]) -> tuple[Frame, ...]:
    """Return the frames of one address; the outermost is named by the symbol, not by DWARF.

    The two differ where a function has several names, and a path must read the same with and
    without debuginfo.
    """
    if symbol is None:
        return (UNKNOWN,)
    folded = symbol.folded
    # Only the suffix is a change by the compiler. The padding before a function (__pfx_) comes up
    # where an interrupt hit its first byte: no return address, but looked up as one.
    resolution = f"{SYMBOL}:{folded.suffix}" if folded.suffix else SYMBOL
    inlined = [Frame(name or UNKNOWN.function, resolution=INLINED) for name in chain[1:]]
    return (Frame(folded.function, symbol.module, resolution), *inlined)
