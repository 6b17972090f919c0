"""Which functions of two kernels are the same: one logical name for what has had several.

Knows: how a recording's names become mainline's.
Leaves to others: the names themselves (``kernel.catalogue``).

A former name stands for the function only where the recording knows it by no better one: newer
kernels may have both, and then they are two functions (``__alloc_pages_noprof`` calls
``__alloc_frozen_pages_noprof``, and in its time was what that is now).
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field

from faultprof.kernel.catalogue import CATALOGUE, function_named
from faultprof.recording.frames import VMLINUX, Frame


@dataclass(frozen=True, slots=True)
class LogicalNames:
    """What the functions of one recording are called everywhere.

    Attributes:
        present: the recording's own names.
        renamed: the logical name of each function that has another one here.
    """

    present: frozenset[str] = frozenset()
    renamed: dict[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, names: Collection[str]) -> LogicalNames:
        """Return the logical names for a recording that holds functions called ``names``."""
        present = frozenset(names)
        renamed = {}
        for function in CATALOGUE:
            if function.name in present:
                continue
            former = next((name for name in function.formerly if name in present), None)
            if former is not None:
                renamed[former] = function.name
        return cls(present, renamed)

    def logical(self, frame: Frame) -> str:
        """Return the name that a frame's function has everywhere; modules' names are their own."""
        if frame.module != VMLINUX:
            return frame.function
        return self.renamed.get(frame.function, frame.function)

    def here(self, name: str) -> str:
        """Return what a function is called in the recording; ``name`` may be any of its names."""
        known = function_named(name)
        if name in self.present or known is None:
            return name
        of_logical = {new: old for old, new in self.renamed.items()}
        return of_logical.get(known.name, known.name)
