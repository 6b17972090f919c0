"""Whether the kernel carries its own type information (BTF), and what its names alone tell.

Knows: where BTF stands, how tracepoints show in it. Any user may read it.
Leaves to others: the types themselves (``btf_types``).
"""

from __future__ import annotations

from pathlib import Path

from faultprof.kernel.checks import Check
from faultprof.kernel.files import ROOT
from faultprof.kernel.host import stock_kernel

_PLACE = "sys/kernel/btf/vmlinux"
_MAGIC = 0xEB9F


def has_tracepoint(name: str, sysroot: Path = ROOT) -> bool | None:
    """Return whether the kernel proper has tracepoint ``name``; None without BTF.

    Each tracepoint leaves a type ``btf_trace_<name>``. Needs no privileges.
    """
    blob = _read(sysroot)
    return None if blob is None else b"\0btf_trace_" + name.encode() + b"\0" in blob


def btf_check(sysroot: Path = ROOT) -> Check:
    """Return whether this kernel carries type information."""
    blob = _read(sysroot)
    if blob is not None:
        return Check("BTF", "ok", f"/{_PLACE}, {len(blob) / 1e6:.1f} MB")
    return Check(
        "BTF",
        "missing",
        f"no readable /{_PLACE}",
        "no fentry; conditions on kernel structures (do_read_fault when inlined) not to be had",
        stock_kernel("CONFIG_DEBUG_INFO_BTF"),
    )


def _read(sysroot: Path) -> bytes | None:
    try:
        blob = (sysroot / _PLACE).read_bytes()
    except OSError:
        return None
    magics = (_MAGIC.to_bytes(2, "little"), _MAGIC.to_bytes(2, "big"))
    return blob if blob.startswith(magics) else None
