"""A program that is faster the slower one of its functions is, on a stock kernel with 4 CPUs.

Run by hand, not collected, on a host with two idle CPUs or more: python -m pytest
tests/kernels/anomaly_answers.py. On one with eight times as much work as CPUs a delay of 100 us
took 2.4 ms, and the threads were kept apart by that alone: then nothing is to be seen.
"""

from __future__ import annotations

import json
from dataclasses import replace

from .vm import session
from .vm.machine import Machine

COLLIDE = """
cd /job/src
cc -O1 -pthread -o /tmp/collide examples/surprise/collide.c
python -m faultprof perturb -q --at __handle_mm_fault --delay 0,50us,100us --repeat 6 --seed 1 \\
    --no-cost --json -- /tmp/collide {arguments}
"""


def test_a_delay_outside_of_what_threads_collide_on_makes_them_faster(machine: Machine) -> None:
    machine = replace(machine, cpus=4)
    result = session.run_script(machine, COLLIDE.format(arguments=""))
    assert result.status == 0, result.output
    found = json.loads(result.output[result.output.index("{") :])
    print(found)
    assert found["verdict"] == "anomaly: slower is faster"
    assert found["index"]["high"] < 0
    assert found["missed"] <= 1e-4 * sum(dose["due"] for dose in found["doses"])
