"""Which frames are the same function.

Knows: that a function is its name and its module, how the resolutions of its frames join, and
which names are near to one that is mistyped.
Leaves to others: how a function was found (``capture``) and how that is marked (``render``).
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from faultprof.errors import ExitCode, FaultprofError
from faultprof.recording.frames import Frame

if TYPE_CHECKING:
    from faultprof.recording.preorder import Int32

Function = tuple[str, str]  # name, module


def number_functions(frames: Sequence[Frame]) -> tuple[dict[Function, int], Int32]:
    """Return numbers, from 0, for the functions of ``frames``, and each frame's number."""
    import numpy as np

    numbers: dict[Function, int] = {}
    codes = [numbers.setdefault(frame[:2], len(numbers)) for frame in frames]
    return numbers, np.array(codes, np.int32)


def join_resolutions(resolutions: Iterable[str]) -> str:
    """Return the one resolution, or the distinct ones in order with ``+`` between them."""
    parts = {part for resolution in resolutions for part in resolution.split("+")}
    return "+".join(sorted(parts))


def join_frames(frames: Iterable[Frame]) -> dict[Function, Frame]:
    """Return for each function one frame, with the resolutions of all its frames."""
    found: dict[Function, set[str]] = {}
    for name, module, resolution in frames:
        found.setdefault((name, module), set()).add(resolution)
    return {function: Frame(*function, join_resolutions(all_)) for function, all_ in found.items()}


def merged_frames(
    frames: Sequence[Frame], frame: Int32, target: Int32, count: int
) -> tuple[tuple[Frame, ...], Int32]:
    """Return the frames of merged nodes.

    Args:
        frames: the distinct frames.
        frame: each old node's index into ``frames``.
        target: the new node that each old node became part of; its nodes share one function.
        count: how many new nodes there are.

    Returns:
        The frames with joined ones added, and each new node's index into them.
    """
    import numpy as np

    merged = np.empty(count, np.int32)
    merged[target] = frame
    differs = np.unique(target[merged[target] != frame])
    if not len(differs):
        return tuple(frames), merged
    codes = {one: code for code, one in enumerate(frames)}
    parts: dict[int, set[Frame]] = {}
    nodes = np.flatnonzero(np.isin(target, differs))
    for pair in np.unique(target[nodes].astype(np.int64) * len(frames) + frame[nodes]).tolist():
        node, code = divmod(pair, len(frames))
        parts.setdefault(node, set()).add(frames[code])
    for node, every in parts.items():
        (joined,) = join_frames(every).values()
        merged[node] = codes.setdefault(joined, len(codes))
    return tuple(codes), merged


def unknown_function(message: str, function: str, names: Iterable[str]) -> FaultprofError:
    """Return the error for a function that is none of ``names`` (exit code 2)."""
    near = nearest(function, names)
    hint = f"nearest: {', '.join(near)}" if near else "list its functions with --flat"
    return FaultprofError(message, hint, ExitCode.USAGE)


def nearest(function: str, names: Iterable[str]) -> list[str]:
    """Return a few of ``names`` that whoever typed ``function`` may have meant."""
    names = sorted(set(names))
    near = difflib.get_close_matches(function, names, n=3, cutoff=0.5)
    return near + [name for name in names if function and function in name and name not in near][:3]
