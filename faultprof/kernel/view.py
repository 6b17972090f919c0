"""One kernel as the resolution of functions sees it.

Knows: which sources of knowledge there are, and that most of them may be missing.
Leaves to others: each source (``named_symbols``, ``attachable``, ``btf_types``,
``inline_index``), conclusions (``resolve``).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, Protocol

from faultprof.errors import FaultprofError
from faultprof.kernel.attachable import Attachable, Obstacle, kprobe_obstacle, read_attachable
from faultprof.kernel.btf_types import BtfTypes
from faultprof.kernel.build_id import kernel_build_id
from faultprof.kernel.conditions import Types
from faultprof.kernel.debuginfo import find_debuginfo
from faultprof.kernel.files import ROOT
from faultprof.kernel.host import read_host
from faultprof.kernel.named_symbols import NamedSymbols
from faultprof.kernel.preemption import preempts

if TYPE_CHECKING:
    from faultprof.kernel.cache import Owner
    from faultprof.kernel.inline_index import InlineIndex

_WRAP = 1 << 64  # KASLR's shift is taken modulo the size of the address space


class Body(NamedTuple):
    """A body of a function in the running kernel, known from debuginfo.

    Attributes:
        host: the out-of-line function that it is part of; the function itself if not inlined.
        entry: address of its first instruction to run.
    """

    host: str
    entry: int


class Bodies(Protocol):
    """What knows the bodies of functions, inlined ones included."""

    def bodies(self, function: str, near: Sequence[int]) -> list[Body]:
        """Return those that are compiled from the same sources as the code at ``near``."""


@dataclass(frozen=True, slots=True)
class KernelView:
    """What is known of a kernel.

    Attributes:
        release: as ``uname -r`` says.
        symbols: by name.
        attachable: what probes can attach to; None when that is not known.
        types: from BTF; None without.
        bodies: from debuginfo; None without.
        obstacles: what keeps probes away, or keeps us from knowing.
        fentry_arguments: how many arguments a function may have for fentry. Six is what all
            kernels with fentry handle; newer ones handle more, which only an attempt can tell.
        preempts: whether the kernel preempts its own code.
    """

    release: str
    symbols: NamedSymbols
    attachable: Attachable | None
    types: Types | None
    bodies: Bodies | None = None
    obstacles: tuple[Obstacle, ...] = ()
    fentry_arguments: int = 6
    preempts: bool = False

    @property
    def can_probe(self) -> bool:
        """Whether probes can attach at all, and it is known to what."""
        return self.attachable is not None and not any(one.hides_all for one in self.obstacles)

    @classmethod
    def read(
        cls, sysroot: Path = ROOT, *, owner: Owner | None = None, debuginfo: bool = True
    ) -> KernelView:
        """Read what the running kernel shows: some 0.3 s, longer when debuginfo is first used.

        Args:
            sysroot: the folder that stands for ``/``.
            owner: whose cache of debuginfo is used; None for the caller's.
            debuginfo: whether to use it where it is installed.

        Raises ``FaultprofError`` (exit code 3) when there are no symbols to read.
        """
        symbols = NamedSymbols.read(sysroot / "proc/kallsyms")
        attachable = read_attachable(sysroot)
        found = (kprobe_obstacle(sysroot), attachable)
        return cls(
            read_host(sysroot).release,
            symbols,
            attachable if isinstance(attachable, Attachable) else None,
            BtfTypes.read(sysroot),
            _read_bodies(symbols, sysroot, owner) if debuginfo else None,
            tuple(one for one in found if isinstance(one, Obstacle)),
            preempts=preempts(sysroot),
        )


class DebuginfoBodies:
    """Bodies as a debuginfo file has them, laid over the running kernel.

    Args:
        index: the file.
        shift: the running kernel's addresses minus the file's, modulo 2**64.
    """

    def __init__(self, index: InlineIndex, shift: int) -> None:
        self._index = index
        self._shift = shift

    def bodies(self, function: str, near: Sequence[int]) -> list[Body]:
        """Return the bodies of ``function`` in the units that ``near`` lies in."""
        import numpy as np

        addresses = np.array([(address - self._shift) % _WRAP for address in near], np.uint64)
        sites = self._index.sites(function, self._index.units_at(addresses))
        return [Body(site.host, (site.entry + self._shift) % _WRAP) for site in sites if site.entry]


def _read_bodies(
    symbols: NamedSymbols, sysroot: Path, owner: Owner | None
) -> DebuginfoBodies | None:
    """Return the bodies from the running kernel's debuginfo; None where it cannot be used."""
    build_id = kernel_build_id(sysroot)
    path = find_debuginfo(build_id, read_host(sysroot).release, sysroot).path
    if path is None or build_id is None:
        return None
    from faultprof.kernel.inline_index import InlineIndex

    index = InlineIndex(path, build_id, owner)
    try:
        markers = index.markers
    except FaultprofError:
        return None  # damaged; the doctor tells
    running = symbols.find(markers)
    for name, address in markers.items():
        if running.get(name) and running[name][0].address:
            return DebuginfoBodies(index, (running[name][0].address - address) % _WRAP)
    return None
