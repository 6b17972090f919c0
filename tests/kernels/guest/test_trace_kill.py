"""Nothing stays attached when a trace is killed, and so has no chance to take it off."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from pathlib import Path

EVENTS = Path("/sys/kernel/tracing/kprobe_events")


def _attached() -> set[str]:
    """Return the names of our programs and of our definitions of kprobes."""
    listed = subprocess.run(["bpftool", "-j", "prog"], capture_output=True, text=True, check=True)
    names = {program.get("name", "") for program in json.loads(listed.stdout)}
    ours = {name for name in names if name.startswith(("on_", "enter_", "leave_"))}
    return ours | {line for line in EVENTS.read_text().splitlines() if "_bcc_" in line}


def _wait_for(file: Path) -> int:
    while not (file.exists() and file.read_text().endswith("\n")):
        time.sleep(0.1)
    return int(file.read_text())


def test_a_killed_trace_leaves_nothing(tmp_path: Path) -> None:
    from tests.running import FAULTPROF

    started = tmp_path / "started"
    trace = ("record", "--mode", "trace", "--attach", "kprobe", "-f", "do_wp_page", "-F", "99")
    command = ("sh", "-c", f"echo $$ >{started}; exec sleep 1000")
    recorder = subprocess.Popen([*FAULTPROF, *trace, "-o", tmp_path / "x.fprof", "--", *command])
    child = _wait_for(started)
    assert any("leave" in name for name in _attached())
    recorder.kill()
    recorder.wait()
    os.kill(child, signal.SIGKILL)
    # The kernel frees programs a moment after their last user has gone.
    for _ in range(100):
        if not _attached():
            break
        time.sleep(0.1)
    assert _attached() == set()
