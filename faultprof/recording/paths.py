"""From counted paths to the rows of a recording.

Knows: how paths (root first) become the nodes of a forest in preorder.
Leaves to others: where the paths come from (``capture``) and the file (``writer``).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

from faultprof.recording.frames import Frame
from faultprof.recording.schema import MAX_DEPTH, SAMPLE


class PathCount(NamedTuple):
    """A path (root first, at least one frame) of a task, and how many samples ended there."""

    comm: str
    frames: tuple[Frame, ...]
    samples: int


@dataclass(slots=True)
class Nodes:
    """The nodes of one (run, source), column by column; see ``schema.COLUMNS``."""

    run: int
    source: str
    comm: list[str] = field(default_factory=list)
    parent: list[int] = field(default_factory=list)
    depth: list[int] = field(default_factory=list)
    frame: list[Frame] = field(default_factory=list)
    samples: list[int] = field(default_factory=list)
    self_samples: list[int] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self.parent)

    def open(self, comm: str, parent: int, depth: int, frame: Frame) -> int:
        """Append a node without samples and return its number."""
        self.comm.append(comm)
        self.parent.append(parent)
        self.depth.append(depth)
        self.frame.append(frame)
        self.samples.append(0)
        self.self_samples.append(0)
        return len(self.parent) - 1


def nodes_from_paths(run: int, paths: Iterable[PathCount], *, source: str = SAMPLE) -> Nodes:
    """Build the nodes of one run: equal paths are added up, comms and siblings stand in order.

    Raises:
        ValueError: for an empty or too deep path, or a negative count.
    """
    nodes = Nodes(run, source)
    open_nodes: list[int] = []
    last_comm, last_frames = "", ()  # type: tuple[str, tuple[Frame, ...]]
    # In sorted order a path stands right after the one it shares the longest beginning with.
    for (comm, frames), samples in sorted(_added_up(paths).items()):
        shared = _shared(last_frames, frames) if comm == last_comm else 0
        del open_nodes[shared:]
        for depth in range(shared, len(frames)):
            parent = open_nodes[-1] if open_nodes else -1
            open_nodes.append(nodes.open(comm, parent, depth, frames[depth]))
        nodes.self_samples[open_nodes[-1]] += samples
        last_comm, last_frames = comm, frames
    _sum_up(nodes)
    return nodes


def _added_up(paths: Iterable[PathCount]) -> Counter[tuple[str, tuple[Frame, ...]]]:
    counts: Counter[tuple[str, tuple[Frame, ...]]] = Counter()
    for path in paths:
        if not 0 < len(path.frames) <= MAX_DEPTH:
            raise ValueError(f"a path has {len(path.frames)} frames, not 1 to {MAX_DEPTH}")
        if path.samples < 0:
            raise ValueError(f"a path has {path.samples} samples")
        counts[path.comm, path.frames] += path.samples
    return counts


def _shared(left: tuple[Frame, ...], right: tuple[Frame, ...]) -> int:
    """Return how many leading frames are the same."""
    length = 0
    for a, b in zip(left, right, strict=False):
        if a != b:
            break
        length += 1
    return length


def _sum_up(nodes: Nodes) -> None:
    """Fill in the inclusive samples; in preorder, children come after their parent."""
    for node in range(len(nodes) - 1, -1, -1):
        nodes.samples[node] += nodes.self_samples[node]
        if nodes.parent[node] >= 0:
            nodes.samples[nodes.parent[node]] += nodes.samples[node]
