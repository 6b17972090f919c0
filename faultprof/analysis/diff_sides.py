"""One side of a diff: a recording's call tree under logical names, with the figures of each run.

Knows: how a recording's trees, of samples or of traced calls, become nodes that can be matched.
Leaves to others: matching them (``diff``), and what a difference is worth (``diff_worth``).

All figures are whole: samples, or calls and nanoseconds. A node's inclusive figure is its own plus
its children's, and those of all runs add up to what ``report`` shows of the recording.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from faultprof.analysis.calls import Calls
from faultprof.analysis.functions import Function, join_resolutions
from faultprof.analysis.logical import LogicalNames
from faultprof.analysis.probe_frames import Unprobed
from faultprof.analysis.run_trees import RunTrees
from faultprof.analysis.trace_tree import TraceNode, TraceTree
from faultprof.analysis.tree import CallTree
from faultprof.recording.frames import UNRESOLVED, Frame
from faultprof.recording.metadata import Metadata
from faultprof.recording.reader import Recording
from faultprof.recording.schema import SAMPLE, TRACE

NOT_THERE = "not in the text]"  # how the names of an import's unknown parts end


@dataclass(slots=True)
class Figures:
    """What a node comes to: samples or nanoseconds, and calls where they were traced."""

    inclusive: int = 0
    own: int = 0
    calls: int = 0
    durations: int = 0  # of all calls that have a time
    timed_calls: int = 0

    def add(self, other: Figures) -> None:
        """Add another part of the same node."""
        self.inclusive += other.inclusive
        self.own += other.own
        self.calls += other.calls
        self.durations += other.durations
        self.timed_calls += other.timed_calls


class SampledRuns(Mapping[int, Figures]):
    """The figures of a node of samples in each run, which are worked out when they are wanted.

    A recording has a hundred thousand nodes, and of a few of them the runs are looked at.
    """

    __slots__ = ("_place", "_trees")

    def __init__(self, trees: RunTrees, place: int) -> None:
        """Stand for the node at ``place``."""
        self._trees, self._place = trees, place

    def __getitem__(self, run: int) -> Figures:
        """Return the figures of a run."""
        samples, own = self._trees.samples[run], self._trees.self_samples[run]
        return Figures(int(samples[self._place]), int(own[self._place]))

    def __iter__(self) -> Iterator[int]:
        """Iterate over the runs."""
        return iter(self._trees.samples)

    def __len__(self) -> int:
        """Return the number of runs."""
        return len(self._trees.samples)


@dataclass(slots=True)
class SideNode:
    """A function on one path.

    Attributes:
        function: logical name and module.
        names: what it is called here.
        resolutions: how it was found.
        total: figures of all runs.
        by_run: figures of each run.
        children: by function.
        implied: whether the recording does not have it, but what is below it; see ``diff``.
    """

    function: Function
    names: frozenset[str] = frozenset()
    resolutions: frozenset[str] = frozenset()
    total: Figures = field(default_factory=Figures)
    by_run: Mapping[int, Figures] = field(default_factory=dict)
    children: dict[Function, SideNode] = field(default_factory=dict)
    implied: bool = False

    def add(self, run: int, figures: Figures) -> None:
        """Add what the node comes to in a run."""
        assert isinstance(self.by_run, dict)
        self.total.add(figures)
        self.by_run.setdefault(run, Figures()).add(figures)

    def child(self, name: str, frame: Frame) -> SideNode:
        """Return the child for a frame whose logical name is ``name``, made at need."""
        function = name, frame.module
        node = self.children.get(function)
        if node is None:
            node = self.children[function] = SideNode(function)
        node.names |= {frame.function}
        node.resolutions |= _resolutions(frame)
        return node

    def walk(self) -> Iterator[SideNode]:
        """Yield the node and all below it."""
        waiting = [self]
        while waiting:
            node = waiting.pop()
            yield node
            waiting += node.children.values()

    @property
    def frame(self) -> Frame:
        """The function under its logical name."""
        return Frame(*self.function, join_resolutions(self.resolutions or {""}))


@dataclass(slots=True)
class DiffSide:
    """A recording as one side of a diff.

    Attributes:
        metadata: of the recording.
        top: stands above all roots, and has no figures of its own.
        totals: what is 100 percent in each run: samples or nanoseconds.
        faults: calls of handle_mm_fault in each run; empty without a trace.
        names: the logical names.
        expanded: whether inlined functions are known here from debuginfo.
        least: of a tree that was cut before it was imported, the smallest figure that it has;
            None of a whole one.
    """

    metadata: Metadata
    top: SideNode
    totals: dict[int, int]
    faults: dict[int, int]
    names: LogicalNames
    expanded: bool
    least: int | None = None

    @property
    def total(self) -> int:
        """What is 100 percent of all runs together."""
        return sum(self.totals.values())

    @property
    def all_faults(self) -> int:
        """Faults of all runs together; 0 where they were not traced."""
        return sum(self.faults.values())

    @property
    def runs(self) -> tuple[int, ...]:
        """Numbers of the runs."""
        return tuple(self.totals)

    def functions(self) -> set[Function]:
        """Return all functions of the tree."""
        return {node.function for child in self.top.children.values() for node in child.walk()}


@dataclass(frozen=True, slots=True)
class Folding:
    """Functions, by logical name, that are not told apart since one side could not.

    Attributes:
        folded: left out; their time is their callers', what they called is called by those.
        counted: their time likewise, but their calls are shown.
    """

    folded: frozenset[str] = frozenset()
    counted: frozenset[str] = frozenset()


def names_of(recording: Recording, source: str) -> LogicalNames:
    """Return the logical names for one source of a recording."""
    import numpy as np

    rows = recording.rows
    parts = [rows.frame[s.start : s.stop] for s in rows.segments if s.source == source]
    used = np.unique(np.concatenate(parts)).tolist() if parts else []
    return LogicalNames.of({rows.frames[code].function for code in used})


def read_side(
    recording: Recording,
    source: str,
    *,
    root: str | None = None,
    comms: tuple[str, ...] | None = None,
    relative: bool = False,
    folding: Folding | None = None,
) -> DiffSide:
    """Read one side.

    Args:
        recording: what to read.
        source: ``sample`` or ``trace``.
        root: logical name of the function below which to look; None for everything.
        comms: names of the tasks to take; None for all.
        relative: whether 100 percent are what is shown, not all that was recorded.
        folding: what is not to be told apart.

    Raises:
        FaultprofError: exit code 2, when the recording has no such root; 4, when it is damaged.
    """
    names = names_of(recording, source)
    side = DiffSide(
        metadata=recording.metadata,
        top=SideNode(("", "")),
        totals={},
        faults={},
        names=names,
        expanded=recording.metadata.ledger.counters.get("expanded_addresses", 0) > 0,
    )
    here = None if root is None else names.here(root)
    runs = _runs(recording, source)
    if source == TRACE:
        for run in runs:
            _read_trace(recording, side, run, here, comms, relative, folding or Folding())
    else:
        _read_samples(recording, side, runs, here, comms, relative)
    if here is not None and not side.top.children:
        # Of all runs together: says what there is instead.
        build = TraceTree if source == TRACE else CallTree
        build.from_recording(recording, comms=comms).below(here)
    side.least = _least(side)
    return side


def _runs(recording: Recording, source: str) -> list[int]:
    """Return the runs of a recording; one that left nothing counts, too."""
    stated = {run.index for run in recording.metadata.runs}
    return sorted(stated | {one.run for one in recording.rows.segments if one.source == source})


def _read_samples(
    recording: Recording,
    side: DiffSide,
    runs: Iterable[int],
    root: str | None,
    comms: Collection[str] | None,
    relative: bool,
) -> None:
    trees = {}
    for run in runs:
        tree = CallTree.from_recording(recording, runs=(run,), comms=comms, source=SAMPLE)
        total = tree.total
        if root is not None:
            if not tree.has(root):
                side.totals[run] = 0 if relative else total
                continue
            tree = tree.below(root)
        side.totals[run] = tree.root_samples if relative else total
        trees[run] = tree
    if recording.has_trace:
        for run, tree in trees.items():
            _add_without_probes(side, run, tree)
    else:
        _add_samples(side, RunTrees.of(trees))


def _add_samples(side: DiffSide, trees: RunTrees) -> None:
    """Make a node of each node of the runs' trees; callers come before their callees."""
    known = [
        (
            (side.names.logical(frame), frame.module),
            frozenset({frame.function}),
            _resolutions(frame),
        )
        for frame in trees.frames
    ]
    nodes: list[SideNode] = []
    columns = trees.frame.tolist(), trees.parent.tolist(), trees.totals()
    for place, (code, parent, (samples, own)) in enumerate(zip(*columns, strict=True)):
        function, names, resolutions = known[code]
        total, by_run = Figures(samples, own), SampledRuns(trees, place)
        node = SideNode(function, names, resolutions, total, by_run)
        above = nodes[parent] if parent >= 0 else side.top
        above.children[function] = node
        nodes.append(node)


def _add_without_probes(side: DiffSide, run: int, tree: CallTree) -> None:
    """Add what was sampled beside a trace as it would stand without the probes.

    Trampolines have numbers of their own in each session, and each stands below a function and
    above its body: left in, nothing below them would match.
    """
    path: list[Frame] = []
    shown: list[Unprobed] = []
    columns = (tree.depth, tree.frame, tree.self_samples)
    for depth, code, own in zip(*(one.tolist() for one in columns), strict=True):
        del path[depth:], shown[depth:]
        frame = tree.frames[code]
        shown.append((shown[-1] if shown else Unprobed()).then(frame, path))
        path.append(frame)
        if own:
            _add_path(side, run, shown[-1].frames, own)


def _add_path(side: DiffSide, run: int, frames: Iterable[Frame], samples: int) -> None:
    node = side.top
    for frame in frames:
        node = node.child(side.names.logical(frame), frame)
        node.add(run, Figures(inclusive=samples))
    node.add(run, Figures(own=samples))


def _read_trace(
    recording: Recording,
    side: DiffSide,
    run: int,
    root: str | None,
    comms: Collection[str] | None,
    relative: bool,
    folding: Folding,
) -> None:
    tree = TraceTree.from_recording(recording, runs=(run,), comms=comms)
    total = tree.total_ns
    if tree.faults:
        side.faults[run] = tree.faults
    if root is not None:
        if not tree.has(root):
            side.totals[run] = 0 if relative else total
            return
        tree = tree.below(root)
    side.totals[run] = tree.root_ns if relative else total
    _add(side, run, tree.nodes, folding)


def _figures(calls: Calls) -> Figures:
    return Figures(
        calls.inclusive_ns, calls.self_ns, calls.begun, calls.durations_ns, calls.timed_calls
    )


def _add(side: DiffSide, run: int, traced: Iterable[TraceNode], folding: Folding) -> None:
    """Add the traced tree of one run; callers come before their callees."""
    places: list[SideNode] = []
    for one in traced:
        above = places[one.parent] if one.parent >= 0 else side.top
        name, figures = side.names.logical(one.frame), _figures(one.calls)
        hidden = name in folding.folded and above is not side.top
        counted = name in folding.counted and one.calls.timed and above is not side.top
        if hidden or counted:
            # The caller's inclusive time has it already.
            above.add(run, Figures(own=figures.own))
        if hidden:
            places.append(above)
            continue
        node = above.child(name, one.frame)
        node.add(run, Figures(calls=figures.calls) if counted else figures)
        places.append(above if counted else node)


def _least(side: DiffSide) -> int | None:
    """Return the smallest figure of an imported tree that says that it has been cut."""
    if not any(name.endswith(NOT_THERE) for name, _ in side.functions()):
        return None
    nodes = [node for child in side.top.children.values() for node in child.walk()]
    known = [node.total.inclusive for node in nodes if not is_unknown(node)]
    return min((one for one in known if one > 0), default=0)


def _resolutions(frame: Frame) -> frozenset[str]:
    return frozenset(frame.resolution.split("+"))


def is_unknown(node: SideNode) -> bool:
    """Whether this is no function but what could not be told: ``[unknown]`` and the like."""
    name = node.function[0]
    return name.startswith("[") and name.endswith("]") and UNRESOLVED in node.resolutions
