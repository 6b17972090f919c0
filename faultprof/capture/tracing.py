"""The tracing engine: attaches the plan's probes and reads the call tree back.

Knows: the maps of probes/trace.bpf.c and what its counters mean.
Leaves to others: which functions and how (trace_plan), adding up (trace_totals), what the numbers
mean (analysis).
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass

from faultprof.bpf.bytecode import FUNCTION_NUMBER, FUNCTION_WHAT
from faultprof.bpf.maps import Map
from faultprof.bpf.perf_event import SW_PAGE_FAULTS
from faultprof.bpf.probes import ProbeSet
from faultprof.bpf.probing import try_kprobe_multi
from faultprof.bpf.program import Program, added_costs, settle
from faultprof.capture.occupancy_knobs import OccupancyKnobs
from faultprof.capture.scope import Scope, TaskCounter
from faultprof.capture.trace_knobs import TASK_HEAD, frame_layout, kernel_knobs
from faultprof.capture.trace_plan import TracedFunction, TracePlan
from faultprof.capture.trace_totals import (
    NodeTotals,
    added_up,
    brief_totals,
    by_path,
    close_open_frames,
    totals_of,
)
from faultprof.errors import FaultprofError
from faultprof.kernel.conditions import Types

MAX_NODES = 1024
_MAX_TASKS = 8192
_MAX_DEPTH = 32

# Placeholders of the templates.

# enum stat of the program.
_STATS = (
    "entries",
    "hits",
    "returns",
    "unmatched_returns",
    "missed_returns",
    "too_deep",
    "in_interrupt",
    "tasks_full",
    "nodes_full",
    "exited_inside",
    "faults",
    "faults_retried",
    "faults_under_vma_lock",
    "callees_full",
)

_NODE = struct.Struct("=IHH")  # parent, function, used


@dataclass(slots=True)
class Traced:
    """What one run left in the kernel.

    Attributes:
        nodes: totals by path; a path is the numbers of its functions, root first.
        stats: the program's counters, by the names in ``_STATS``.
        open_frames: calls that had not returned when the recording ended.
        misses: hits that the kernel skipped during the run, by function.
        kprobe_misses: hits of any kprobe that it skipped then, as far as it tells.
        page_faults: what the kernel counted by itself (PERF_COUNT_SW_PAGE_FAULTS); None when
            every task was recorded.
    """

    nodes: dict[tuple[int, ...], NodeTotals]
    stats: dict[str, int]
    open_frames: int
    misses: dict[str, int]
    kprobe_misses: int
    page_faults: int | None


class Tracer:
    """Probes attached but quiet until started; frees everything when closed.

    Args:
        scope: whose calls are traced.
        plan: the functions.
        types: the running kernel's BTF.
        off_cpu: whether to tell waiting from working.
        occupancy: knobs of probes/occupancy.h; None for a trace without it.
        padded: whether :meth:`pad` may make the probes dearer.
        pausable: whether a stop may come before the end, and :meth:`go_on` after it.

    Attributes:
        failed: why functions could not be attached after all, by name; they are left out.

    Raises ``FaultprofError`` (exit code 3) when the programs cannot be compiled or loaded.
    """

    def __init__(
        self,
        scope: Scope,
        plan: TracePlan,
        types: Types,
        *,
        off_cpu: bool = True,
        occupancy: OccupancyKnobs | None = None,
        padded: bool = False,
        pausable: bool = False,
    ) -> None:
        self.scope = scope
        self.plan = plan
        self.types = types
        self.off_cpu = off_cpu
        self.occupancy = occupancy
        self.padded = padded
        self.pausable = pausable
        self.failed: dict[str, str] = {}
        self._misses_before: dict[str, int] = {}
        self._kprobe_misses_before = 0
        kprobed = [one for one in plan.functions if one.method == "kprobe" and one.at_symbols]
        self._together = kprobed if kprobed and try_kprobe_multi().works else []
        with ExitStack() as undo:
            self._program = undo.enter_context(Program("trace.bpf.c", self._knobs()))
            self.frame = frame_layout(occupancy)
            for node in range(1, MAX_NODES):
                self._program.push("free_nodes", node)
            self.scope.attach(self._program)
            self._attach_tracepoints()
            self._probes = ProbeSet(self._program, types.function_id)
            undo.callback(self._probes.close)
            self._faults = TaskCounter(scope, SW_PAGE_FAULTS)
            undo.callback(lambda: self._faults.close())  # the last run's
            self._attach_all()
            self._undo = undo.pop_all()

    def start(self) -> None:
        """Let the probes count; a held command is traced from its exec(2) on."""
        self.scope.start(self._program)

    def stop(self, *, detach: bool = True) -> Traced:
        """Return what the probes counted.

        Args:
            detach: take the probes off; without that, another run may follow. What its command
                has left behind is then not looked at any more.
        """
        lost_tasks = self.scope.stop(self._program)
        faults, misses, kprobe_misses = self._faults.read(), self.misses(), self.kprobe_misses()
        if detach:
            self._probes.close()
        if self.pausable:
            settle()  # what has begun to run counts to its end
        inside = list(self._read_open_frames())
        if not detach:
            self._program.clear("tasks")
            settle()
        stats = self.counters()
        nodes = self._read_nodes()
        totals = {node: self._read_totals(node) for node in nodes}
        open_frames = close_open_frames(totals, inside)
        stats["lost_tasks"] = lost_tasks
        return Traced(
            by_path(nodes, totals),
            stats,
            open_frames,
            _grown(misses, self._misses_before),
            kprobe_misses - self._kprobe_misses_before,
            faults.value if faults else None,
        )

    def next_run(self, scope: Scope) -> None:
        """Forget what was counted, after :meth:`stop`, and trace other tasks from now on.

        The tree's nodes stay, so that the same paths need no new ones.
        """
        self.scope = scope
        scope.move_to(self._program)
        self._faults.close()
        self._faults = TaskCounter(scope, SW_PAGE_FAULTS)
        self._forget()

    def go_on(self) -> None:
        """Forget what was counted, after :meth:`stop`, and trace the same tasks again.

        A call that was under way at the stop is not followed any more.
        """
        self._faults.restart()
        self._forget()
        self.scope.resume(self._program)

    def peek(self) -> dict[tuple[str, ...], tuple[int, int, int]]:
        """Return calls, inclusive and self ns of what has returned so far, by path, root first.

        While it is counted, and cheaply: the figures of one path need not be of one moment.
        """
        nodes = self._read_nodes()
        figures = brief_totals(self._program.read_array("totals", len(nodes) + 1), len(nodes) + 1)
        found: dict[tuple[str, ...], tuple[int, int, int]] = {}
        paths = self._paths(nodes)
        for number in nodes:
            path = paths[number]
            calls, inclusive, own = found.get(path, (0, 0, 0))
            one = figures[number]
            found[path] = calls + one[0], inclusive + one[1], own + one[2]
        return found

    def costs(self) -> tuple[int, int]:
        """Return how often the programs have run, and for how many ns, while that was measured."""
        return added_costs([self._program.costs(), self._probes.costs()])

    def lend_scope(self) -> Scope:
        """Return the scope for an engine beside this one, so that tasks are followed once."""
        return self.scope.borrowed(self._program)

    def lend_shadow_stack(self) -> tuple[dict[str, int], dict[str, Map]]:
        """Return knobs and maps for a program beside this one that includes shadow_stack.h."""
        knobs = {
            "MULTIPLICITY": 1,
            "MAX_TASKS": _MAX_TASKS,
            "OCCUPANCY": int(self.occupancy is not None),
            "FUNCTIONS": len(self.plan.functions),
        }
        return knobs, {"tasks": self._program.map("tasks")}

    def node_paths(self) -> dict[int, tuple[str, ...]]:
        """Return the path of each node of the tree: its functions' names, root first."""
        return self._paths(self._read_nodes())

    def counters(self) -> dict[str, int]:
        """Return the program's counters as they are now."""
        return dict(zip(_STATS, self._program.read_counters("stats"), strict=True))

    def misses(self) -> dict[str, int]:
        """Return how many hits the kernel has skipped so far, by function."""
        return self._probes.misses()

    def kprobe_misses(self) -> int:
        """Return how many hits of kprobes the kernel has skipped so far, as far as it tells."""
        return self._probes.kprobe_misses()

    def calls(self) -> dict[str, int]:
        """Return how often each function has been called so far, over all paths."""
        calls: dict[str, int] = dict.fromkeys((one.name for one in self.plan.functions), 0)
        for path, totals in self.totals().items():
            calls[path[-1]] += totals.calls
        return calls

    def totals(self) -> dict[tuple[str, ...], NodeTotals]:
        """Return what has been counted so far, by the names of a path's functions, root first."""
        nodes = self._read_nodes()
        found = by_path(nodes, {node: self._read_totals(node) for node in nodes})
        names = [one.name for one in self.plan.functions]
        return {tuple(names[number] for number in path): one for path, one in found.items()}

    def pad(self, waits_ns: Sequence[int]) -> None:
        """Let each function's probes wait so long at each hit from now on."""
        for number, ns in enumerate(waits_ns):
            self._program.write("pad_ns", number, struct.pack("=Q", ns))

    def padded_ns(self) -> int:
        """Return how long all probes have waited so."""
        (waited,) = self._program.read_counters("padded_ns")
        return waited

    def close(self) -> None:
        """Detach and free everything; safe to repeat."""
        self._undo.close()

    @property
    def program(self) -> Program:
        """The compiled trace.bpf.c; freed when the tracer is closed."""
        return self._program

    def _knobs(self) -> dict[str, int]:
        alone = [one for one in self.plan.functions if one.points and one not in self._together]
        return {
            **self.scope.knobs(),
            **self.plan.knobs(),
            **kernel_knobs(self.types),
            "FENTRY": int(any(one.method == "fentry" for one in alone)),
            "KPROBE": int(any(one.method == "kprobe" for one in alone)),
            "KPROBE_MANY": int(bool(self._together)),
            "HITS": int(any(one.method is None for one in alone)),
            "OFFCPU": int(self.off_cpu),
            **(self.occupancy.knobs() if self.occupancy is not None else {"OCCUPANCY": 0}),
            "PAD": int(self.padded),
            "MULTIPLICITY": 1,
            "PAUSABLE": int(self.pausable),
            "MAX_NODES": MAX_NODES,
            "MAX_TASKS": _MAX_TASKS,
        }

    def _attach_tracepoints(self) -> None:
        programs = {"sched_process_free": "on_task_free"}
        if self.off_cpu or self.occupancy is not None:
            programs["sched_switch"] = "on_switch"
        for tracepoint, function in programs.items():
            self._program.attach_raw_tracepoint(tracepoint, function)

    def _attach_all(self) -> None:
        try:
            self._attach_together(self._together)
        except FaultprofError:
            # One of them is to blame; the others go on.
            for function in self._together:
                self._try(function, lambda function: self._attach_together([function]))
        for function in self.plan.functions:
            if function not in self._together:
                self._try(function, self._attach)

    def _try(self, function: TracedFunction, attach: Callable[[TracedFunction], None]) -> None:
        try:
            attach(function)
        except FaultprofError as error:
            self.failed[function.name] = error.message

    def _attach_together(self, functions: Sequence[TracedFunction]) -> None:
        cookies = {
            point.symbol: one.number | int(one.what) << 16
            for one in functions
            for point in one.points
        }
        if cookies:
            self._probes.attach_together(cookies)

    def _attach(self, function: TracedFunction) -> None:
        constants = {FUNCTION_NUMBER: function.number, FUNCTION_WHAT: int(function.what)}
        for point in function.points:
            if function.method is None:
                self._probes.attach_hit(point, constants)
            else:
                self._probes.attach_pair(point, function.method, constants)

    def _read_nodes(self) -> dict[int, tuple[int, int]]:
        """Return parent and function by node; nodes are handed out in order."""
        nodes: dict[int, tuple[int, int]] = {}
        read = _NODE.iter_unpack(self._program.read_array("nodes", MAX_NODES))
        for number, (parent, function, used) in enumerate(read):
            if number and not used:
                break
            if number:  # 0 is the root
                nodes[number] = (parent, function)
        return nodes

    def _paths(self, nodes: dict[int, tuple[int, int]]) -> dict[int, tuple[str, ...]]:
        names = [one.name for one in self.plan.functions]
        paths: dict[int, tuple[str, ...]] = {0: ()}
        for node, (parent, function) in nodes.items():
            paths[node] = (*paths[parent], names[function])
        return paths

    def _forget(self) -> None:
        self._program.zero("totals", self._read_nodes())
        self._program.zero("stats", range(len(_STATS)))
        self._misses_before = self.misses()
        self._kprobe_misses_before = self.kprobe_misses()

    def _read_totals(self, node: int) -> NodeTotals:
        per_cpu = self._program.read_per_cpu("totals", node)
        return added_up([totals_of(cpu) for cpu in per_cpu if any(cpu)])

    def _read_open_frames(self) -> Iterator[list[tuple[int, int]]]:
        """Yield of each task that is inside traced functions (node, children's ns), root first."""
        _, states = self._program.read_hash_records("tasks")
        for state in states:
            record = state.tobytes()
            depth = min(TASK_HEAD.unpack_from(record)[4], _MAX_DEPTH)
            frames = [
                self.frame.unpack_from(record, TASK_HEAD.size + level * self.frame.size)
                for level in range(depth)
            ]
            if frames:
                yield [(frame[4], frame[2]) for frame in frames]


def _grown(counts: dict[str, int], before: dict[str, int]) -> dict[str, int]:
    """Return by how much counters have grown, those that have."""
    grown = {name: count - before.get(name, 0) for name, count in counts.items()}
    return {name: count for name, count in grown.items() if count}
