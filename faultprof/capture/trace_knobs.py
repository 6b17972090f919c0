"""What probes/trace.bpf.c has to know of a kernel, and how its records of tasks look.

Knows: which fields and flags it reads, and the layout of ``struct task_trace``.
Leaves to others: what is traced (``trace_plan``), reading the maps (``tracing``).
"""

from __future__ import annotations

import struct

from faultprof.capture.kernel_knobs import FAULT_FIELDS, bit_knobs, offset_knobs
from faultprof.capture.occupancy_knobs import OccupancyKnobs
from faultprof.kernel.conditions import Types

TASK_HEAD = struct.Struct("=QQQQII")
"""How a task's record begins, up to its first frame; the fifth figure is how many there are."""

_CALLEES_BYTES = 72  # of a frame: how often its callees have been called

# Fields whose offsets the program needs whatever is traced.
_OFFSETS = (("task_struct", "stack"), *FAULT_FIELDS)
_FLAGS = {
    "FLAG_WRITE": ("fault_flag", "FAULT_FLAG_WRITE"),
    "FLAG_TRIED": ("fault_flag", "FAULT_FLAG_TRIED"),
    "FLAG_VMA_LOCK": ("fault_flag", "FAULT_FLAG_VMA_LOCK"),
    "FLAG_FALLBACK": ("vm_fault_reason", "VM_FAULT_FALLBACK"),
}


def frame_layout(occupancy: OccupancyKnobs | None) -> struct.Struct:
    """Return how ``struct frame`` of the program begins: start, stack, children's ns, ..., node."""
    rest = _CALLEES_BYTES + (occupancy.frame_bytes if occupancy is not None else 0)
    return struct.Struct(f"=QQQQIHBB{rest}x")


def kernel_knobs(types: Types) -> dict[str, int]:
    """Return offsets and flags of this kernel; a missing flag reads as 0, which is harmless."""
    return {**offset_knobs(types, _OFFSETS), **bit_knobs(types, _FLAGS)}
