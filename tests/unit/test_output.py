"""What all commands do with their output alike."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest


@pytest.mark.parametrize("buffered", [True, False])
@pytest.mark.parametrize("command", [["workload", "list"], ["workload", "list", "--json"]])
def test_a_reader_that_has_gone_is_no_error(command: list[str], buffered: bool) -> None:
    """Typer would end with 1 when a command writes, and Python complain when it exits."""
    reading, writing = os.pipe()
    os.close(reading)
    options = [] if buffered else ["-u"]
    done = subprocess.run(
        [sys.executable, *options, "-m", "faultprof", *command],
        stdout=writing,
        stderr=subprocess.PIPE,
        check=False,
    )
    os.close(writing)
    assert (done.returncode, done.stderr) == (0, b"")
