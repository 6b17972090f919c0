"""What is attached where, on the kernels whose symbols were recorded."""

from __future__ import annotations

import pytest

from faultprof.capture.trace_plan import What, make_plan, missing_hosts
from faultprof.kernel.resolve import resolve
from faultprof.kernel.resolved import How
from faultprof.kernel.selection import choose
from tests.kernel_views import load as load_view

KERNELS = ("6.1", "6.12", "7.3")


@pytest.mark.parametrize("kernel", KERNELS)
def test_numbers_are_positions_and_nothing_is_forgotten(kernel: str) -> None:
    resolved = resolve(choose(("all",), (), load_view(kernel)), load_view(kernel))
    plan = make_plan(resolved, "auto")
    assert [one.number for one in plan.functions] == list(range(len(plan.functions)))
    names = [one.name for one in plan.functions] + [one.name for one in plan.refused]
    assert sorted(names) == sorted(one.name for one in resolved)


@pytest.mark.parametrize("kernel", KERNELS)
def test_hosts_know_what_they_stand_for(kernel: str) -> None:
    plan = make_plan(resolve(choose(("all",), (), load_view(kernel)), load_view(kernel)), "auto")
    what = {one.name: one.what for one in plan.functions}
    assert what["handle_mm_fault"] is What.HANDLE_MM_FAULT
    assert what["do_fault"] is What.DO_FAULT
    knobs = plan.knobs()
    by_name = {one.name: one for one in plan.functions}
    for knob, name in (("READ_FAULT", "do_read_fault"), ("COW_FAULT", "do_cow_fault")):
        assert knobs[knob] == by_name[name].number
        assert by_name[name].points == ()
    anonymous = by_name["do_anonymous_page"]
    if kernel == "6.1":
        assert what["__handle_mm_fault"] is What.FAULT_OUTCOME
        assert what["do_wp_page"] is What.OTHER_OUTCOME
        assert knobs["ANONYMOUS"] == anonymous.number
        assert not anonymous.timed
    else:
        assert knobs["ANONYMOUS"] == len(plan.functions)
        assert anonymous.timed


def test_a_condition_brings_its_host_along() -> None:
    view = load_view("6.12")
    resolved = resolve(choose((), ("do_read_fault",), view), view)
    assert [one.how for one in resolved] == [How.CONDITION]
    assert missing_hosts(resolved) == ["do_fault"]


def test_a_condition_that_holds_in_one_caller_brings_that_along() -> None:
    """finish_fault() sets single pages too, and is not filemap_map_order0_folio()."""
    view = load_view("6.12")
    resolved = resolve(choose((), ("filemap_map_order0_folio",), view), view)
    hosts = missing_hosts(resolved)
    assert sorted(hosts) == ["filemap_map_pages", "set_pte_range"]
    plan = make_plan([*resolved, *resolve(choose((), hosts, view), view)], "auto")
    knobs = plan.knobs()
    assert plan.functions[knobs["MAP_PAGES"]].name == "filemap_map_pages"
    assert make_plan([], "auto").knobs()["MAP_PAGES"] == 0


@pytest.mark.parametrize("attach", ["fentry", "kprobe"])
def test_one_way_can_be_forced(attach: str) -> None:
    view = load_view("6.12")
    plan = make_plan(resolve(choose(("all",), (), view), view), attach)  # type: ignore[arg-type]
    assert {one.method for one in plan.functions if one.points} == {attach}


def test_no_fentry_by_itself_where_the_kernel_preempts_it() -> None:
    view = load_view("6.12")
    resolved = resolve(choose(("all",), (), view), view)
    methods = {
        preempts: {one.method for one in make_plan(resolved, "auto", preempts=preempts).functions}
        for preempts in (False, True)
    }
    assert "fentry" in methods[False]
    assert "fentry" not in methods[True]
