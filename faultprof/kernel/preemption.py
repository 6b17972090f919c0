"""Whether a kernel preempts its own code, and with it the BPF programs that run there.

Knows: where the kernel tells.
Leaves to others: what follows for a way of probing (``capture.trace_plan``).
"""

from __future__ import annotations

import re
from pathlib import Path

from faultprof.kernel.files import ROOT, read_text

_NOT = ("none", "voluntary")


def preempts(sysroot: Path = ROOT) -> bool:
    """Return whether code of the running kernel can be preempted.

    debugfs tells how kernels with a choice run: ``none (voluntary) full``. Without it, one with a
    choice (``PREEMPT_DYNAMIC`` in its version) is taken for one that preempts.
    """
    modes = read_text(sysroot / "sys/kernel/debug/sched/preempt") or ""
    chosen = re.search(r"\((\w+)\)", modes)
    if chosen is not None:
        return chosen[1] not in _NOT
    return "PREEMPT" in (read_text(sysroot / "proc/sys/kernel/version") or "")
