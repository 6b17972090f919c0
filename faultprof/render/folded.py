"""Folded stacks: ``comm;root;callee;leaf COUNT``, a line for each path that samples ended in.

Knows: the format that flame graph programs read, and what a name must not hold in it.
Leaves to others: choosing the tree (``analysis.tree``).
"""

from __future__ import annotations

from collections.abc import Iterator

from faultprof.analysis.tree import CallTree
from faultprof.recording import preorder
from faultprof.recording.frames import USER, Frame
from faultprof.render.terminal import sanitise

KERNEL_SUFFIX = "_[k]"

# A semicolon ends a frame and a blank ends the stack; everything else invisible is escaped.
_SEPARATORS = str.maketrans({";": ":", " ": "_"})


def folded_name(name: str) -> str:
    """Return ``name`` so that a folded line stays one line, and its frames stay apart."""
    return sanitise(name).translate(_SEPARATORS) or "_"


def folded_frame(frame: Frame) -> str:
    """Return a frame's function; kernel functions bear the usual suffix."""
    return folded_name(frame.function) + ("" if frame.resolution == USER else KERNEL_SUFFIX)


def folded_lines(comm: str, tree: CallTree) -> Iterator[str]:
    """Yield the lines of one task's tree.

    Samples of nodes that were cut from the tree stand with their callers, so that every frame is
    as wide as it is in the whole tree.
    """
    shown = preorder.children_sums(tree.parent, tree.samples).astype(tree.samples.dtype)
    names = [folded_frame(frame) for frame in tree.frames]
    stack = [folded_name(comm)]
    columns = (tree.depth, tree.frame, tree.samples - shown)
    for depth, frame, samples in zip(*(column.tolist() for column in columns), strict=True):
        del stack[depth + 1 :]
        stack.append(names[frame])
        if samples:
            yield f"{';'.join(stack)} {samples}"
