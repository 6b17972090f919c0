"""The rows of a recording as arrays: what a reader makes of the columns of every source.

Knows: how nodes, frames and their places in the file are held.
Leaves to others: reading and checking them (``reader``).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from faultprof.recording.frames import Frame

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from faultprof.recording.preorder import Int32, Int64


class Segment(NamedTuple):
    """Neighbouring rows, from ``start`` up to ``stop``, of one task name in one run."""

    run: int
    source: str
    comm: str
    start: int
    stop: int


@dataclass(frozen=True, slots=True)
class Rows:
    """The checked rows of a recording as arrays; one element per node, in file order.

    Args:
        frames: the distinct frames.
        frame: index into ``frames``.
        depth: callers above the node.
        parent: row of the caller, counted over the whole file; -1 for a root.
        samples: inclusive samples.
        self_samples: the node's own samples.
        segments: which rows belong to which run, source and comm; together all rows.
    """

    frames: tuple[Frame, ...]
    frame: Int32
    depth: NDArray[np.int16]
    parent: Int32
    samples: Int64
    self_samples: Int64
    segments: tuple[Segment, ...]

    def __len__(self) -> int:
        return len(self.frame)
