"""The trace against the samples beside it: whether both see the same shares.

Knows: which sampled frames stand for a traced function, what share of the time on the CPU each
source gives it, and how far chance alone moves the samples' one.
Leaves to others: which frames are the probes' own (``probe_frames``), the interval
(``statistics``), drawing (``render``).

A tracer adds its cost to what it traces, a sampler hardly any; but a sampler sees only what it
hits. Both look at the same run. The shares are of the time on the CPU below one root: traced, the
inclusive time without that off the CPU; sampled, samples with the function on their stack.

The intervals are exact binomial ones (Clopper & Pearson, Biometrika 26, 1934), at a confidence at
which all of them together hold in 95 of 100 recordings (Bonferroni). They take samples for
independent, which those of a timer nearly are. A traced share outside is no chance: it is the
probes' own cost, or calls that the tracer missed, or time that a hypervisor took away, which the
tracer's clock counts and in which no sample is taken (the ledger then says that samples are
missing), or a tail call. A function that ends in one is
off the stack while what it called still runs, and samples then show the rest without it (on 6.12
``folio_add_lru``: 2.7% traced, no sample); only fentry's trampoline keeps its place.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

from faultprof.analysis.probe_frames import Place
from faultprof.analysis.probe_share import probe_shares
from faultprof.analysis.statistics import binomial_intervals
from faultprof.analysis.trace_tree import FAULT, TracedFunction, TraceTree
from faultprof.analysis.tree import CallTree
from faultprof.recording.frames import INLINED, Frame

if TYPE_CHECKING:
    from faultprof.recording.reader import Recording

CONFIDENCE = 0.95


@dataclass(frozen=True, slots=True)
class Checked:
    """A function in both sources; shares from 0 to 1.

    Args:
        frame: the function.
        traced: its share of the traced time on the CPU below the root.
        samples: how many samples it is in; None where samples cannot show it.
        low: the least share that these samples leave room for.
        high: the largest.
        overhead: how much of the traced share the calibrated cost of the probes may be.
    """

    frame: Frame
    traced: float
    samples: int | None
    low: float = 0.0
    high: float = 1.0
    overhead: float = 0.0

    @property
    def agrees(self) -> bool | None:
        """Whether chance and overhead explain the difference; None where nothing was compared."""
        if self.samples is None:
            return None
        return self.low - self.overhead <= self.traced <= self.high + self.overhead


@dataclass(frozen=True, slots=True)
class CrossCheck:
    """Both sources side by side.

    Args:
        root: the function that all shares are below.
        on_cpu_ns: its traced time on the CPU.
        samples: samples in it.
        in_probes: how many of these hit the probes; they count for what the tracer counts the
            probes' time for.
        functions: the functions below the root, the largest traced share first.
        why_not: why nothing can be compared; "" where it can.
    """

    root: str
    on_cpu_ns: int = 0
    samples: int = 0
    in_probes: int = 0
    functions: tuple[Checked, ...] = ()
    why_not: str = ""

    @property
    def compared(self) -> tuple[Checked, ...]:
        """The functions that both sources can show."""
        return tuple(one for one in self.functions if one.samples is not None)

    @property
    def disagreeing(self) -> tuple[Checked, ...]:
        """The functions whose shares differ by more than chance and overhead explain."""
        return tuple(one for one in self.functions if one.agrees is False)


def cross_check(
    recording: Recording,
    root: str | None = None,
    overhead: Mapping[str, float] | None = None,
    *,
    runs: Collection[int] | None = None,
) -> CrossCheck:
    """Compare the sources of a recording, all tasks together.

    Args:
        recording: one with a trace.
        root: the function to look below; None for faults, or what else most time was traced in.
        overhead: by function, the share that probe costs may explain; None: what the recording's
            own calibration says, which is nothing where it has none.
        runs: numbers of the runs to take; None for all.

    Raises:
        FaultprofError: exit code 4, when the recording is damaged.
    """
    trace = TraceTree.from_recording(recording, runs=runs)
    root = root or _usual_root(trace)
    if not trace.has(root):
        return CrossCheck(root, why_not=f"no call of {root} was traced")
    below = trace.below(root)
    times = {one.frame.function: (one, _on_cpu_ns(one)) for one in below.functions()}
    total = times[root][1]
    if total is None:
        return CrossCheck(root, why_not="time off the CPU was not told from time on it")
    names = _Names(recording, trace)
    found = _sampled(CallTree.from_recording(recording, runs=runs), names, root)
    if not (found.samples and total):
        return CrossCheck(root, total, why_not=f"no sample is in {root}")
    rows = _rows(times, found, names, total)
    explained = probe_shares(recording, trace, root) if overhead is None else overhead
    return CrossCheck(
        root, total, found.samples, found.in_probes, _judged(rows, found.samples, explained)
    )


def _usual_root(trace: TraceTree) -> str:
    if trace.has(FAULT) or not len(trace):
        return FAULT
    roots = [node for node in trace.nodes if node.parent < 0]
    return max(roots, key=lambda node: node.calls.inclusive_ns).frame.function


def _on_cpu_ns(one: TracedFunction) -> int | None:
    calls = one.calls
    return calls.inclusive_ns - calls.offcpu_ns if calls.offcpu_ns is not None else None


# What samples show.


class _Sampled(NamedTuple):
    """Samples below the root: all, those in probes, by traced function; and who was seen at all."""

    samples: int
    in_probes: int
    by_function: Counter[str]
    seen: set[str]


class _Names:
    """Which traced function a sampled frame stands for."""

    def __init__(self, recording: Recording, trace: TraceTree) -> None:
        self._conditional: set[str] = set()
        self._by_symbol = {node.frame.function: node.frame.function for node in trace.nodes}
        for function, found in recording.metadata.functions.items():
            if not found.get("traced"):
                continue
            if found.get("how") == "condition":
                self._conditional.add(function)
                continue
            self._by_symbol.pop(function, None)
            if found.get("how") != "inlined":
                # Samples name a function without what compilers add to it, such as .isra.0.
                symbol = (found.get("symbol") or function).partition(".")[0]
                self._by_symbol[symbol] = function

    def is_conditional(self, function: str) -> bool:
        """Whether it is inlined, so that samples show it only where something told them."""
        return function in self._conditional

    def of(self, frame: Frame) -> str | None:
        """Return the function's name in the trace; None for what was not traced."""
        if frame.function in self._conditional:
            return frame.function
        # A body that is inlined elsewhere is not what the probes are at.
        return self._by_symbol.get(frame.function) if frame.resolution != INLINED else None


def _sampled(tree: CallTree, names: _Names, root: str) -> _Sampled:
    """Sort the samples by the traced functions that they are in."""
    samples = in_probes = 0
    by_function: Counter[str] = Counter()
    seen: set[str] = set()
    places: list[Place] = []
    path: list[Frame] = []
    columns = (tree.depth, tree.frame, tree.self_samples)
    for depth, code, own in zip(*(column.tolist() for column in columns), strict=True):
        del path[depth:], places[depth:]
        frame = tree.frames[code]
        traced = names.of(frame)
        place = (places[-1] if places else Place()).then(frame, path, traced)
        path.append(frame)
        places.append(place)
        if traced is not None:
            seen.add(traced)
        inside = place.inside
        if own and root in inside:
            samples += own
            in_probes += own * place.probing
            by_function.update(dict.fromkeys(inside[inside.index(root) :], own))
    return _Sampled(samples, in_probes, by_function, seen)


# Putting the two together.


def _rows(
    times: Mapping[str, tuple[TracedFunction, int | None]],
    found: _Sampled,
    names: _Names,
    total: int,
) -> list[Checked]:
    """Return the functions of either source, without intervals."""
    rows = [
        Checked(
            one.frame,
            ns / total,
            found.by_function[function]
            if function in found.seen or not names.is_conditional(function)
            else None,
        )
        for function, (one, ns) in times.items()
        if one.calls.timed and ns is not None
    ]
    untraced = found.by_function.keys() - times.keys()
    rows += [Checked(Frame(name), 0.0, found.by_function[name]) for name in untraced]
    return sorted(rows, key=lambda row: (-row.traced, row.frame))


def _judged(
    rows: Sequence[Checked], samples: int, overhead: Mapping[str, float]
) -> tuple[Checked, ...]:
    """Give the rows their intervals."""
    compared = [row.samples for row in rows if row.samples is not None]
    confidence = 1 - (1 - CONFIDENCE) / max(1, len(compared))
    intervals = dict(zip(compared, binomial_intervals(compared, samples, confidence), strict=True))
    return tuple(
        row
        if row.samples is None
        else replace(
            row,
            low=intervals[row.samples].low,
            high=intervals[row.samples].high,
            overhead=overhead.get(row.frame.function, 0.0),
        )
        for row in rows
    )
