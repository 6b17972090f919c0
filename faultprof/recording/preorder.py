"""Arithmetic of forests whose nodes stand in preorder, on whole arrays at once.

Knows: what the depths of a preorder forest say about parents and subtrees.
Leaves to others: what a node is (``reader``, ``analysis.tree``).

Node i is row i of every array. A node's subtree is the rows from the node up to its end, which is
the next row that is not deeper. All functions are linear in the number of nodes, apart from one
pass per level.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Ints = NDArray[np.signedinteger[Any]]
    Int32 = NDArray[np.int32]
    Int64 = NDArray[np.int64]


def is_preorder(depth: Ints) -> bool:
    """Whether ``depth`` are the depths of some forest: from 0, never more than one deeper."""
    import numpy as np

    if not len(depth):
        return True
    return bool(depth[0] == 0 and depth.min() >= 0 and (np.diff(depth) <= 1).all())


def by_depth(depth: Ints) -> Int32:
    """Return the nodes ordered by depth, those of one depth in row order."""
    import numpy as np

    # Stable sorting of 16-bit numbers is a radix sort, linear in their count.
    return np.argsort(depth.astype(np.int16, copy=False), kind="stable").astype(np.int32)


def levels(depth: Ints, order: Int32) -> Iterator[Int32]:
    """Yield the nodes of each depth, roots first; ``order`` is :func:`by_depth`."""
    import numpy as np

    start = 0
    for count in np.bincount(depth) if len(depth) else ():
        yield order[start : start + count]
        start += count


def parents(depth: Ints, order: Int32) -> Int32:
    """Return the row of each node's parent, -1 for a root; ``order`` is :func:`by_depth`."""
    import numpy as np

    # A node that is deeper than the row before it is that row's first child. Any other node has
    # an elder sibling, and this is the node of its depth that comes before it.
    first = np.ones(len(depth), np.bool_)
    np.greater(depth[1:], depth[:-1], out=first[1:])
    rank = np.arange(len(depth), dtype=np.int32)
    eldest = np.maximum.accumulate(np.where(first[order], rank, 0))
    parent = np.empty(len(depth), np.int32)
    parent[order] = order[eldest] - 1
    parent[depth == 0] = -1
    return parent


def ends(depth: Ints, parent: Int32, order: Int32) -> Int32:
    """Return for each node the row after its subtree; ``order`` is :func:`by_depth`."""
    import numpy as np

    count = len(depth)
    end = np.full(count, count, np.int32)
    for nodes in levels(depth, order):
        roots = depth[nodes[0]] == 0
        ends_with_parent = count if roots else end[parent[nodes]]
        after = np.append(nodes[1:], np.int32(count))
        end[nodes] = np.minimum(after, ends_with_parent)
    return end


def children_sums(parent: Int32, values: Int64) -> NDArray[np.float64]:
    """Return for each node the sum of ``values`` over its children; exact up to 2**53."""
    import numpy as np

    # Roots are counted as children of a node before the first.
    sums = np.bincount(parent + 1, weights=values, minlength=len(parent) + 1)
    return sums[1:].astype(np.float64, copy=False)


def positions(parent: Int32, level_sizes: Sequence[int]) -> Int32:
    """Return each node's row in preorder, for nodes that stand level by level.

    Args:
        parent: each node's parent as its place in the same order, -1 for a root. The children of
            one parent are neighbours, in the order that they are to have.
        level_sizes: how many nodes each level has, roots first.
    """
    import numpy as np

    size = _subtree_sizes(parent, level_sizes)
    position = np.empty(len(parent), np.int32)
    start = 0
    for count in level_sizes:
        nodes = slice(start, start + count)
        callers = parent[nodes]
        before = np.cumsum(size[nodes]) - size[nodes]
        eldest = np.flatnonzero(np.diff(callers, prepend=-2))
        before -= np.repeat(before[eldest], np.diff(eldest, append=count))
        position[nodes] = before if start == 0 else before + position[callers] + 1
        start += count
    return position


def reordered(depth: Ints, parent: Int32, keys: Sequence[NDArray[Any]]) -> Int32:
    """Return the rows of a forest in preorder with siblings in another order.

    Args:
        depth: the depths, in preorder.
        parent: row of each node's parent.
        keys: what siblings are sorted by, one element per node, the last key first.
    """
    import numpy as np

    order = np.lexsort((*keys, parent, depth))
    place = np.empty(len(order), np.int32)
    place[order] = np.arange(len(order))
    callers = parent[order]
    above = np.where(callers >= 0, place[callers], -1).astype(np.int32)
    position = positions(above, np.bincount(depth).tolist() if len(depth) else [])
    rows = np.empty(len(order), np.int32)
    rows[position] = order
    return rows


def _subtree_sizes(parent: Int32, level_sizes: Sequence[int]) -> Int32:
    """Return how many nodes each subtree has, for nodes that stand level by level."""
    import numpy as np

    size = np.ones(len(parent), np.int32)
    starts = np.cumsum([0, *level_sizes]).tolist()
    for level in range(len(level_sizes) - 1, 0, -1):
        above, start, stop = starts[level - 1 : level + 2]
        callers = parent[start:stop] - above
        below = np.bincount(callers, weights=size[start:stop], minlength=start - above)
        size[above:start] += below.astype(np.int32)
    return size
