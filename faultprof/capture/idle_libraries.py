"""Libraries of ours that must not take CPUs from what is measured.

Knows: which of them have threads that run without work.
Leaves to others: when a command has its own environment already (``session``).
"""

from __future__ import annotations

import os


def keep_idle() -> None:
    """Have libraries that are loaded from now on make no threads that wait in a loop.

    OpenBLAS, which numpy loads, makes a thread for each further CPU, and each looks for work for
    some 50 ms before it sleeps. A command that ran for 0.25 s on 2 CPUs lost 10% of them to it.
    """
    os.environ["OPENBLAS_NUM_THREADS"] = "1"
