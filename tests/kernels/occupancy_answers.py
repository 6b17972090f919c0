"""Occupancy with four CPUs, more than the other guests have: by hand, not collected."""

from __future__ import annotations

from dataclasses import replace

import pytest

from .vm.machine import Machine
from .vm.session import run_script

pytestmark = pytest.mark.noisy("a CPU held up")

CPUS = 4

SCRIPT = """\
cd /job/src
python - <<'end'
from pathlib import Path
from tests.kernels.guest.occupied import occupancy
from tests.kernels.guest.traced_shell import compiled

found = occupancy(Path("/tmp/x.fprof"), compiled("faulters.c", Path("/tmp")), threads=4)
fault = found["functions"]["handle_mm_fault"]
assert fault["most"] == 4, fault
assert fault["inside"][-1][0] == 4, fault
assert [met["occupancy"] for met in fault["by_occupancy"]][-1] == 4, fault
print(fault["mean"], fault["mean_by_trace"])  # four emulated CPUs on two: up to 5% apart
end
"""


def test_four_threads_on_four_cpus(machine: Machine, capsys: pytest.CaptureFixture[str]) -> None:
    result = run_script(replace(machine, cpus=CPUS), SCRIPT)
    assert result.status == 0, result.output
    with capsys.disabled():
        print(f"\n{result.output}")
