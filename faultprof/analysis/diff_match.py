"""Matching the nodes of two call trees, and ranking what comes of it.

Knows: which nodes are the same, and what to make of a node that one side lacks.
Leaves to others: what the result is made of (``diff``), reading the sides (``diff_sides``).

Nodes are the same when their paths are, under logical names. A function that one side does not
have at all may be inlined there, or there may just be no call of it: then what it calls on the one
side is called by its caller on the other. Such callees are matched all the same: the side that
lacks the function gets it as an *implied* node, which has nothing of its own.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from faultprof.analysis.diff import Diff, DiffNode, FunctionChange, Pair, State, rank, split
from faultprof.analysis.diff_sides import DiffSide, Figures, SideNode, read_side
from faultprof.analysis.diff_terms import Terms, find_terms
from faultprof.analysis.functions import Function
from faultprof.errors import ExitCode, FaultprofError
from faultprof.recording.reader import Recording
from faultprof.recording.schema import TRACE

# Below this part of all movement, the whole counts as unchanged.
_STILL = 0.05
# So many samples must be expected on a side before their absence means anything: the chance of
# none where 5 are expected is 0.7% (Poisson).
_EXPECTED = 5.0
_NOTHING = Figures()


def diff_recordings(
    base: Recording,
    new: Recording,
    *,
    source: str | None = None,
    root: str | None = None,
    comms: tuple[str, ...] | None = None,
    relative: bool = False,
) -> tuple[Diff, Terms]:
    """Compare two recordings on what is comparable, and say on what terms that was.

    Args:
        base: one recording.
        new: the other.
        source: ``sample`` or ``trace``; None for traces if both have one.
        root: function below which to look, by any of its names; None for everything.
        comms: names of the tasks to take; None for all.
        relative: whether percentages are of what is shown, not of all that was recorded.

    Raises:
        FaultprofError: exit code 2, when they cannot be compared so; 4, when one is damaged.
    """
    terms = find_terms(base, new, source=source, root=root)
    sides = []
    for recording in (base, new):
        try:
            side = read_side(
                recording,
                terms.source,
                root=terms.root,
                comms=comms,
                relative=relative,
                folding=terms.folding,
            )
        except FaultprofError as error:
            if error.exit_code == ExitCode.USAGE:
                error.message = f"{recording.path}: {error.message}"
            raise
        sides.append(side)
    return diff_sides(*sides, traced=terms.source == TRACE), terms


def diff_sides(base: DiffSide, new: DiffSide, *, traced: bool) -> Diff:
    """Match and rank the nodes of two sides."""
    per = "fault" if base.all_faults and new.all_faults else "run"
    builder = _Builder(base, new, traced, per)
    nodes = builder.nodes()
    known = [node for node in nodes if not node.unknown]
    whole = Pair(sum(node.own.base for node in known), sum(node.own.new for node in known))
    movement = sum(abs(node.own.change) for node in known)
    moved = abs(whole.change) > _STILL * movement
    direction = 0 if not moved else 1 if whole.change > 0 else -1
    nodes = _ranked(nodes, direction)
    return Diff(base, new, traced, per, nodes, _functions(nodes, direction), whole, direction)


def divisor(side: DiffSide, traced: bool, per: str) -> float:
    """Return what a side's samples or nanoseconds are divided by to get the measure."""
    if not traced:
        return side.total / 100
    return side.all_faults if per == "fault" else len(side.runs)


class _Builder:
    """Makes one list of nodes of both sides' trees."""

    def __init__(self, base: DiffSide, new: DiffSide, traced: bool, per: str) -> None:
        self._sides = base, new
        self._traced = traced
        self._divisors = divisor(base, traced, per), divisor(new, traced, per)
        self._totals = base.total, new.total
        self._functions = tuple(side.functions() for side in self._sides)

    def nodes(self) -> list[DiffNode]:
        """Return all nodes, callers before their callees."""
        nodes: list[DiffNode] = []
        base, new = (side.top for side in self._sides)
        waiting = [(*pair, -1, 0) for pair in self._pairs(base, new)]
        while waiting:
            left, right, parent, depth = waiting.pop()
            place = len(nodes)
            nodes.append(self._node(left, right, depth, parent))
            if (left is not None and left.children) or (right is not None and right.children):
                waiting += [(*pair, place, depth + 1) for pair in self._pairs(left, right)]
        return nodes

    def _pairs(
        self, base: SideNode | None, new: SideNode | None
    ) -> list[tuple[SideNode | None, SideNode | None]]:
        """Return the children of both, those together that are the same function."""
        left = dict(base.children) if base is not None else {}
        right = dict(new.children) if new is not None else {}
        pairs: list[tuple[SideNode | None, SideNode | None]] = [
            (left.pop(function), right.pop(function))
            for function in list(left)
            if function in right
        ]
        pairs += self._implied(left, right, 1)
        pairs += [(one, other) for other, one in self._implied(right, left, 0)]
        pairs += [(one, None) for one in left.values()]
        pairs += [(None, one) for one in right.values()]
        return pairs

    def _implied(
        self, these: dict[Function, SideNode], those: dict[Function, SideNode], lacking: int
    ) -> Iterator[tuple[SideNode, SideNode]]:
        """Yield nodes of one side that the other lacks altogether, with what implies them there.

        Both dictionaries lose what is yielded.
        """
        if not these or not those:
            return
        for node in sorted(these.values(), key=lambda one: -one.total.inclusive):
            if node.function in self._functions[lacking] or not those:
                continue
            called = self._callees(node, lacking) & those.keys()
            if called:
                del these[node.function]
                yield node, _implied_node(node.function, [those.pop(one) for one in called])

    def _callees(self, node: SideNode, lacking: int) -> set[Function]:
        """Return what a node calls, directly or through functions that the other side lacks."""
        found: set[Function] = set()
        waiting = list(node.children.values())
        while waiting:
            child = waiting.pop()
            found.add(child.function)
            if child.function not in self._functions[lacking]:
                waiting += child.children.values()
        return found

    def _node(
        self, base: SideNode | None, new: SideNode | None, depth: int, parent: int
    ) -> DiffNode:
        some = base if base is not None else new
        assert some is not None
        before = base.total if base is not None else _NOTHING
        after = new.total if new is not None else _NOTHING
        node = DiffNode(
            function=some.function,
            base=base,
            new=new,
            depth=depth,
            parent=parent,
            state=self._state(base, new),
            inclusive=_divided(before.inclusive, after.inclusive, self._divisors),
            own=_divided(before.own, after.own, self._divisors),
            percent=_divided(100 * before.inclusive, 100 * after.inclusive, self._totals),
        )
        if self._traced:
            self._add_calls(node, (before, after))
        return node

    def _add_calls(self, node: DiffNode, figures: tuple[Figures, Figures]) -> None:
        before, after = figures
        node.calls = calls = _divided(before.calls, after.calls, self._divisors)
        per_call = [one.durations / one.timed_calls if one.timed_calls else None for one in figures]
        node.per_call = per_call[0], per_call[1]
        untimed = any(one.calls and not one.timed_calls and not one.own for one in figures)
        implied = any(one is not None and one.implied for one in (node.base, node.new))
        if not untimed and not implied:
            node.more_often, node.slower = split(calls, node.own)

    def _state(self, base: SideNode | None, new: SideNode | None) -> State:
        if base is not None and new is not None:
            return State.IMPLIED if base.implied or new.implied else State.BOTH
        there, where = (base, 1) if base is not None else (new, 0)
        assert there is not None
        other = self._sides[where]
        if other.least is not None:
            return State.BELOW_CUT
        if not self._traced:
            total = self._totals[1 - where]
            expected = there.total.inclusive * self._totals[where] / total if total else 0.0
            if expected < _EXPECTED:
                return State.RARE
        return State.VANISHED if where else State.NEW


def _divided(base: int, new: int, by: tuple[float, float]) -> Pair:
    return Pair(base / by[0] if by[0] else 0.0, new / by[1] if by[1] else 0.0)


def _implied_node(function: Function, children: Sequence[SideNode]) -> SideNode:
    node = SideNode(function, implied=True, children={one.function: one for one in children})
    for child in children:
        for run, figures in child.by_run.items():
            node.add(run, Figures(inclusive=figures.inclusive))
    return node


def _ranked(nodes: Sequence[DiffNode], direction: int) -> list[DiffNode]:
    """Return the nodes in preorder, of siblings those first below which most is explained."""
    weights = [
        (-float("inf") if node.unknown else rank(node.own.change, direction)) for node in nodes
    ]
    for place in range(len(nodes) - 1, -1, -1):
        parent = nodes[place].parent
        if parent >= 0:
            weights[parent] = max(weights[parent], weights[place])
    children: dict[int, list[int]] = {}
    for place, node in enumerate(nodes):
        children.setdefault(node.parent, []).append(place)
    for siblings in children.values():
        # From a stack the last one comes first.
        siblings.sort(key=lambda one: (weights[one], nodes[one].function))
    ordered: list[DiffNode] = []
    waiting = [(place, -1) for place in children.get(-1, [])]
    while waiting:
        place, parent = waiting.pop()
        nodes[place].parent = parent
        ordered.append(nodes[place])
        waiting += [(child, len(ordered) - 1) for child in children.get(place, [])]
    return ordered


def _functions(nodes: Sequence[DiffNode], direction: int) -> list[FunctionChange]:
    places: dict[Function, list[int]] = {}
    for place, node in enumerate(nodes):
        if not node.unknown:
            places.setdefault(node.function, []).append(place)
    changes = [_function_change(function, nodes, at) for function, at in places.items()]
    return sorted(changes, key=lambda one: (-rank(one.own.change, direction), one.function))


def _function_change(
    function: Function, nodes: Sequence[DiffNode], places: list[int]
) -> FunctionChange:
    own = Pair(
        sum(nodes[place].own.base for place in places),
        sum(nodes[place].own.new for place in places),
    )
    change = FunctionChange(
        function, own, sorted(places, key=lambda one: -abs(nodes[one].own.change))
    )
    parts = [(nodes[place].more_often, nodes[place].slower) for place in places]
    if all(more_often is not None for more_often, _ in parts):
        change.more_often = sum(more_often or 0.0 for more_often, _ in parts)
        change.slower = sum(slower or 0.0 for _, slower in parts)
    return change
