"""How functions are found on a kernel, way by way."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from faultprof.kernel.attachable import Attachable
from faultprof.kernel.catalogue import CATALOGUE, Function, function_named
from faultprof.kernel.conditions import READ_FAULT, Exclusion, Kind
from faultprof.kernel.named_symbols import NamedSymbols, Place
from faultprof.kernel.resolve import resolve
from faultprof.kernel.resolved import How, Resolved
from faultprof.kernel.view import Body, KernelView
from tests import kernel_views
from tests.kernel_views import RecordedTypes

ARGUMENTS = {"do_fault": ["vmf"], "set_pte_range": ["vmf", "folio", "page", "nr", "addr"]}
FIELDS = {f"{structure}.{field}": 8 * at for at, (structure, field) in enumerate(READ_FAULT.fields)}


def found_in(view: KernelView, name: str) -> Resolved:
    function = function_named(name)
    assert function is not None
    return resolve([function], view)[0]


def made_view(
    *symbols: str, closed: Sequence[str] = (), types: RecordedTypes | None = None
) -> KernelView:
    """Return a kernel with these symbols, 4 KiB apart; all but ``closed`` can be probed."""
    lines = [f"{0xFFFFFFFF81000000 + 4096 * at:x} t {name}\n" for at, name in enumerate(symbols)]
    listed = [name for name in symbols if name not in closed]
    return KernelView(
        "made",
        NamedSymbols("".join(lines).encode()),
        Attachable.parse("\n".join(listed)),
        types,
    )


@pytest.mark.parametrize(
    ("symbols", "how", "places"),
    [
        (("set_pte_range", "do_set_pte"), How.SYMBOL, ("set_pte_range",)),
        (("do_set_pte", "set_pte_range.isra.0"), How.RENAMED, ("do_set_pte",)),
        (("set_pte_range.isra.0",), How.VARIANT, ("set_pte_range.isra.0",)),
        (("do_set_pte.constprop.0",), How.VARIANT, ("do_set_pte.constprop.0",)),
        (
            ("set_pte_range", "set_pte_range.constprop.0"),
            How.SYMBOL,
            ("set_pte_range", "set_pte_range.constprop.0"),
        ),
        # It calls its part itself: two probes would count one call twice.
        (("set_pte_range", "set_pte_range.part.0"), How.SYMBOL, ("set_pte_range",)),
        (("set_pte_range", "set_pte_range.cold"), How.SYMBOL, ("set_pte_range",)),
        (("set_pte_range.cold",), How.UNAVAILABLE, ()),
        (("__pfx_set_pte_range",), How.UNAVAILABLE, ()),
    ],
)
def test_the_ways_are_tried_in_order(
    symbols: tuple[str, ...], how: How, places: tuple[str, ...]
) -> None:
    found = found_in(made_view(*symbols), "set_pte_range")
    assert (found.how, found.places) == (how, tuple(map(Place, places)))
    assert found.traceable == (how is not How.UNAVAILABLE)


def test_a_part_alone_misses_the_calls_that_end_before_it() -> None:
    found = found_in(made_view("set_pte_range.part.0"), "set_pte_range")
    assert found.how is How.VARIANT
    assert "inlined beginning" in found.beware


def test_a_closed_symbol_gives_way_to_an_open_one_of_another_name() -> None:
    view = made_view("set_pte_range", "do_set_pte", closed=["set_pte_range"])
    assert found_in(view, "set_pte_range").how is How.RENAMED


def test_a_closed_symbol_is_not_to_be_had_but_visible() -> None:
    found = found_in(made_view("copy_page", closed=["copy_page"]), "copy_page")
    assert (found.how, found.visible, found.reason) == (How.UNAVAILABLE, "copy_page", "assembler")
    assert not found.traceable


@pytest.mark.parametrize("functions", [{"do_fault": ["vmf"]}, {}])
def test_fentry_needs_a_type_of_exactly_that_name(functions: dict[str, list[str]]) -> None:
    view = made_view("do_fault", types=RecordedTypes(functions, {}))
    found = found_in(view, "do_fault")
    assert (found.kprobe, found.fentry) == (True, bool(functions))


def test_fentry_takes_a_limited_number_of_arguments() -> None:
    view = made_view("do_fault", types=RecordedTypes({"do_fault": list("abcdefg")}, {}))
    assert not found_in(view, "do_fault").fentry
    assert found_in(replace(view, fentry_arguments=7), "do_fault").fentry


def test_fentry_reaches_no_variant() -> None:
    types = RecordedTypes({"do_fault": ["vmf"]}, {})
    assert not found_in(made_view("do_fault.isra.0", types=types), "do_fault").fentry


def test_a_condition_is_bound_to_this_kernels_offsets() -> None:
    view = made_view("do_fault", types=RecordedTypes(ARGUMENTS, FIELDS))
    found = found_in(view, "do_cow_fault")
    assert (found.how, found.host, found.places) == (
        How.CONDITION,
        "do_fault",
        (Place("do_fault"),),
    )
    assert found.condition is not None
    assert found.condition.kind is Kind.COW_FAULT
    assert found.condition.argument == 0
    assert found.condition.offsets == FIELDS
    assert found.condition.knobs["OFFSET_VM_AREA_STRUCT_VM_FLAGS"] == 16
    assert found.fentry


def test_an_arguments_position_comes_from_btf() -> None:
    swapped = RecordedTypes({"set_pte_range": ["vmf", "nr", "page"]}, {})
    found = found_in(made_view("set_pte_range", types=swapped), "filemap_map_order0_folio")
    assert found.condition is not None
    assert found.condition.argument == 1


@pytest.mark.parametrize(
    ("types", "reason"),
    [
        (None, "without BTF"),
        (RecordedTypes({}, FIELDS), "no argument vmf"),
        (RecordedTypes({"do_fault": ["work"]}, FIELDS), "no argument vmf"),
        (RecordedTypes(ARGUMENTS, {}), "BTF has no vm_fault.flags"),
        (
            RecordedTypes(ARGUMENTS, FIELDS, {"fault_flag.FAULT_FLAG_WRITE": 2}),
            "FAULT_FLAG_WRITE is 0x2 here",
        ),
    ],
)
def test_a_condition_that_cannot_be_tested_is_not_to_be_had(
    types: RecordedTypes | None, reason: str
) -> None:
    found = found_in(made_view("do_fault", types=types), "do_read_fault")
    assert found.how is How.UNAVAILABLE
    assert reason in found.reason


def test_a_condition_needs_the_host_as_the_source_has_it() -> None:
    view = made_view("do_fault.isra.0", types=RecordedTypes(ARGUMENTS, FIELDS))
    found = found_in(view, "do_read_fault")
    assert found.how is How.UNAVAILABLE
    assert "do_fault has no symbol of its own" in found.reason


def test_exclusions_are_those_that_can_be_probed_here() -> None:
    found = found_in(kernel_views.load("6.1"), "do_anonymous_page")
    assert found.condition is not None
    excluded = {one.function for one in found.condition.excludes}
    assert {"do_swap_page", "do_wp_page", "numa_migrate_prep"} <= excluded
    assert "numa_migrate_check" not in excluded
    assert Exclusion("do_huge_pmd_anonymous_page", 0x800) in found.condition.excludes


class TestTwoFunctionsOfOneName:
    """Linux 6.1: an IOMMU driver has a do_fault too, and BTF describes that one."""

    def test_the_one_among_its_neighbours_is_taken(self) -> None:
        found = found_in(kernel_views.load("6.1"), "do_fault")
        assert found.places == (Place("finish_fault", 0x270),)
        assert found.symbol == "do_fault"
        assert found.kprobe
        assert not found.fentry
        assert "one of 2 of this name" in found.reason

    def test_conditions_go_to_the_same_place_and_do_not_believe_btf(self) -> None:
        view = kernel_views.load("6.1")
        assert view.types is not None
        assert view.types.arguments("do_fault") == ("work",)
        found = found_in(view, "do_read_fault")
        assert found.places == (Place("finish_fault", 0x270),)
        assert found.condition is not None
        assert found.condition.argument == 0
        assert not found.fentry

    def test_unknown_functions_are_refused(self) -> None:
        (found,) = resolve([Function("do_fault", (), "")], kernel_views.load("6.1"))
        assert found.how is How.UNAVAILABLE
        assert "could hit the wrong one" in found.reason

    def test_hidden_addresses_leave_them_apart(self) -> None:
        view = kernel_views.load("6.1")
        lines = [f"{0:016x} {line[17:].decode()}\n" for line in view.symbols._lines if line]
        hidden = replace(view, symbols=NamedSymbols("".join(lines).encode()))
        assert found_in(hidden, "do_fault").how is How.UNAVAILABLE
        assert found_in(hidden, "do_wp_page").how is How.SYMBOL

    def test_one_that_is_closed_makes_both_doubtful(self) -> None:
        view = kernel_views.load("6.1")
        assert view.attachable is not None
        counts = view.attachable.counts.copy()
        counts["do_fault"] -= 1
        view = replace(view, attachable=Attachable(counts))
        assert "not all can be probed" in found_in(view, "do_fault").reason


class TestDebuginfo:
    """Linux 6.12 with its debug package."""

    def test_inlined_bodies_are_probed_at_their_entries(self) -> None:
        found = found_in(kernel_views.load("6.12", debuginfo=True), "do_read_fault")
        assert (found.how, found.host) == (How.INLINED, "do_fault")
        # The same address as others measured: 0x194 bytes behind do_fault.
        assert found.places == (Place("do_fault", 0x194),)
        assert (found.kprobe, found.fentry) == (True, False)

    def test_all_bodies_are_probed(self) -> None:
        found = found_in(kernel_views.load("6.12", debuginfo=True), "process_huge_page")
        hosts = {place.symbol for place in found.places}
        assert hosts == {"folio_zero_user", "copy_user_large_folio"}
        assert found.host is None

    def test_bodies_in_closed_hosts_are_named(self) -> None:
        found = found_in(kernel_views.load("6.12", debuginfo=True), "kernel_init_pages")
        assert "post_alloc_hook" in found.beware
        assert "post_alloc_hook" not in {place.symbol for place in found.places}

    def test_calls_inlined_beside_a_symbol_are_named(self) -> None:
        view = kernel_views.load("6.12", debuginfo=True)
        found = found_in(view, "folio_unlock")
        assert found.how is How.SYMBOL
        assert "next_uptodate_folio" in found.beware
        assert found_in(view, "folio_wake_bit").beware == ""
        assert "may be inlined" in found_in(kernel_views.load("6.12"), "folio_unlock").beware

    def test_what_is_nowhere_is_not_in_this_kernel(self) -> None:
        view = kernel_views.load("6.12", debuginfo=True)
        assert found_in(view, "clear_contig_highpages").reason == "not in this kernel"
        assert found_in(view, "swapin_sync").reason == "not in this kernel"

    def test_a_cold_part_is_a_place_of_its_own(self) -> None:
        class InCold:
            def bodies(self, function: str, near: Sequence[int]) -> list[Body]:
                cold = 0xFFFFFFFF81000000 + 2 * 4096 + 0x10
                return [Body("do_fault", cold)] if near and function == "do_read_fault" else []

        view = made_view("handle_mm_fault", "do_fault", "do_fault.cold", closed=["do_fault.cold"])
        found = found_in(replace(view, bodies=InCold()), "do_read_fault")
        assert found.places == (Place("do_fault.cold", 0x10),)


class TestWithoutProbes:
    """A kernel without kprobes, tracefs not mounted."""

    def test_nothing_is_traceable_but_symbols_are_told(self) -> None:
        view = kernel_views.load("6.18")
        found = {one.name: one for one in resolve(CATALOGUE, view)}
        assert not view.can_probe
        assert not any(one.traceable for one in found.values())
        assert found["do_fault"].how is How.SYMBOL
        assert found["do_fault"].visible == "do_fault"
        assert found["do_read_fault"].how is How.CONDITION
        assert found["exc_page_fault"].reason.startswith("notrace")

    def test_a_list_without_kprobes_is_no_use(self) -> None:
        whole, without = kernel_views.load("6.12"), kernel_views.load("6.18")
        view = replace(whole, obstacles=without.obstacles[:1])
        assert not found_in(view, "do_fault").traceable


@pytest.mark.parametrize("kernel", ["6.1", "6.12", "6.18", "7.3"])
def test_every_answer_has_what_it_claims(kernel: str) -> None:
    view = kernel_views.load(kernel)
    for one in resolve(CATALOGUE, view):
        assert bool(one.places) == (one.how is not How.UNAVAILABLE)
        assert (one.condition is not None) == (one.how is How.CONDITION)
        assert one.reason or one.how is How.SYMBOL
        assert one.kprobe or not one.fentry
        assert one.to_json()["how"] == one.how
