"""A part that counts in per-CPU maps of a program with probes of its own.

Knows: the steps that such parts have in common: attach, forget the last run's counts, read this
run's, tell what the kernel skipped.
Leaves to others: the program and what its maps mean (the parts).
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from contextlib import ExitStack

from faultprof.bpf.probes import ProbeSet
from faultprof.bpf.program import Program, settle
from faultprof.capture.contention.probed import Probed
from faultprof.capture.contention.setting import Setting
from faultprof.capture.scope import Scope

MAX_TASKS = 16384


class CountingProgram:
    """A program of probes/ that follows faults task by task, with its probes attached.

    Args:
        name: its file.
        knobs: those of its own.
        probed: its functions.
        setting: whose tasks, on which kernel.
        tasks: its map of tasks.
        inside: format of one of that map's values, as ``struct`` has it, with one field: whether
            the task is in the middle of something.

    Attributes:
        unfinished: tasks that were when the last run was stopped.

    Raises:
        FaultprofError: it cannot be loaded or attached (exit code 3).
    """

    def __init__(
        self,
        name: str,
        knobs: Mapping[str, int],
        probed: Probed,
        setting: Setting,
        *,
        tasks: str,
        inside: str,
    ) -> None:
        scope = self._scope = setting.scope
        self.unfinished = 0
        self._tasks = tasks
        self._inside = struct.Struct(inside)
        with ExitStack() as undo:
            every = {**scope.knobs(), **probed.knobs(), "MAX_TASKS": MAX_TASKS, **knobs}
            self.program = undo.enter_context(Program(name, every, lent=scope.lent_maps()))
            scope.attach(self.program)
            self.program.attach_raw_tracepoint("sched_process_free", "on_task_free")
            self._probes: ProbeSet = probed.attach(self.program, setting.types)
            undo.callback(self._probes.close)
            self._undo = undo.pop_all()
        self._skipped_before = self._skipped()

    def start(self) -> None:
        """Let it count, where no other engine does that."""
        self._scope.start(self.program)

    def stop(self) -> int:
        """Stop following tasks, and return how many hits the kernel skipped in this run.

        What is in the middle of something is not counted, but in ``unfinished``.
        """
        self._scope.stop(self.program)
        _, states = self.program.read_hash_records(self._tasks)
        self.unfinished = sum(self._inside.unpack_from(one.tobytes())[0] for one in states)
        self.program.clear(self._tasks)
        settle()
        return self._skipped() - self._skipped_before

    def next_run(self, scope: Scope, tables: Mapping[str, int]) -> None:
        """Forget what was counted in ``tables``, given with their sizes."""
        self._scope = scope
        scope.move_to(self.program)
        self.program.clear(self._tasks)
        for table, size in tables.items():
            self.program.zero(table, range(size))
        self._skipped_before = self._skipped()

    def close(self) -> None:
        """Detach and free everything; safe to repeat."""
        self._undo.close()

    def _skipped(self) -> int:
        """Return how many hits the kernel has skipped so far because a program was preempted."""
        return sum(self._probes.misses().values())
