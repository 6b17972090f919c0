"""The knobs of probes/occupancy.h for one machine and one plan.

Knows: how they follow from the number of CPUs and functions.
Leaves to others: reading what is counted (``contention.occupancy``).
"""

from __future__ import annotations

from dataclasses import dataclass

MOST_FUNCTIONS = 448
"""That a slot has bits for."""

# Occupancies that have their durations added up by themselves; on more CPUs neighbours together.
_MOST_STEPS = 64

# A call that looks at all slots takes a cache line from each CPU. At this rate that costs all calls
# together about as much as one line each, whatever the number of CPUs.
_CALLS_A_CPU = 16
_FEWEST_CALLS = 64


@dataclass(frozen=True, slots=True)
class OccupancyKnobs:
    """What the programs are compiled with.

    Args:
        functions: how many functions are traced.
        cpus: one more than the highest number of a CPU.
    """

    functions: int
    cpus: int

    @property
    def every(self) -> int:
        """Of how many calls one looks at the occupancy, in the mean."""
        return max(_FEWEST_CALLS, _CALLS_A_CPU * self.cpus)

    @property
    def step(self) -> int:
        """How many occupancies have their durations added up together."""
        return -(-self.cpus // _MOST_STEPS)

    @property
    def steps(self) -> int:
        """How many such groups there are."""
        return -(-self.cpus // self.step)

    @property
    def frame_bytes(self) -> int:
        """By how much ``struct frame`` of trace.bpf.c grows."""
        return 8 + 8 * -(-self.functions // 64)

    def knobs(self) -> dict[str, int]:
        """Return the macros."""
        return {
            "OCCUPANCY": 1,
            "CPUS": self.cpus,
            "OCCUPANCY_EVERY": self.every,
            "OCCUPANCY_STEP": self.step,
        }
