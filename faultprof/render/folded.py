"""Folded stacks: ``comm;root;callee;leaf COUNT``, a line for each path that something ended in.

Knows: the format that flame graph programs read, and what a name must not hold in it.
Leaves to others: choosing the tree (``analysis.tree``).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from faultprof.analysis.trace_tree import TraceTree
from faultprof.analysis.tree import CallTree
from faultprof.analysis.weights import WeightTree
from faultprof.recording import preorder
from faultprof.recording.frames import USER, Frame
from faultprof.render.names import without_addresses
from faultprof.render.terminal import sanitise

KERNEL_SUFFIX = "_[k]"

# A semicolon ends a frame and a blank ends the stack; everything else invisible is escaped.
_SEPARATORS = str.maketrans({";": ":", " ": "_"})


def folded_name(name: str) -> str:
    """Return ``name`` so that a folded line stays one line, and its frames stay apart."""
    return without_addresses(sanitise(name)).translate(_SEPARATORS) or "_"


def folded_frame(frame: Frame) -> str:
    """Return a frame's function; kernel functions bear the usual suffix."""
    return folded_name(frame.function) + ("" if frame.resolution == USER else KERNEL_SUFFIX)


def folded_lines(comm: str, tree: CallTree) -> Iterator[str]:
    """Yield the lines of one task's tree, counts in samples.

    Samples of nodes that were cut from the tree stand with their callers, so that every frame is
    as wide as it is in the whole tree.
    """
    shown = preorder.children_sums(tree.parent, tree.samples).astype(tree.samples.dtype)
    names = [folded_frame(frame) for frame in tree.frames]
    columns = (tree.depth, tree.frame, tree.samples - shown)
    yield from _stacks(
        comm,
        (
            (depth, names[frame], samples)
            for depth, frame, samples in zip(*(column.tolist() for column in columns), strict=True)
        ),
    )


def folded_trace_lines(comm: str, tree: TraceTree) -> Iterator[str]:
    """Yield the lines of one task's traced calls, counts in nanoseconds; else the same."""
    own = [node.calls.inclusive_ns for node in tree.nodes]
    for node in tree.nodes:
        if node.parent >= 0:
            own[node.parent] -= node.calls.inclusive_ns
    yield from _stacks(
        comm,
        (
            (node.depth, folded_frame(node.frame), ns)
            for node, ns in zip(tree.nodes, own, strict=True)
        ),
    )


def folded_weight_lines(comm: str, tree: WeightTree) -> Iterator[str]:
    """Yield the lines of one task's tree, counts in its weights; else the same."""
    weight = tree.sides[0].weight
    shown = preorder.children_sums(tree.parent, weight).astype(weight.dtype)
    names = [folded_frame(frame) for frame in tree.frames]
    columns = (tree.depth.tolist(), tree.frame.tolist(), (weight - shown).tolist())
    yield from _stacks(
        comm, ((depth, names[frame], own) for depth, frame, own in zip(*columns, strict=True))
    )


def _stacks(comm: str, nodes: Iterable[tuple[int, str, int]]) -> Iterator[str]:
    """Yield lines of nodes in preorder: depth, name, and what ended there."""
    stack = [folded_name(comm)]
    for depth, name, amount in nodes:
        del stack[depth + 1 :]
        stack.append(name)
        if amount:
            yield f"{';'.join(stack)} {amount}"
