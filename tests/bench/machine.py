"""The machine a benchmark ran on: what a reader needs to judge its figures and their noise.

Knows: /proc/cpuinfo and the load average.
Leaves to others: printing (``__main__``).
"""

from __future__ import annotations

import os
import platform
import re
from pathlib import Path

_MODEL = re.compile(r"^model name\s*:\s*(.+)$", re.MULTILINE)


def describe() -> dict[str, str | int]:
    """Return the CPU's model, the number of CPUs and the kernel's release."""
    model = _MODEL.search(Path("/proc/cpuinfo").read_text())
    return {
        "cpu": model[1] if model else platform.machine(),
        "cpus": os.cpu_count() or 1,
        "kernel": platform.release(),
    }


def load() -> float:
    """Return the load average of the last minute: the benchmark itself makes a part of it."""
    return os.getloadavg()[0]
