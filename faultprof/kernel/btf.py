"""The kernel's own type information (BTF): is it there, and which types does it name.

Knows: the binary form of /sys/kernel/btf/vmlinux (Documentation/bpf/btf.rst of the kernel).
Leaves to others: what a type is needed for.
"""

from __future__ import annotations

import struct
from pathlib import Path
from typing import NamedTuple

from faultprof.kernel.checks import Check
from faultprof.kernel.files import ROOT
from faultprof.kernel.host import stock_kernel

_PLACE = "sys/kernel/btf/vmlinux"
_MAGIC = 0xEB9F
_KIND_FUNCTION = 12

# Bytes that follow a type's 12, by kind; for those in the second table: bytes for each member.
# 1 int · 3 array · 14 variable · 17 declaration tag
_FIXED_TAIL = {1: 4, 3: 12, 14: 4, 17: 4}
# 4 struct · 5 union · 6 enum · 13 prototype · 15 data section · 19 64-bit enum
_TAIL_PER_MEMBER = {4: 12, 5: 12, 6: 8, 13: 8, 15: 12, 19: 12}


class _Blob(NamedTuple):
    """The two sections of a BTF blob, and the byte order that both are in."""

    types: bytes
    strings: bytes
    order: str


def function_type_id(name: str, sysroot: Path = ROOT) -> int | None:
    """Return the BTF id of a kernel function, as an fentry program names its target.

    None when there is no BTF, or when it does not know the function.
    """
    blob = _read(sysroot)
    # Names are found by their offset in the string section; the first entry is empty.
    name_at = blob.strings.find(b"\0" + name.encode() + b"\0") + 1 if blob else 0
    if blob is None or name_at == 0:
        return None
    header = struct.Struct(blob.order + "III")
    position, type_id = 0, 1
    while position + header.size <= len(blob.types):
        name_offset, info, _ = header.unpack_from(blob.types, position)
        kind, members = info >> 24 & 0x1F, info & 0xFFFF
        if kind == _KIND_FUNCTION and name_offset == name_at:
            return type_id
        tail = _FIXED_TAIL.get(kind, _TAIL_PER_MEMBER.get(kind, 0) * members)
        position += header.size + tail
        type_id += 1
    return None


def has_tracepoint(name: str, sysroot: Path = ROOT) -> bool | None:
    """Return whether the kernel proper has tracepoint ``name``; None without BTF.

    Each tracepoint leaves a type ``btf_trace_<name>``. Needs no privileges.
    """
    blob = _read(sysroot)
    return None if blob is None else b"\0btf_trace_" + name.encode() + b"\0" in blob.strings


def btf_check(sysroot: Path = ROOT) -> Check:
    """Return whether this kernel carries type information."""
    if _read(sysroot) is not None:
        size = (sysroot / _PLACE).stat().st_size
        return Check("BTF", "ok", f"/{_PLACE}, {size / 1e6:.1f} MB")
    return Check(
        "BTF",
        "missing",
        f"no readable /{_PLACE}",
        "no fentry; conditions on kernel structures (do_read_fault when inlined) not to be had",
        stock_kernel("CONFIG_DEBUG_INFO_BTF"),
    )


def _read(sysroot: Path) -> _Blob | None:
    try:
        data = (sysroot / _PLACE).read_bytes()
    except OSError:
        return None
    if len(data) < 24:
        return None
    order = "<" if data[:2] == _MAGIC.to_bytes(2, "little") else ">"
    magic, _, _, header_size = struct.unpack_from(order + "HBBI", data)
    if magic != _MAGIC:
        return None
    types_at, types_size, strings_at, strings_size = struct.unpack_from(order + "4I", data, 8)
    return _Blob(
        data[header_size + types_at :][:types_size],
        data[header_size + strings_at :][:strings_size],
        order,
    )
