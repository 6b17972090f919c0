"""Burns a known time inside a function of the kernel: burn.bpf.c at the entry of one that it calls.

Falls between a tracer's probes, then, like the work of a slower kernel would.
"""

from __future__ import annotations

import struct
from contextlib import ExitStack, closing
from pathlib import Path


class Burner:
    """Burns at each entry of a function while it has a dose."""

    def __init__(self, function: str) -> None:
        from faultprof.bpf.probes import ProbePoint, ProbeSet
        from faultprof.bpf.program import Program

        source = str(Path(__file__).with_name("burn.bpf.c"))
        knobs = {"COMMAND": int.from_bytes(b"touc", "little"), "MAX_TURNS": 4000}
        with ExitStack() as undo:
            self._program = undo.enter_context(Program(source, knobs))
            probes = undo.enter_context(closing(ProbeSet(self._program, lambda _: None)))
            probes.attach_hit(ProbePoint(function), {})
            self._undo = undo.pop_all()

    def set_dose(self, nanoseconds: int) -> None:
        """Burn so long from now on."""
        self._program.write("dose_ns", 0, struct.pack("=Q", nanoseconds))

    @property
    def burnt(self) -> int:
        """How many whole doses have been burnt."""
        return self._program.read_counters("burnt")[0]

    def close(self) -> None:
        """Detach."""
        self._undo.close()
