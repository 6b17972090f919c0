"""The facts about this machine that a recording carries."""

from __future__ import annotations

import os
import platform
from pathlib import Path

from faultprof.kernel.build_id import kernel_build_id
from faultprof.recording.metadata import CpuInfo, KernelInfo


def kernel_info() -> KernelInfo:
    """Return the running kernel's release, build id and machine."""
    return KernelInfo(platform.release(), kernel_build_id() or "", platform.machine())


def cpu_info() -> CpuInfo:
    """Return the processor's model name and the number of online CPUs."""
    return CpuInfo(_model(), os.cpu_count() or 0)


def _model() -> str:
    # arm64 has no "model name"; an empty model means unknown.
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return ""
    names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(names, "")
