"""Inline expansion of kernel addresses, quick from the second time on.

Knows: which units a set of addresses needs, and that a unit's table, once made, is kept in the
user's cache by build id, so that the debuginfo file is not opened again.
Leaves to others: finding that file (``debuginfo``), symbols and modules (``symbols``). The
debuginfo of modules is not used.

All addresses here are as in the file: without the shift that KASLR gives a running kernel.
"""

from __future__ import annotations

import fnmatch
import re
import zlib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from faultprof.kernel.cache import CacheDirectory, Owner, cache_root
from faultprof.kernel.dwarf import DwarfFile
from faultprof.kernel.dwarf_index import UnitIndex, UnitNames, build_index, build_names
from faultprof.kernel.dwarf_mentions import units_mentioning
from faultprof.kernel.elf import unreadable
from faultprof.kernel.inlines import Copy, InlineSite, UnitTable, build_table
from faultprof.kernel.intervals import Intervals
from faultprof.progress import Steps

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

# What reading a damaged file runs into: an offset out of bounds, an unknown code, a number that no
# table holds, bad packing (pyarrow raises OSError for that).
_DAMAGE = (IndexError, KeyError, ValueError, OverflowError, OSError, zlib.error)


class InlineIndex:
    """The inlined functions of one debuginfo file.

    Args:
        path: the file; opened only for what the cache does not hold.
        build_id: its build id, which names the cache folder.
        owner: whose cache is used, and who owns the files made; None for the caller.

    Attributes:
        units_read: how many units had to be read from the file.
        kept: whether all that was read could be kept in the cache.

    All methods raise ``FaultprofError`` (exit code 3) when the file cannot be read or is damaged.
    """

    def __init__(self, path: Path, build_id: str, owner: Owner | None = None) -> None:
        self.path = path
        self.units_read = 0
        self.kept = True
        self._cache = CacheDirectory(cache_root(owner) / "inlines" / build_id, owner)
        self._tables: dict[int, UnitTable] = {}

    @cached_property
    def _file(self) -> DwarfFile:
        return DwarfFile(self.path)

    @cached_property
    def _index(self) -> UnitIndex:
        index = UnitIndex.from_bytes(self._cache.read("units"))
        if index is None:
            with _damage_reported(self.path):
                index = build_index(self._file)
            self._keep("units", index.to_bytes())
        return index

    @cached_property
    def _names(self) -> UnitNames:
        names = UnitNames.from_bytes(self._cache.read("names"))
        if names is None:
            with _damage_reported(self.path):
                names = build_names(self._file)
            self._keep("names", names.to_bytes())
        return names

    def _table(self, unit: int) -> UnitTable:
        table = self._tables.get(unit)
        if table is None:
            name = f"{unit:x}.unit"
            table = UnitTable.from_bytes(self._cache.read(name))
            if table is None:
                with _damage_reported(self.path):
                    table = build_table(self._file, self._file.unit_at(unit))
                self._keep(name, table.to_bytes())
                self.units_read += 1
            self._tables[unit] = table
        return table

    def _keep(self, name: str, data: bytes) -> None:
        self.kept = self._cache.write(name, data) and self.kept

    @property
    def cache_path(self) -> Path:
        """The folder of the cache that this file's tables are kept in."""
        return self._cache.path

    @property
    def markers(self) -> dict[str, int]:
        """Addresses in the file of ``dwarf_index.TEXT_MARKERS``; those it has."""
        return self._index.markers

    @property
    def coverage(self) -> Intervals:
        """Which text the units cover; owners are units (offsets in ``.debug_info``)."""
        return self._index.coverage

    def chains(self, addresses: NDArray[np.uint64]) -> list[tuple[str, ...]]:
        """Return the functions at each address, the out-of-line one first, the innermost last.

        The same as ``addr2line -i -f``, in the other order. () where the debuginfo has nothing.

        Args:
            addresses: of instructions, shape (n,). A return address is that of the *next*
                instruction, maybe another function's: callers pass it less 1.
        """
        import numpy as np

        chains: list[tuple[str, ...]] = [()] * addresses.size
        units = self._index.units_at(addresses)
        wanted = np.unique(units[units >= 0]).tolist()
        with Steps("reading debuginfo: unit", len(wanted), every=False) as steps:
            for unit in wanted:
                (places,) = np.nonzero(units == unit)
                found = self._table(unit).chains(addresses[places])
                for place, chain in zip(places.tolist(), found, strict=True):
                    chains[place] = chain
                steps.advance()
        return chains

    def units_at(self, addresses: NDArray[np.uint64]) -> list[int]:
        """Return the units (offsets in ``.debug_info``) that cover any of the addresses."""
        import numpy as np

        units = np.unique(self._index.units_at(addresses)).tolist()
        return [unit for unit in units if unit >= 0]

    def units_named(self, source: str) -> list[int]:
        """Return the units made from a source file such as ``mm/memory.c``.

        The first call for a build id reads the names of all units, some 2 s for a kernel;
        ``units_at`` with the address of a function there is quicker.
        """
        return self._names.find(source)

    def sites(self, function: str, units: Iterable[int]) -> list[InlineSite]:
        """Return every place in ``units`` where the code of ``function`` stands.

        Out of line and inlined, by address of entry. Empty when it is in none of the units.
        """
        found = [site for unit in units for site in self._table(unit).sites(function)]
        return sorted(found, key=lambda site: site.entry)

    def copies(self, globs: Sequence[str]) -> list[Copy]:
        """Return every copy, out of line or inlined, of the functions whose names match.

        Args:
            globs: names of functions, in which ``*``, ``?`` and ``[...]`` match as in file names.
        """
        patterns = [re.compile(fnmatch.translate(glob)) for glob in globs]

        def wanted(name: str) -> bool:
            return any(pattern.match(name) for pattern in patterns)

        with _damage_reported(self.path):
            units = units_mentioning(self._file, globs)
        found: list[Copy] = []
        with Steps("reading debuginfo: unit", len(units), every=False) as steps:
            for unit in units:
                found += self._table(unit).copies(wanted)
                steps.advance()
        return found


@contextmanager
def _damage_reported(path: Path) -> Iterator[None]:
    """Turn what a damaged file leads to into the error that says so."""
    try:
        yield
    except _DAMAGE as error:
        raise unreadable(path, f"damaged debuginfo ({type(error).__name__}: {error})") from error
