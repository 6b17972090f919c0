"""Makes one tree of a forest in which the same path may stand several times.

Knows: how equal paths are found and put together, on whole arrays at once.
Leaves to others: what the nodes stand for and what their figures mean (``tree``).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from faultprof.recording import preorder

if TYPE_CHECKING:
    from faultprof.recording.preorder import Int32, Ints


class Merged(NamedTuple):
    """A merged forest in preorder.

    Args:
        target: for each old node, the new one that it became part of.
        depth: depth of each new node.
        parent: row of each new node's parent, -1 for a root.
        function: number of each new node's function.
    """

    target: Int32
    depth: Ints
    parent: Int32
    function: Int32


def has_twins(parent: Int32, function: Int32, functions: int) -> bool:
    """Whether two nodes have the same parent (or none) and the same function."""
    import numpy as np

    key = parent.astype(np.int64)
    key *= functions
    key += function
    key.sort()
    return bool((key[1:] == key[:-1]).any())


def merge(depth: Ints, parent: Int32, function: Int32, *, functions: int) -> Merged:
    """Merge all nodes with the same path of functions.

    Args:
        depth: depths of a forest in preorder.
        parent: row of each node's parent.
        function: each node's function as a number below ``functions``.
        functions: how many functions there are.
    """
    import numpy as np

    place = np.empty(len(depth), np.int32)  # each node's new place, level by level
    found: list[tuple[Int32, Int32]] = []
    placed = 0
    for nodes in preorder.levels(depth, preorder.by_depth(depth)):
        caller = place[parent[nodes]] if found else np.full(len(nodes), -1, np.int32)
        keys = caller.astype(np.int64) * functions + function[nodes]
        distinct, same = np.unique(keys, return_inverse=True)
        place[nodes] = same + placed
        callers, names = np.divmod(distinct, functions)
        found.append((callers.astype(np.int32), names.astype(np.int32)))
        placed += len(distinct)
    return _in_preorder(place, found)


def _in_preorder(place: Int32, found: list[tuple[Int32, Int32]]) -> Merged:
    """Renumber a forest that stands level by level, given as (parents, functions) of each."""
    import numpy as np

    counts = np.array([len(callers) for callers, _ in found], np.int64)
    empty = np.empty(0, np.int32)
    parent = np.concatenate([empty, *(callers for callers, _ in found)])
    function = np.concatenate([empty, *(names for _, names in found)])
    position = preorder.positions(parent, counts.tolist())
    row = np.empty(len(position), np.int32)  # the inverse: which place stands in each row
    row[position] = np.arange(len(position), dtype=np.int32)
    depth = np.repeat(np.arange(len(counts), dtype=np.int16), counts)
    caller = parent[row]
    return Merged(
        target=position[place],
        depth=depth[row],
        parent=np.where(caller >= 0, position[caller], -1).astype(np.int32),
        function=function[row],
    )
