"""What a function of the fault path turned out to be on one kernel.

Knows: the words for it, and how a recording's metadata writes it. Pure data, so that ``render``
may import it.
Leaves to others: finding out (``resolve``), attaching (``bpf``).
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from faultprof.kernel.conditions import Condition
from faultprof.kernel.kallsyms import fold
from faultprof.kernel.named_symbols import Place
from faultprof.recording.frames import INFERRED, INLINED, SYMBOL, UNRESOLVED


class How(StrEnum):
    """How a function appears on a kernel."""

    SYMBOL = "symbol"
    RENAMED = "renamed"  # by its name in other kernels
    VARIANT = "variant"  # as the compiler changed it: .isra.0 and the like
    INLINED = "inlined"  # at the entries of its inlined bodies, known from debuginfo
    CONDITION = "condition"  # inlined into a host, told by a condition there
    UNAVAILABLE = "unavailable"


@dataclass(frozen=True, slots=True)
class Resolved:
    """A function on one kernel.

    Attributes:
        name: the function's, in mainline.
        how: how it appears.
        places: where probes go. More than one: the bodies of one function, to be counted
            together. Returns can be probed unless it is ``INLINED``; of a condition, they are
            its host's.
        host: the function that it is inlined into; None when it is not, or into several.
        condition: what must hold in the host.
        kprobe: whether kprobes can attach to all places.
        fentry: whether fentry can.
        visible: the symbol by which samples show it; None when they show only its host.
        reason: how it was found, or why it cannot be had; "" when there is nothing to say.
        beware: what its figures do not show; "" when nothing is known to be amiss.
        module: of its symbol; "" for the kernel proper.
        nearest: names like it, when there is no such function.
    """

    name: str
    how: How
    places: tuple[Place, ...] = ()
    host: str | None = None
    condition: Condition | None = None
    kprobe: bool = False
    fentry: bool = False
    visible: str | None = None
    reason: str = ""
    beware: str = ""
    module: str = ""
    nearest: tuple[str, ...] = ()

    @property
    def symbol(self) -> str | None:
        """The symbol that it is, or is part of; where the name stands twice, no place by itself."""
        if self.condition is not None:
            return self.condition.host
        return self.visible or (self.places[0].symbol if self.places else None)

    @property
    def traceable(self) -> bool:
        """Whether any kind of probe can attach."""
        return self.kprobe or self.fentry

    @property
    def resolution(self) -> str:
        """How frames of it are marked in a recording, see ``recording.frames``."""
        if self.how is How.VARIANT:
            return f"{SYMBOL}:{fold(self.symbol or '').suffix}"
        return {
            How.SYMBOL: SYMBOL,
            How.RENAMED: SYMBOL,
            How.INLINED: INLINED,
            How.CONDITION: INFERRED,
        }.get(self.how, UNRESOLVED)

    def to_json(self) -> dict[str, Any]:
        """Return plain data, as a recording's metadata and ``functions --json`` hold it."""
        condition = self.condition
        return {
            "how": str(self.how),
            "resolution": self.resolution,
            "symbol": self.symbol,
            "places": [str(place) for place in self.places],
            "host": self.host,
            "condition": condition.says if condition else None,
            "approximates": condition.approximates if condition else "",
            "kprobe": self.kprobe,
            "fentry": self.fentry,
            "module": self.module,
            "reason": self.reason,
            "beware": self.beware,
            "nearest": list(self.nearest),
        }
