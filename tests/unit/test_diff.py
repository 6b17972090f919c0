"""Two call trees as one: which nodes are the same, and what explains the change."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from faultprof.analysis.diff import Diff, DiffNode, Pair, State, split
from faultprof.analysis.diff_match import diff_recordings, diff_sides
from faultprof.analysis.diff_sides import DiffSide, read_side
from faultprof.analysis.diff_terms import Terms
from faultprof.analysis.diff_worth import Worth
from faultprof.analysis.logical import LogicalNames
from faultprof.analysis.trace_tree import TraceTree
from faultprof.analysis.tree import CallTree
from faultprof.errors import ExitCode, FaultprofError
from faultprof.recording.frames import INLINED, UNRESOLVED, Frame
from faultprof.recording.ledger import Ledger
from faultprof.recording.metadata import KernelInfo, Metadata, RunInfo
from faultprof.recording.paths import PathCount
from faultprof.recording.reader import Recording
from tests.unit.recordings import Runs, held, in_memory, random_runs, recorded
from tests.unit.threads import contention_trees
from tests.unit.traces import Call, held_calls, random_tasks, traced, traced_paths

MM = "handle_mm_fault"


def path(count: int, *names: str) -> PathCount:
    """Return samples on a path; a name may be written ``name/resolution``."""
    frames = [Frame(name.split("/")[0], "", (name + "/symbol").split("/")[1]) for name in names]
    return PathCount("usemem", tuple(frames), count)


def metadata(runs: int = 1, **changes: Any) -> Metadata:
    return Metadata(
        **{
            "command": ("usemem", "1g"),
            "kernel": KernelInfo("6.12"),
            "mode": "sample",
            "clock": "cycles",
            "frequency": 999,
            "runs": tuple(RunInfo(number, exit_status=0) for number in range(runs)),
            "ledger": Ledger(),
            **changes,
        }
    )


def sampled(*runs: Sequence[PathCount], **changes: Any) -> Recording:
    return in_memory(lambda file: recorded(file, runs, metadata(len(runs), **changes)))


def found(diff: Diff) -> dict[str, DiffNode]:
    """Return the nodes by their paths, ``caller>callee``."""
    paths: list[str] = []
    for node in diff.nodes:
        above = f"{paths[node.parent]}>" if node.parent >= 0 else ""
        paths.append(above + node.function[0])
    return dict(zip(paths, diff.nodes, strict=True))


def matched(base: Recording, new: Recording, source: str = "sample") -> Diff:
    """Return the diff of whole trees, whatever they begin with."""
    sides = (read_side(one, source) for one in (base, new))
    return diff_sides(*sides, traced=source == "trace")


def compared(base: Recording, new: Recording, **options: Any) -> Diff:
    return diff_recordings(base, new, **options)[0]


# The thread's trees.


def test_the_threads_two_trees() -> None:
    diff = compared(*(sampled(paths) for paths in contention_trees()))
    first, second = diff.functions[:2]
    assert first.function[0] == "next_uptodate_folio"
    assert (round(first.own.base, 2), round(first.own.new, 2)) == (3.22, 32.10)
    assert second.function[0] == "folio_wake_bit"
    places = [diff.nodes[diff.nodes[place].parent].function[0] for place in second.nodes]
    assert places == ["filemap_map_pages", "do_read_fault"]
    nodes = found(diff)
    below = "do_read_fault>filemap_map_pages"
    assert diff.nodes[2] is nodes[f"{below}>next_uptodate_folio"]
    gone = nodes[f"{below}>filemap_map_folio_range"]
    assert (gone.state, round(gone.own.base, 2), gone.own.new) == (State.BELOW_CUT, 19.45, 0)
    assert diff.functions[-1].function[0] == "filemap_map_folio_range"
    # 48.58% to 72.98%: what the text does not have explains nothing.
    assert round(diff.whole.change, 2) == 24.40
    assert all(not one.function[0].startswith("[") for one in diff.functions)


# Matching.


def test_a_renamed_function_is_the_same_node() -> None:
    base = sampled([path(300, MM, "filemap_map_pages", "next_uptodate_page"),
                    path(100, MM, "clear_huge_page")])  # fmt: skip
    new = sampled([path(100, MM, "filemap_map_pages", "next_uptodate_folio"),
                   path(300, MM, "folio_zero_user")])  # fmt: skip
    nodes = found(compared(base, new))
    one = nodes[f"{MM}>filemap_map_pages>next_uptodate_folio"]
    assert (one.state, one.own) == (State.BOTH, Pair(75, 25))
    assert one.names == (("next_uptodate_page",), ())
    assert nodes[f"{MM}>folio_zero_user"].state is State.BOTH
    assert all(node.state is State.BOTH for node in nodes.values())
    for root in ("next_uptodate_page", "next_uptodate_folio"):
        diff = compared(base, new, root=root)
        assert [node.own for node in diff.nodes] == [Pair(75, 25)]


def test_two_functions_of_one_kernel_are_not_one_for_a_former_name() -> None:
    both = ("__alloc_pages_noprof", "__alloc_frozen_pages_noprof")
    assert LogicalNames.of(both).renamed == {}
    assert LogicalNames.of(both[:1]).renamed == {both[0]: both[1]}
    assert LogicalNames.of(["__alloc_pages", *both[:1]]).renamed == {both[0]: both[1]}
    # A module's function of that name is another one.
    frame = Frame("__alloc_pages_noprof", "ext4")
    assert LogicalNames.of(both[:1]).logical(frame) == frame.function


def test_an_inlined_function_is_the_same_node_as_one_that_is_called() -> None:
    base = sampled([path(100, MM, "do_fault", "do_read_fault/inlined", "shmem_fault")])
    new = sampled([path(100, MM, "do_fault", "do_read_fault", "shmem_fault")])
    nodes = found(compared(base, new))
    assert nodes[f"{MM}>do_fault>do_read_fault"].state is State.BOTH
    assert nodes[f"{MM}>do_fault>do_read_fault"].frame.resolution == "inlined+symbol"


def test_what_an_unseen_function_calls_is_matched() -> None:
    """On 6.1 do_anonymous_page is inlined, and without debuginfo nobody can tell."""
    base = sampled([path(50, MM), path(150, MM, "clear_page"), path(30, MM, "other")])
    new = sampled([path(20, MM), path(40, MM, "do_anonymous_page"), path(30, MM, "other"),
                   path(300, MM, "do_anonymous_page", "clear_page")])  # fmt: skip
    for swapped in (False, True):
        nodes = found(compared(new, base) if swapped else compared(base, new))
        anonymous = nodes[f"{MM}>do_anonymous_page"]
        assert anonymous.state is State.IMPLIED
        there, implied = (anonymous.new, anonymous.base)[:: -1 if swapped else 1]
        assert there is not None
        assert implied is not None
        assert (there.total.inclusive, implied.total.inclusive) == (340, 150)
        assert implied.total.own == 0
        cleared = nodes[f"{MM}>do_anonymous_page>clear_page"]
        assert cleared.state is State.BOTH
        assert f"{MM}>clear_page" not in nodes


def test_a_function_that_is_missing_without_callees_confuses_nothing() -> None:
    base = sampled([path(500, "a", "gone"), path(500, "a", "b")])
    new = sampled([path(1000, "a", "b")])
    nodes = found(compared(base, new))
    assert {name: node.state for name, node in nodes.items()} == {
        "a": State.BOTH,
        "a>b": State.BOTH,
        "a>gone": State.VANISHED,
    }


def test_new_vanished_and_too_rare_to_tell() -> None:
    base = sampled([path(990, "a"), path(6, "a", "vanished"), path(4, "a", "rare")])
    new = sampled([path(990, "a"), path(6, "a", "new")])
    nodes = found(compared(base, new))
    assert nodes["a>vanished"].state is State.VANISHED
    assert nodes["a>new"].state is State.NEW
    assert nodes["a>rare"].state is State.RARE
    # Of a tenth of the samples six in a thousand are none, as often as not.
    few = sampled([path(100, "a")])
    assert found(compared(base, few))["a>vanished"].state is State.RARE


def test_what_falls_below_the_cut_is_never_shown_as_vanished() -> None:
    base = sampled([path(9900, "a"), path(100, "a", "small")])
    new = sampled([path(9999, "a"), path(1, "a", "small")])
    diff = compared(base, new)
    small = found(diff)["a>small"]
    assert (small.state, small.percent) == (State.BOTH, Pair(1.0, 0.01))
    assert [diff.nodes[place] for place in diff.shown(0.5)] == diff.nodes
    assert len(diff.shown(2)) == 1
    assert len(diff.shown(0, max_depth=1)) == 1


DATA = Path(__file__).with_name("data") / "two_kernels"


def folded(name: str) -> list[PathCount]:
    """Read folded stacks as ``report --folded --source sample`` prints them."""
    paths = []
    for line in (DATA / f"{name}.txt").read_text().splitlines():
        stack, _, count = line.rpartition(" ")
        comm, *names = stack.split(";")
        frames = tuple(Frame(one.removesuffix("_[k]")) for one in names)
        paths.append(PathCount(comm, frames, int(count)))
    return paths


@pytest.mark.parametrize(
    ("workload", "former", "name"),
    [
        ("read", "next_uptodate_page", "next_uptodate_folio"),
        ("huge", "clear_huge_page", "folio_zero_user"),
    ],
)
def test_debians_6_1_and_7_3(workload: str, former: str, name: str) -> None:
    """Sampled beside a trace: usemem --readonly -f FILE 48m, and 96m of huge pages."""
    sides = [sampled(folded(f"{workload}-{one}"), mode="trace") for one in ("6.1", "7.3")]
    diff = compared(*sides, source="sample")
    nodes = [node for node in diff.nodes if node.function[0] == name]
    assert any(node.state is State.BOTH and node.names == ((former,), ()) for node in nodes)
    assert not any(node.function[0] == former for node in diff.nodes)
    assert not any("trampoline" in node.function[0] for node in diff.nodes)
    # Neither appears twice on a path, as a probed function stands above and below its probe.
    for node in diff.nodes:
        assert node.parent < 0 or diff.nodes[node.parent].function != node.function
    for side, column in ((diff.base, "base"), (diff.new, "new")):
        own = sum(getattr(node.own, column) for node in diff.nodes)
        assert own == pytest.approx(100)
        assert side.total == sum(count for *_, count in folded_of(side, workload))


def folded_of(side: DiffSide, workload: str) -> list[PathCount]:
    return folded(f"{workload}-{'6.1' if side.names.renamed else '7.3'}")


def test_probes_are_apart_and_what_they_probe_is_matched() -> None:
    probed = sampled(
        [
            path(70, "a", "f", "bpf_trampoline_1", "f", "g"),
            path(10, "a", "f", "bpf_trampoline_1"),
            path(5, "a", "f", "bpf_trampoline_1", "bpf_prog_2_f"),
            path(5, "a", "f", "bpf_trampoline_1", "other"),
            path(10, "a", "return_to_handler"),
        ],
        mode="trace",
    )
    plain = sampled([path(90, "a", "f", "g"), path(10, "a", "f", "other")])
    diff, terms = diff_recordings(probed, plain)
    shown = {name: (node.own.base, node.own.new) for name, node in found(diff).items()}
    assert shown == {
        "a": (0, 0),
        "a>f": (0, 0),
        "a>f>g": (70, 90),
        "a>f>other": (5, 10),
        "a>f>[probes]": (15, 0),
        "a>[probes]": (10, 0),
    }
    assert "as [probes]" in said(terms)
    assert all(one.function[0] != "[probes]" for one in diff.functions)


# Both columns are the reports'.


@given(random_runs(), random_runs())
@settings(max_examples=60, deadline=None)
def test_columns_are_the_reports(base: Runs, new: Runs) -> None:
    recordings = [held(runs) for runs in (base, new)]
    diff = matched(*recordings)
    for side, recording in enumerate(recordings):
        tree = CallTree.from_recording(recording)
        own: Counter[tuple[str, str]] = Counter()
        below = [0] * len(diff.nodes)
        for node in diff.nodes:
            there = (node.base, node.new)[side]
            if there is not None:
                own[node.function] += there.total.own
                if node.parent >= 0:
                    below[node.parent] += there.total.inclusive
        assert sum(own.values()) == tree.total == (diff.base, diff.new)[side].total
        names = (diff.base, diff.new)[side].names
        report: Counter[tuple[str, str]] = Counter()
        for total in tree.functions():
            report[names.logical(total.frame), total.frame.module] += total.self_samples
        assert +own == +report
        for node, children in zip(diff.nodes, below, strict=True):
            there = (node.base, node.new)[side]
            if there is not None:
                assert there.total.inclusive == there.total.own + children


@given(random_runs())
@settings(max_examples=60, deadline=None)
def test_each_run_of_a_side_is_that_runs_report(runs: Runs) -> None:
    recording = held(runs)
    side = read_side(recording, "sample")
    nodes = [node for child in side.top.children.values() for node in child.walk()]
    for run in side.runs:
        tree = CallTree.from_recording(recording, runs=(run,))
        report: Counter[tuple[str, str]] = Counter()
        for total in tree.functions():
            report[total.frame[:2]] += total.self_samples
        own: Counter[tuple[str, str]] = Counter()
        for node in nodes:
            own[node.function] += node.by_run[run].own
            below = sum(child.by_run[run].inclusive for child in node.children.values())
            assert node.by_run[run].inclusive == node.by_run[run].own + below
        assert +own == +report
        assert side.totals[run] == tree.total
    for node in nodes:
        assert node.total.inclusive == sum(one.inclusive for one in node.by_run.values())


@given(random_runs())
@settings(max_examples=40, deadline=None)
def test_nothing_changes_from_a_recording_to_itself(runs: Runs) -> None:
    recording = held(runs)
    diff = compared(recording, recording)
    assert all(node.state is State.BOTH for node in diff.nodes)
    assert all(node.own.change == node.inclusive.change == 0 for node in diff.nodes)
    assert len(diff.nodes) == len(CallTree.from_recording(recording))


@given(random_runs(), random_runs())
@settings(max_examples=40, deadline=None)
def test_swapped_sides_mirror_each_change(base: Runs, new: Runs) -> None:
    one, other = held(base), held(new)
    there, back = found(matched(one, other)), found(matched(other, one))
    mirrored = {State.NEW: State.VANISHED, State.VANISHED: State.NEW}
    assert there.keys() == back.keys()
    for name, node in there.items():
        assert node.own.change == pytest.approx(-back[name].own.change, abs=1e-9)
        assert mirrored.get(node.state, node.state) is back[name].state


@given(random_tasks(), random_tasks())
@settings(max_examples=40, deadline=None)
def test_traced_columns_are_the_reports(base: Any, new: Any) -> None:
    recordings = [held_calls(tasks) for tasks in (base, new)]
    diff = matched(*recordings, "trace")
    for side, recording in enumerate(recordings):
        tree = TraceTree.from_recording(recording)
        there = [(node.base, node.new)[side] for node in diff.nodes]
        assert sum(one.total.own for one in there if one is not None) == tree.root_ns
        calls: Counter[str] = Counter()
        for one in there:
            if one is not None:
                calls[one.function[0]] += one.total.calls
        report = Counter({one.frame.function: 0 for one in tree.functions()})
        for one in tree.functions():
            report[one.frame.function] += one.calls.begun
        assert +calls == +report
    for node in diff.nodes:
        if node.more_often is not None and node.slower is not None:
            assert node.more_often + node.slower == pytest.approx(
                node.own.change, rel=1e-9, abs=1e-6
            )


# Traced calls.


def calls(function: str, count: int, ns: int, *callees: Call) -> list[Call]:
    return [Call(Frame(function), ns, callees=callees) for _ in range(count)]


def traced_with(tasks: Sequence[Call], **changes: Any) -> Recording:
    stated = metadata(1, mode="trace", frequency=99, **changes)
    paths = [traced_paths({"usemem": tasks})]
    return in_memory(lambda file: traced(file, paths, ((),), stated))


def test_more_often_is_told_from_slower() -> None:
    def faults(often: int, slow: int) -> Recording:
        inner = (*calls("often", often, 100), *calls("slow", 1, slow))
        return traced_with(calls(MM, 10, 50, *inner))

    diff = compared(faults(2, 100), faults(5, 400))
    nodes = found(diff)
    often, slow = nodes[f"{MM}>often"], nodes[f"{MM}>slow"]
    assert (often.calls, often.per_call) == (Pair(2, 5), (100, 100))
    assert (often.own, often.more_often, often.slower) == (Pair(200, 500), 300, 0)
    assert (slow.own, slow.more_often, slow.slower) == (Pair(100, 400), 0, 300)
    assert nodes[MM].own.change == 0
    assert (diff.whole, diff.direction, diff.per) == (Pair(350, 950), 1, "fault")
    assert diff.share(300) == 0.5


def test_figures_are_per_fault_whatever_the_number_of_faults() -> None:
    one, other = (traced_with(calls(MM, n, 50, *calls("f", 2, 10))) for n in (10, 30))
    diff = compared(one, other)
    assert all(node.own.change == 0 for node in diff.nodes)
    assert found(diff)[f"{MM}>f"].calls == Pair(2, 2)


def test_without_faults_figures_are_per_run() -> None:
    diff, terms = diff_recordings(*(traced_with(calls("f", n, 10)) for n in (10, 30)))
    assert (diff.per, diff.whole) == ("run", Pair(100, 300))
    assert terms.source == "trace"


_counts = st.just(0.0) | st.floats(0.01, 1e4)


@given(_counts, _counts, st.floats(0, 1e9), st.floats(0, 1e9))
def test_both_parts_of_a_change_are_all_of_it(n0: float, n1: float, s0: float, s1: float) -> None:
    often, slower = split(Pair(n0, n1), Pair(s0, s1))
    rounding = 1e-9 * (1 + abs(often))
    assert often + slower == pytest.approx(s1 - s0, abs=rounding)
    back = split(Pair(n1, n0), Pair(s1, s0))
    assert back == (pytest.approx(-often, abs=rounding), pytest.approx(-slower, abs=rounding))


FENTRY = {"how": "symbol", "method": "fentry", "kprobe": True, "fentry": True}


def test_what_only_one_side_traced_counts_in_its_caller() -> None:
    base = traced_with(calls(MM, 10, 50, *calls("extra", 1, 30, *calls("f", 1, 7))),
                       functions={MM: FENTRY, "extra": FENTRY, "f": FENTRY})  # fmt: skip
    new = traced_with(calls(MM, 10, 80, *calls("f", 1, 7)), functions={MM: FENTRY, "f": FENTRY})
    diff, terms = diff_recordings(base, new)
    nodes = found(diff)
    assert nodes.keys() == {MM, f"{MM}>f"}
    assert nodes[MM].own == Pair(80, 80)
    assert nodes[MM].inclusive == Pair(87, 87)
    assert any("traced in base only" in one and "extra" in one for one in terms.remarks)


def test_what_only_one_side_timed_is_compared_by_its_calls() -> None:
    counted = Call(Frame("f", "", INLINED), timed=False)
    functions = {MM: FENTRY, "f": FENTRY}
    base = traced_with(calls(MM, 10, 50, *calls("f", 2, 30)), functions=functions)
    new = traced_with(calls(MM, 10, 110, counted, counted, counted), functions=functions)
    diff, terms = diff_recordings(base, new)
    nodes = found(diff)
    assert nodes[MM].own == Pair(110, 110)
    assert (nodes[f"{MM}>f"].calls, nodes[f"{MM}>f"].own) == (Pair(2, 3), Pair(0, 0))
    assert any("timed on one side only" in one for one in terms.remarks)


# Terms.


def said(terms: Terms) -> str:
    return " ".join(terms.remarks)


def test_clocks_frequencies_and_commands_that_differ_are_said() -> None:
    base = sampled([path(100, "a")])
    new = sampled([path(100, "a")], clock="cpu-clock", frequency=99, command=("other",))
    remarks = said(diff_recordings(base, new)[1])
    for part in ("clocks differ: cycles in base, cpu-clock in new", "frequencies differ: 999 Hz",
                 "the commands differ", "cannot tell what was called more often"):  # fmt: skip
        assert part in remarks
    same = said(diff_recordings(base, base)[1])
    assert "differ" not in same


def test_modes_that_differ_compare_what_was_sampled() -> None:
    base = sampled([path(100, "a")])
    tasks = [traced_paths({"usemem": calls(MM, 3, 5)})]
    stated = metadata(1, mode="trace", frequency=99)
    new = in_memory(lambda file: traced(file, tasks, ((path(10, "a"),),), stated))
    diff, terms = diff_recordings(base, new)
    assert (terms.source, [node.own for node in diff.nodes]) == ("sample", [Pair(100, 100)])
    assert "only new holds a trace" in said(terms)
    with pytest.raises(FaultprofError, match="holds no trace"):
        diff_recordings(base, new, source="trace")


def test_trees_with_different_roots_are_compared_below_a_common_function() -> None:
    base = sampled([path(80, "do_read_fault", "x"), path(20, "[not in the text]/unresolved")])
    new = sampled([path(50, "entry", MM, "do_read_fault", "x"), path(50, "entry", "y")])
    diff, terms = diff_recordings(base, new)
    assert terms.root == "do_read_fault"
    assert "compared below do_read_fault" in said(terms)
    assert found(diff)["do_read_fault>x"].own == Pair(80, 50)
    assert "put side by side" in said(diff_recordings(base, sampled([path(9, "z")]))[1])


def test_lost_data_and_failed_runs_are_said() -> None:
    ledger = Ledger()
    ledger.degrade("12 samples lost")
    failed = metadata(ledger=ledger)
    failed = replace(failed, runs=(RunInfo(0, exit_status=3),))
    bad = in_memory(lambda file: recorded(file, [[path(9, "a")]], failed))
    remarks = said(diff_recordings(sampled([path(9, "a")]), bad)[1])
    assert "new is degraded: 12 samples lost" in remarks
    assert "1 of 1 runs of new failed" in remarks


def test_a_root_that_a_side_lacks_is_an_error_that_names_the_side() -> None:
    base, new = sampled([path(9, "a", "b")]), sampled([path(9, "a")])
    with pytest.raises(FaultprofError, match="no sample is in a function named b") as caught:
        compared(base, new, root="b")
    assert caught.value.exit_code == ExitCode.USAGE
    assert str(new.path) in caught.value.message


def test_relative_and_tasks() -> None:
    base = sampled([path(60, "a", "b"), PathCount("other", (Frame("a"),), 40)])
    diff = compared(base, base, comms=("usemem",))
    assert found(diff)["a"].percent == Pair(60, 60)
    assert found(compared(base, base, comms=("usemem",), relative=True))["a"].percent.base == 100


# Several runs.


def shares(*percents: int) -> list[list[PathCount]]:
    return [[path(one, "a", "f"), path(1000 - one, "a")] for one in percents]


def test_intervals_where_both_sides_have_several_runs() -> None:
    base = sampled(*shares(100, 104, 98, 101, 99))
    new = sampled(*shares(150, 155, 149, 151, 152))
    diff = compared(base, new)
    worth = Worth.of(diff)
    assert worth is not None
    node = found(diff)["a>f"]
    assert node.own.change == pytest.approx(5.10)
    change = worth.node(node)
    assert change.verdict == "real"
    assert change.difference == pytest.approx(5.10)
    low, high = change.difference_interval or (0, 0)
    assert 4.5 < low < 5.1 < high < 5.7
    assert worth.function(diff.functions[0]).verdict == "real"
    same = compared(base, base)
    again = Worth.of(same)
    assert again is not None
    assert again.node(found(same)["a>f"]).verdict == "noise"


def test_one_run_has_no_interval() -> None:
    several, one = sampled(*shares(1, 2, 3, 4)), sampled(*shares(5))
    assert Worth.of(compared(several, one)) is None


def test_interleaved_runs_are_compared_in_pairs() -> None:
    """A drift that both sides share hides the difference but for the pairs."""
    drift = [100, 150, 200, 250, 300, 350, 400, 450]
    base_order, new_order = list(range(8)), [3, 1, 0, 2, 7, 6, 4, 5]
    sides = []
    for order, more in ((base_order, 0), (new_order, 10)):
        runs = shares(*(drift[block] + more for block in order))
        options = {"interleaved": {"session": "s", "blocks": order}}
        sides.append(sampled(*runs, options=options))
    diff = compared(*sides)
    worth = Worth.of(diff)
    assert worth is not None
    assert worth.paired
    change = worth.node(found(diff)["a>f"])
    assert change.verdict == "real"
    assert change.difference_interval == pytest.approx((1.0, 1.0))
    other = sampled(
        *shares(*drift), options={"interleaved": {"session": "t", "blocks": base_order}}
    )
    unpaired = Worth.of(compared(sides[0], other))
    assert unpaired is not None
    assert not unpaired.paired


def test_unresolved_frames_explain_nothing() -> None:
    base = sampled([path(100, "a"), PathCount("x", (Frame("[unknown]", "", UNRESOLVED),), 900)])
    new = sampled([path(200, "a"), PathCount("x", (Frame("[unknown]", "", UNRESOLVED),), 800)])
    diff = compared(base, new)
    assert [one.function[0] for one in diff.functions] == ["a"]
    assert diff.direction == 1


def test_a_recording_file_is_left_alone(tmp_path: Path) -> None:
    file = tmp_path / "x.fprof"
    recording = recorded(file, [[path(5, "a")]], metadata())
    before = file.read_bytes()
    compared(recording, replace(recording))
    assert file.read_bytes() == before
