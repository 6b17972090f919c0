"""``do_read_fault`` where the compiler inlined it: inferred from what kind of fault it was.

Knows: the conditions under which ``do_fault()`` runs ``do_read_fault()`` (mm/memory.c).
Leaves to others: finding out whether the fault was a read (probes/sample.bpf.c).

``do_fault()`` calls ``do_read_fault()`` if and only if the fault is not for writing. Two things
tell so from outside:

* the label of the task's latest fault, if the stack shows that this fault is the one being
  handled: an exception entry stands between ``do_fault`` and the root, and no later one;
* ``filemap_map_pages`` called by ``do_fault``: fault-around, which only read faults do.

A fault without an exception entry (get_user_pages, mlock) has no label of its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum

from faultprof.recording.frames import INFERRED, Frame

DO_FAULT = "do_fault"
DO_READ_FAULT = "do_read_fault"

# The exception entry's name differs between kernels and architectures.
_FAULT_ENTRIES = frozenset({"asm_exc_page_fault", "exc_page_fault", "do_user_addr_fault"})
_FAULT_AROUND = "filemap_map_pages"
_INFERRED = Frame(DO_READ_FAULT, resolution=INFERRED)


class FaultLabel(IntEnum):
    """``enum fault_label`` of probes/sample.bpf.c."""

    UNKNOWN = 0
    READ = 1
    WRITE = 2


class Labelled(IntEnum):
    """What became of a path: nothing to label, labelled as read or other, or not known."""

    NO_FAULT = 0
    READ = 1
    OTHER = 2
    UNKNOWN = 3


def infer_read_fault(
    frames: Sequence[Frame], label: FaultLabel
) -> tuple[tuple[Frame, ...], Labelled]:
    """Insert ``do_read_fault`` below ``do_fault`` where the fault is known to be a read.

    Args:
        frames: the path, root first.
        label: the task's latest fault when the sample was taken.

    Returns:
        The path, and what could be said about it.
    """
    at = _innermost_do_fault(frames)
    if at is None or _is_read_fault(frames, at + 1):
        return tuple(frames), Labelled.NO_FAULT
    kind = _kind(frames, at, label)
    if kind is not Labelled.READ:
        return tuple(frames), kind
    return (*frames[: at + 1], _INFERRED, *frames[at + 1 :]), kind


def _innermost_do_fault(frames: Sequence[Frame]) -> int | None:
    for index in range(len(frames) - 1, -1, -1):
        if frames[index].function == DO_FAULT:
            return index
    return None


def _is_read_fault(frames: Sequence[Frame], index: int) -> bool:
    return index < len(frames) and frames[index].function == DO_READ_FAULT


def _kind(frames: Sequence[Frame], at: int, label: FaultLabel) -> Labelled:
    if at + 1 < len(frames) and frames[at + 1].function == _FAULT_AROUND:
        return Labelled.READ
    above = any(frame.function in _FAULT_ENTRIES for frame in frames[:at])
    below = any(frame.function in _FAULT_ENTRIES for frame in frames[at + 1 :])
    if label is FaultLabel.UNKNOWN or not above or below:
        return Labelled.UNKNOWN
    return Labelled.READ if label is FaultLabel.READ else Labelled.OTHER
