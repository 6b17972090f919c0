"""What happened in the last second: the engines' counts while they go on, and what that costs.

Knows: that counts only grow between two looks, which stacks are new, and how the kernel's own
accounting of BPF programs is turned on and off.
Leaves to others: rates and trends (analysis), when to look (whoever watches), the engines.

A look disturbs little: maps are read in batches, a stack is named once, when it is first seen, and
the kernel times the programs' runs, which costs them some 20 ns each, only now and then.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack, closing, suppress
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Self

from faultprof.bpf import syscall
from faultprof.capture.fault_kinds import FaultCounter
from faultprof.capture.paths import name_paths
from faultprof.kernel.symbols import Symbolizer
from faultprof.recording.frames import Frame

if TYPE_CHECKING:
    from faultprof.capture.engines import Engines
    from faultprof.capture.sampling import Samples

# Of so many looks one finds the programs' runs timed.
_COST_EVERY = 10

# Counters of the sampler that are losses.
_LOSSES = {"map_full": "stacks beyond the map", "map_busy": "samples with the map in use"}


@dataclass(eq=False, slots=True)
class CallNode:
    """A node of the call tree; there is one of each, so that they are compared by identity.

    ``recursive``: whether it lies below another node of its function.
    """

    frame: Frame
    caller: CallNode | None = None
    recursive: bool = False
    callees: dict[Frame, CallNode] = field(default_factory=dict, repr=False)

    def callee(self, frame: Frame) -> CallNode:
        """Return the node of what is called from here."""
        if frame not in self.callees:
            self.callees[frame] = CallNode(frame, self, frame in self._callers())
        return self.callees[frame]

    def _callers(self) -> set[Frame]:
        """Return this frame and all above it."""
        found, here = set(), self if self.frame.function else None
        while here is not None:
            found.add(here.frame)
            here = here.caller
        return found


@dataclass(frozen=True, slots=True)
class NodeTick:
    """What one node of a call tree came to between two looks: calls, or samples; times in ns.

    Without a tracer ``inclusive`` and ``own`` are samples, and ``calls`` is None.
    """

    calls: int | None
    inclusive: int
    own: int


@dataclass(frozen=True, slots=True)
class Tick:
    """What happened between two looks.

    Attributes:
        seconds: between the two.
        faults: by kind, see ``capture.fault_kinds``.
        nodes: of the tracer's tree, or of samples without one; those with anything new.
        samples: all samples; with a tracer there are few.
        own_cpu_s: CPU seconds that this process used.
        probes_ns: ns that BPF programs ran; None when the kernel did not time them.
        probe_runs: how often they ran meanwhile; None likewise.
        waits: by lock, contentions and ns waited; None when nobody looks at locks.
        lost: what was not counted since the beginning, by what it is.
    """

    seconds: float
    faults: Mapping[str, int] = field(default_factory=dict)
    nodes: Mapping[CallNode, NodeTick] = field(default_factory=dict)
    samples: int = 0
    own_cpu_s: float = 0.0
    probes_ns: int | None = None
    probe_runs: int | None = None
    waits: Mapping[str, tuple[int, int]] | None = None
    lost: Mapping[str, int] = field(default_factory=dict)


class LiveReader:
    """Looks at engines again and again; frees what it has attached itself when closed.

    Args:
        engines: attached; the reader is to be closed before them.
        owner: whose cache of debuginfo is used; None for the caller's.
        clock: gives seconds.

    Raises ``FaultprofError`` (exit code 3) when faults cannot be counted here.
    """

    def __init__(
        self,
        engines: Engines,
        owner: tuple[int, int] | None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._engines = engines
        self._clock = clock
        self._kernel = Symbolizer(owner=owner)
        self._top = CallNode(Frame(""))
        self._paths: dict[bytes, tuple[CallNode, ...]] = {}
        self._stacks: dict[bytes, int] = {}
        self._calls: dict[tuple[str, ...], tuple[int, int, int]] = {}
        self._traced: dict[tuple[str, ...], CallNode] = {}
        with ExitStack() as undo:
            self._faults = undo.enter_context(closing(FaultCounter(engines.lend_scope())))
            self._timing = undo.enter_context(closing(_Timing(self._costs)))
            self._undo = undo.pop_all()
        self.start()

    def start(self) -> None:
        """Begin the first interval now."""
        self._at, self._cpu_s = self._clock(), time.process_time()
        self._counted = self._faults.read()

    def forget(self) -> None:
        """Know that the engines count from 0 again; the interval goes on."""
        self._stacks.clear()
        self._calls.clear()

    def look(self) -> Tick:
        """Return what happened since the last time."""
        peek = self._engines.peek()
        now, cpu_s, faults = self._clock(), time.process_time(), self._faults.read()
        samples = self._new_samples(peek.samples, infer=peek.sampling.fault_labels)
        runs, ns = self._timing.take()
        tick = Tick(
            seconds=max(now - self._at, 1e-9),
            faults={kind: count - self._counted.get(kind, 0) for kind, count in faults.items()},
            nodes=_sampled(samples) if peek.traced is None else self._called(peek.traced),
            samples=sum(samples.values()),
            own_cpu_s=cpu_s - self._cpu_s,
            probes_ns=ns,
            probe_runs=runs,
            lost={text: peek.samples.stats[name] for name, text in _LOSSES.items()},
        )
        self._at, self._cpu_s, self._counted = now, cpu_s, faults
        return tick

    def close(self) -> None:
        """Detach and free everything of its own; safe to repeat."""
        self._undo.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _costs(self) -> tuple[int, int]:
        runs, ns = self._engines.costs()
        more_runs, more_ns = self._faults.costs()
        return runs + more_runs, ns + more_ns

    def _new_samples(self, samples: Samples, *, infer: bool) -> dict[tuple[CallNode, ...], int]:
        """Return the samples since the last time, by path."""
        keys = [key.tobytes() for key in samples.keys]
        counts = dict(zip(keys, samples.counts.tolist(), strict=True))
        self._name(samples, [key not in self._paths for key in keys], infer=infer)
        fresh: dict[tuple[CallNode, ...], int] = {}
        for key, count in counts.items():
            if new := count - self._stacks.get(key, 0):
                path = self._paths[key]
                fresh[path] = fresh.get(path, 0) + new
        self._stacks = counts
        return fresh

    def _name(self, samples: Samples, unknown: list[bool], *, infer: bool) -> None:
        import numpy as np

        if not any(unknown):
            return
        which = np.array(unknown)
        new = replace(samples, keys=samples.keys[which], counts=samples.counts[which])
        named = name_paths(new, self._kernel, None, infer=infer)
        for key, path in zip(new.keys, named.paths, strict=True):
            nodes, here = [], self._top
            for frame in path.frames:
                here = here.callee(frame)
                nodes.append(here)
            self._paths[key.tobytes()] = tuple(nodes)

    def _called(
        self, found: Mapping[tuple[str, ...], tuple[int, int, int]]
    ) -> dict[CallNode, NodeTick]:
        nodes = {}
        for path, figures in found.items():
            before = self._calls.get(path, (0, 0, 0))
            # One CPU's part may be a call behind another's at a look.
            new = [max(now - then, 0) for now, then in zip(figures, before, strict=True)]
            if any(new):
                nodes[self._node(path)] = NodeTick(*new)
        self._calls = dict(found)
        return nodes

    def _node(self, path: tuple[str, ...]) -> CallNode:
        if path not in self._traced:
            caller = self._node(path[:-1]) if len(path) > 1 else self._top
            self._traced[path] = caller.callee(Frame(path[-1]))
        return self._traced[path]


class _Timing:
    """Has the kernel time BPF programs in one interval of ``_COST_EVERY``."""

    def __init__(self, costs: Callable[[], tuple[int, int]]) -> None:
        self._costs = costs
        self._before = (0, 0)
        self._switch = -1
        self._looks = 0
        self._turn_on()

    def take(self) -> tuple[int | None, int | None]:
        """Return runs and ns of the interval that ends, or None twice; prepare the next one."""
        self._looks += 1
        found: tuple[int | None, int | None] = (None, None)
        if self._switch >= 0:
            runs, ns = self._costs()
            found = runs - self._before[0], ns - self._before[1]
            self.close()
        elif self._looks % _COST_EVERY == 0:
            self._turn_on()
        return found

    def close(self) -> None:
        """Turn the timing off, unless somebody else has it on; safe to repeat."""
        if self._switch >= 0:
            os.close(self._switch)
            self._switch = -1

    def _turn_on(self) -> None:
        with suppress(OSError):  # before Linux 5.8: then the cost is not known
            self._switch = syscall.enable_run_stats()
            self._before = self._costs()


def _sampled(samples: Mapping[tuple[CallNode, ...], int]) -> dict[CallNode, NodeTick]:
    """Add samples of whole paths up for each node on the way."""
    inclusive: dict[CallNode, int] = {}
    own: dict[CallNode, int] = {}
    for path, count in samples.items():
        for node in path:
            inclusive[node] = inclusive.get(node, 0) + count
        own[path[-1]] = own.get(path[-1], 0) + count
    return {node: NodeTick(None, count, own.get(node, 0)) for node, count in inclusive.items()}
