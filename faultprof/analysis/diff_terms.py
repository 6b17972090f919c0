"""On what terms two recordings are compared: source, root, what is not told apart; all of it said.

Knows: how recordings may differ beside what is to be compared, and what can be done about it.
Leaves to others: comparing (``diff``), printing (``render.diff``).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from faultprof.analysis.diff_sides import Folding, names_of
from faultprof.analysis.selection import no_trace
from faultprof.analysis.trace_tree import TraceTree
from faultprof.analysis.tree import CallTree
from faultprof.recording.frames import UNRESOLVED
from faultprof.recording.metadata import Metadata
from faultprof.recording.reader import Recording
from faultprof.recording.schema import SAMPLE, TRACE

_SHOWN = 8
_MOST = 0.5  # of a tree must lie below a root that is chosen without being asked for
_CPU_CLOCK = "cpu-clock"


@dataclass(slots=True)
class Terms:
    """How two recordings are compared.

    Attributes:
        source: ``sample`` or ``trace``.
        root: logical name of the function below which both are looked at; None for everything.
        folding: what is not told apart.
        remarks: what a reader must know before the first figure, in sentences.
    """

    source: str
    root: str | None = None
    folding: Folding = field(default_factory=Folding)
    remarks: list[str] = field(default_factory=list)


def find_terms(
    base: Recording, new: Recording, *, source: str | None = None, root: str | None = None
) -> Terms:
    """Find out on what terms two recordings can be compared.

    Args:
        base: one recording.
        new: the other.
        source: ``sample`` or ``trace``; None for traces if both have one.
        root: what the user asks for.

    Raises:
        FaultprofError: exit code 2, when they cannot be compared so.
    """
    terms = Terms(_source(base, new, source), root)
    both_traced = base.has_trace and new.has_trace
    if base.has_trace != new.has_trace:
        only = "base" if base.has_trace else "new"
        terms.remarks.append(
            f"modes differ: only {only} holds a trace, so what was sampled beside it is compared"
        )
    if terms.source == SAMPLE and (base.has_trace or new.has_trace):
        terms.remarks.append(
            "beside a trace, its probes are sampled too: they are apart, as [probes], and count "
            "in the totals"
        )
    if terms.source == SAMPLE:
        terms.remarks += _about_samples(base.metadata, new.metadata, both_traced)
    else:
        _fold(terms, base, new)
    if root is None:
        _find_root(terms, base, new)
    terms.remarks += _about_runs(base.metadata, new.metadata)
    return terms


def _source(base: Recording, new: Recording, source: str | None) -> str:
    lacking = next((one for one in (base, new) if not one.has_trace), None)
    if source == TRACE and lacking is not None:
        raise no_trace(lacking)
    return source or (SAMPLE if lacking is not None else TRACE)


def _about_samples(base: Metadata, new: Metadata, both_traced: bool) -> Iterable[str]:
    if base.clock != new.clock:
        yield (
            f"clocks differ: {base.clock or 'unknown'} in base, {new.clock or 'unknown'} in new; "
            "shares are compared, but they are shares of different things"
            + (
                f" ({_CPU_CLOCK} charges code that runs with interrupts off to where they are "
                "turned on again)"
                if _CPU_CLOCK in (base.clock, new.clock)
                else ""
            )
        )
    if base.frequency != new.frequency:
        yield (
            f"frequencies differ: {base.frequency} Hz in base, {new.frequency} Hz in new; shares "
            "are compared, counts of samples cannot be"
        )
    other = "; both hold a trace, which can (--source trace)" if both_traced else ""
    yield (
        "sampling does not count calls, and cannot tell what was called more often from what was "
        f"slower{other}"
    )


def _about_runs(base: Metadata, new: Metadata) -> Iterable[str]:
    if base.command != new.command:
        yield "the commands differ"
    for name, metadata in (("base", base), ("new", new)):
        if metadata.ledger.degraded:
            yield f"{name} is {metadata.ledger.verdict}"
        failed = sum(bool(run.exit_status) for run in metadata.runs)
        if failed:
            yield f"{failed} of {len(metadata.runs)} runs of {name} failed"


def _fold(terms: Terms, base: Recording, new: Recording) -> None:
    """Fold what was traced on one side only into its callers, where its time is on the other."""
    traced = [_traced_functions(one.metadata) for one in (base, new)]
    if not all(traced):
        return
    trees = [TraceTree.from_recording(one) for one in (base, new)]
    timed: list[set[str]] = [
        {node.frame.function for node in tree.nodes if node.calls.timed} for tree in trees
    ]
    counted = [
        {node.frame.function for node in tree.nodes} - with_times
        for tree, with_times in zip(trees, timed, strict=True)
    ]
    once = traced[0] ^ traced[1]
    called = {node.frame.function for tree in trees for node in tree.nodes}
    terms.folding = Folding(
        frozenset(once), frozenset((timed[0] & counted[1]) | (timed[1] & counted[0]))
    )
    for name, mine, others in (("base", traced[0], traced[1]), ("new", traced[1], traced[0])):
        only = sorted((mine - others) & called)
        if only:
            terms.remarks.append(
                f"traced in {name} only, and counted in its callers here: {_some(only)}"
            )
    if terms.folding.counted:
        terms.remarks.append(
            f"timed on one side only, so that only calls are compared: "
            f"{_some(sorted(terms.folding.counted))}"
        )


def _traced_functions(metadata: Metadata) -> set[str]:
    return {
        name
        for name, one in metadata.functions.items()
        if isinstance(one, dict) and one.get("traced", True)
    }


def _some(names: list[str]) -> str:
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return ", ".join(names[:_SHOWN]) + more


def _find_root(terms: Terms, base: Recording, new: Recording) -> None:
    """Where the trees begin with different functions, find one below which both can be seen."""
    trees = [_Roots(one, terms.source) for one in (base, new)]
    if any(not one.roots for one in trees) or trees[0].roots.keys() & trees[1].roots.keys():
        return
    candidates = [
        (one.roots[name] / max(1, sum(one.roots.values())), name)
        for one, other in (trees, trees[::-1])
        for name in one.roots
        if other.has(name)
    ]
    share, name = max(candidates, default=(0.0, ""))
    if share < _MOST:
        terms.remarks.append("the trees begin with different functions, and are put side by side")
        return
    terms.root = name
    terms.remarks.append(
        f"the trees begin with different functions; both are compared below {name} (--root)"
    )


class _Roots:
    """The logical names that a tree begins with, and what each comes to."""

    def __init__(self, recording: Recording, source: str) -> None:
        self._names = names_of(recording, source)
        self.roots: dict[str, int] = {}
        self._tree: CallTree | TraceTree
        if source == TRACE:
            trace = TraceTree.from_recording(recording)
            self._tree = trace
            found = [(one.frame, one.calls.inclusive_ns) for one in trace.nodes if one.parent < 0]
        else:
            tree = CallTree.from_recording(recording)
            self._tree = tree
            at_top = tree.depth == 0
            frames, samples = tree.frame[at_top].tolist(), tree.samples[at_top].tolist()
            found = [
                (tree.frames[code], count) for code, count in zip(frames, samples, strict=True)
            ]
        for frame, amount in found:
            if frame.resolution != UNRESOLVED:
                name = self._names.logical(frame)
                self.roots[name] = self.roots.get(name, 0) + amount

    def has(self, name: str) -> bool:
        """Whether a function is somewhere in the tree."""
        return self._tree.has(self._names.here(name))
