"""Who waits for a folio: the function that stands behind those which only do the waiting.

Knows: which functions these are.
Leaves to others: stacks (``folio``), names for addresses (``kernel.symbols``).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from faultprof.capture.contention.folio_probes import WAITERS

if TYPE_CHECKING:
    from faultprof.kernel.symbols import Symbolizer

_WAITING = frozenset(
    (
        *("io_schedule", "folio_wait_bit_common", "wait_on_page_bit_common"),
        *WAITERS,
        *WAITERS.values(),
    )
)
# What a probe puts on top of a stack.
_PROBES = ("ftrace_", "fprobe_", "kprobe", "rethook_", "arch_rethook", "bpf_", "[unknown]")


def callers_of(stacks: Sequence[Sequence[int]], symbols: Symbolizer) -> list[str]:
    """Return for each stack, from the probe at io_schedule() up, who waits; "" if it is not there.

    Args:
        stacks: addresses, 0 behind the last of a shorter one.
        symbols: names for them.
    """
    import numpy as np

    addresses = np.array(stacks, np.uint64)
    # The first is where the probe is.
    is_return = np.broadcast_to(np.arange(addresses.shape[1]) > 0, addresses.shape)
    frames = symbols.resolve(addresses.ravel(), is_return.ravel())
    names = [found[0].function for found in frames]
    width = addresses.shape[1]
    return [
        _caller([name for name, address in zip(names[at:], stack, strict=False) if address])
        for at, stack in zip(range(0, len(names), width), stacks, strict=True)
    ]


def _caller(names: Sequence[str]) -> str:
    return next(
        (name for name in names if name not in _WAITING and not name.startswith(_PROBES)), ""
    )
