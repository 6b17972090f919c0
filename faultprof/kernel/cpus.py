"""Which CPUs there are.

Knows: where the kernel lists them, and how it writes a list ("0,2-3").
Leaves to others: what kind of CPU they are (``capture.machine``).
"""

from __future__ import annotations

from pathlib import Path

_PLACE = Path("/sys/devices/system/cpu")


def online_cpus() -> list[int]:
    """Return the numbers of the CPUs that run now.

    Raises:
        OSError: /sys cannot be read.
    """
    return parse_cpu_list((_PLACE / "online").read_text())


def possible_cpus() -> list[int]:
    """Return the numbers of all CPUs that the kernel has room for; values per CPU have a part each.

    Raises:
        OSError: /sys cannot be read.
    """
    return parse_cpu_list((_PLACE / "possible").read_text())


def parse_cpu_list(text: str) -> list[int]:
    """Return the numbers in a list such as ``0,2-3``.

    Raises:
        ValueError: ``text`` is no such list.
    """
    cpus: list[int] = []
    for part in text.strip().split(","):
        first, _, last = part.partition("-")
        cpus += range(int(first), int(last or first) + 1)
    return cpus
