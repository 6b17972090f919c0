"""A wait is charged to the innermost traced function that its task is in.

This kernel traces nothing, so the shadow stacks are written by hand: each task is in one function,
and has another on its stack that must have returned, as it would lie below.
"""

from __future__ import annotations

import ctypes
import os
import subprocess
import time
from contextlib import closing
from pathlib import Path
from typing import Any, cast

import pytest

from faultprof.bpf.maps import _UPDATE, Map
from faultprof.capture.contention.locks import Locks
from faultprof.capture.contention.setting import Setting
from faultprof.capture.options import RecordOptions
from faultprof.capture.scope import Scope
from faultprof.capture.trace_knobs import TASK_HEAD, frame_layout
from faultprof.capture.tracing import Tracer
from tests.perf_locks import compiled

pytestmark = pytest.mark.noisy("threads that must meet")

INSIDE, GONE = 7, 9
ABOVE, BELOW = 2**64 - 1, 1  # addresses: of a caller of everything, of a callee of everything
PATH = ("handle_mm_fault", "do_anonymous_page")
ATTEMPTS = 20  # to see the threads meet


class FakeTracer:
    """Lends a shadow stack that nobody keeps."""

    def lend_shadow_stack(self) -> tuple[dict[str, int], dict[str, Map]]:
        return {"MULTIPLICITY": 1, "MAX_TASKS": 64, "OCCUPANCY": 0}, {}

    def node_paths(self) -> dict[int, tuple[str, ...]]:
        return {0: (), INSIDE: PATH, GONE: ("no", "such", "place")}


def _write_stacks(tasks: Map, keys: Any) -> None:
    """Put every task into the function."""
    frame = frame_layout(None)
    frames = frame.pack(0, ABOVE, 0, 0, INSIDE, 1, 0, 0) + frame.pack(0, BELOW, 0, 0, GONE, 2, 0, 0)
    record = (TASK_HEAD.pack(0, 0, 0, 0, 2, 0) + frames).ljust(tasks.spec.value_size, b"\0")
    value = ctypes.create_string_buffer(record, len(record))
    for key in keys:
        tasks._element(_UPDATE, ctypes.create_string_buffer(key.tobytes(), 8), value)


def _of_the_program(locks: Locks) -> list[dict[str, Any]]:
    """Return the waits for its pipe; this process is in scope, too, and waits for other things."""
    return [one for one in locks.stop()["waits"] if one["lock"] == "pipe->mutex"]


def test_waits_are_in_the_function_that_has_not_returned(tmp_path: Path) -> None:
    scope = Scope(os.getpid())
    tracer = cast(Tracer, FakeTracer())
    setting = Setting(RecordOptions(tmp_path / "x"), scope, None, tracer)
    with closing(Locks(setting)) as locks:
        program = locks._program
        scope.attach(program)
        scope.start(program)
        command = [compiled(tmp_path), "8", "120000"]
        with subprocess.Popen(command, stdout=subprocess.DEVNULL) as process:
            try:
                while len(program.read_hash_records("scope_tasks")[0]) < 9:
                    time.sleep(0.05)
                _write_stacks(program.map("tasks"), program.read_hash_records("scope_tasks")[0])
                # Waits that had begun before are charged to no function.
                program.clear("waits")
                for _ in range(ATTEMPTS):
                    time.sleep(0.5)
                    if sum(one["waits"] for one in _of_the_program(locks)) > 100:
                        break
                scope.stop(program)
                rows = _of_the_program(locks)
            finally:
                process.kill()
    assert {(one["path"], one["stack"]) for one in rows} == {(PATH, None)}
