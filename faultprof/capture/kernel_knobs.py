"""Knobs of BPF programs that say where a kernel's fields and bits are.

Knows: how such knobs are called, and that a bit which a kernel does not have is 0.
Leaves to others: reading BTF (``kernel.btf_types``), which fields and bits a program needs.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from faultprof.errors import unsupported
from faultprof.kernel.conditions import Types

FAULT_FIELDS = (
    ("vm_fault", "flags"),
    ("vm_fault", "vma"),
    ("vm_area_struct", "vm_flags"),
    ("vm_area_struct", "vm_ops"),
    ("vm_operations_struct", "fault"),
)
"""What probes/fault.h reads."""


def offset_knobs(
    types: Types, fields: Iterable[tuple[str, str]], remedy: str = "record with --mode sample"
) -> dict[str, int]:
    """Return ``OFFSET_STRUCTURE_FIELD`` for each (structure, field); ``remedy`` is what then helps.

    Raises:
        FaultprofError: BTF lacks one of them (exit code 3).
    """
    knobs = {}
    for structure, name in fields:
        offset = types.field_offset(structure, name)
        if offset is None:
            raise unsupported(f"this kernel's BTF has no {structure}.{name}", remedy)
        knobs[f"OFFSET_{structure}_{name}".upper()] = offset
    return knobs


def bit_knobs(types: Types, bits: Mapping[str, tuple[str, str]]) -> dict[str, int]:
    """Return the value of each knob's enumerator, given as (enum, name); 0 where there is none."""
    return {knob: types.enumerator(enum, name) or 0 for knob, (enum, name) in bits.items()}
