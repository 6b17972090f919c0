"""Address ranges that lie one over another, flattened into a table that a search can use.

Knows: nothing of kernels or DWARF.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class Intervals:
    """Sorted intervals that do not overlap, each with an owner.

    Attributes:
        starts: first addresses, shape (n,), ascending.
        ends: one behind the last addresses, shape (n,); ``ends[i] <= starts[i + 1]``.
        owners: whose the interval is, shape (n,).
    """

    starts: NDArray[np.uint64]
    ends: NDArray[np.uint64]
    owners: NDArray[np.int64]

    def find(self, addresses: NDArray[np.uint64]) -> NDArray[np.int64]:
        """Return the owner of each address, shape as ``addresses``; -1 where nobody is."""
        import numpy as np

        if not self.starts.size:
            return np.full(addresses.shape, -1, np.int64)
        at = np.searchsorted(self.starts, addresses, side="right") - 1
        inside = (at >= 0) & (addresses < self.ends[at])
        return np.where(inside, self.owners[at], -1)


def flatten(ranges: Sequence[tuple[int, int, int]]) -> Intervals:
    """Return the intervals that are seen from above.

    Args:
        ranges: first address, one behind the last, and owner (>= 0); a later one covers those
            before it.
    """
    import numpy as np

    table = np.array(ranges, dtype=np.uint64).reshape(-1, 3)
    bounds = np.unique(table[:, :2])
    firsts = np.searchsorted(bounds, table[:, 0]).tolist()
    lasts = np.searchsorted(bounds, table[:, 1]).tolist()
    cells = np.full(max(bounds.size - 1, 0), -1, dtype=np.int64)
    for first, last, (_, _, owner) in zip(firsts, lasts, ranges, strict=True):
        cells[first:last] = owner
    # Join neighbours with one owner; a gap is a cell of its own, with owner -1.
    changes = np.flatnonzero(np.diff(cells, prepend=-2))
    owners = cells[changes]
    ends = bounds[np.append(changes[1:], cells.size)] if cells.size else bounds
    seen = owners >= 0
    return Intervals(bounds[changes][seen], ends[seen], owners[seen])
