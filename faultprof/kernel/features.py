"""What a kernel and its surroundings offer, as far as files tell: one check for each thing.

Knows: which checks there are, in which order they are read, and the debuginfo that fits.
Leaves to others: what must be tried to be known (``bpf.probing``), and the conclusion
(``capture.doctor``).
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from faultprof.kernel.btf import btf_check
from faultprof.kernel.build_id import kernel_build_id
from faultprof.kernel.checks import Check
from faultprof.kernel.debuginfo import find_debuginfo
from faultprof.kernel.files import ROOT
from faultprof.kernel.host import Host
from faultprof.kernel.hugepages import (
    hugetlb_check,
    init_on_alloc_check,
    transparent_hugepage_check,
)
from faultprof.kernel.privileges import (
    kernel_symbols_check,
    pid_namespace_check,
    privileges_check,
    require_privileges,
)
from faultprof.kernel.tracefs import tracefs_check

__all__ = ["debuginfo_check", "file_checks", "require_privileges"]


def file_checks(host: Host, sysroot: Path = ROOT) -> tuple[Check, ...]:
    """Return all checks that need no more than reading, in the order of the report."""
    return (
        privileges_check(sysroot),
        btf_check(sysroot),
        kernel_symbols_check(sysroot),
        debuginfo_check(host, sysroot),
        tracefs_check(sysroot),
        transparent_hugepage_check(sysroot),
        hugetlb_check(sysroot),
        init_on_alloc_check(host.release, sysroot),
        pid_namespace_check(sysroot),
    )


def debuginfo_check(
    host: Host, sysroot: Path = ROOT, environment: Mapping[str, str] = os.environ
) -> Check:
    """Return whether debuginfo with the running kernel's build id is installed."""
    name = "debuginfo"
    cost = "inlined functions are not shown; do_read_fault is inferred, not exact"
    running = kernel_build_id(sysroot)
    if running is None:
        found = "the kernel does not show its build id (/sys/kernel/notes)"
        return Check(name, "unknown", found, cost, "mount /sys")
    search = find_debuginfo(running, host.release, sysroot, environment)
    if search.path is not None:
        return Check(name, "ok", f"{search.path}, build id {running[:12]}")
    unfit = "; ".join(f"{rejected.path}: {rejected.reason}" for rejected in search.rejected)
    found = unfit or f"none installed for build id {running[:12]}"
    return Check(name, "missing", found, cost, host.install_debuginfo)
