"""The catalogue: sound in itself, and right about the kernels that were looked at."""

from __future__ import annotations

import pytest

from faultprof.kernel.catalogue import (
    ALL,
    CATALOGUE,
    PRESETS,
    Function,
    function_named,
    functions_in,
)
from faultprof.kernel.conditions import ANONYMOUS, COW_FAULT, READ_FAULT, SHARED_FAULT
from faultprof.kernel.resolve import resolve
from faultprof.kernel.resolved import How, Resolved
from tests import kernel_views

KERNELS = ("6.1", "6.12", "6.18", "7.3")

# What stock kernels have: P: a probe can attach; sym: a symbol, but notrace or assembler;
# -: no symbol. Observed by hand, kernel by kernel, before the catalogue was written. The recorded
# 6.18 is not Debian's, and without do_user_addr_fault for that reason.
OBSERVED = """
exc_page_fault                sym  sym  sym  sym
do_user_addr_fault            sym  sym  -    sym
handle_mm_fault               P    P    P    P
__handle_mm_fault             P    P    P    P
handle_pte_fault              -    -    -    -
do_pte_missing                -    -    -    -
do_fault                      P    P    P    P
do_read_fault                 -    -    -    -
do_cow_fault                  -    -    -    -
do_shared_fault               -    -    -    -
do_fault_around               -    -    -    -
filemap_map_pages             P    P    P    P
next_uptodate_page            P    -    -    -
next_uptodate_folio           -    P    P    P
filemap_map_folio_range       -    -    -    -
filemap_map_order0_folio      -    -    -    -
do_set_pte                    P    -    -    -
set_pte_range                 -    P    P    P
__do_fault                    P    P    P    P
finish_fault                  P    P    P    P
shmem_fault                   P    P    P    P
filemap_fault                 P    P    P    P
shmem_get_folio_gfp           P    P    P    P
folio_wake_bit                P    P    P    P
folio_unlock                  P    P    P    P
__folio_lock                  P    P    P    P
__folio_lock_or_retry         P    P    P    P
folio_wait_bit_common         sym  sym  sym  sym
do_anonymous_page             -    P    P    P
do_wp_page                    P    P    P    P
wp_page_copy                  P    -    -    -
do_swap_page                  P    P    P    P
do_huge_pmd_anonymous_page    P    P    P    P
do_huge_pmd_wp_page           P    P    P    P
lock_vma_under_rcu            -    P    P    P
clear_huge_page               P    -    -    -
folio_zero_user               -    P    P    P
process_huge_page             -    -    -    -
clear_subpage                 -    -    -    -
clear_gigantic_page           -    -    -    -
clear_user_highpage           -    -    -    -
clear_page                    -    -    -    -
copy_subpage                  -    P    P    -
copy_user_huge_page           P    -    -    -
copy_user_large_folio         -    P    P    P
clear_page_erms               sym  sym  sym  -
clear_page_rep                sym  sym  sym  -
clear_page_orig               sym  sym  sym  -
__clear_pages_unrolled        -    -    -    sym
copy_page                     sym  sym  sym  sym
hugetlb_fault                 P    P    P    P
hugetlb_wp                    P    P    P    P
hugetlb_no_page               -    -    -    P
vma_alloc_anon_folio_pmd      -    -    P    P
__alloc_pages                 P    -    -    -
__alloc_pages_noprof          -    P    P    P
__alloc_frozen_pages_noprof   -    -    P    P
shmem_fallocate               P    P    P    P
hugetlbfs_fallocate           P    P    P    P
__mem_cgroup_charge           P    P    P    P
folio_add_lru                 P    P    P    P
rwsem_down_read_slowpath      P    P    P    P
"""
ROWS = [line.split() for line in OBSERVED.strip().splitlines()]


@pytest.mark.parametrize(
    ("kernel", "name", "observed"),
    [
        pytest.param(kernel, row[0], row[column], id=f"{kernel}-{row[0]}")
        for column, kernel in enumerate(KERNELS, 1)
        for row in ROWS
    ],
)
def test_each_symbol_is_as_observed(kernel: str, name: str, observed: str) -> None:
    # Bare, so that neither another name nor a condition helps.
    catalogued = function_named(name)
    assert catalogued is not None
    bare = Function(name, (), "", sources=catalogued.sources)
    (found,) = resolve([bare], kernel_views.load(kernel))
    if observed == "P":
        assert found.how is How.SYMBOL
    if observed == "sym":
        assert found.visible == name
    if observed == "-":
        # 7.3 has a clear_pages.constprop.0, but that is another name.
        assert (found.visible, found.places) == (None, ())
    # The recorded 6.18 lacks kprobes: nobody can tell there what a probe could attach to.
    if kernel != "6.18":
        assert found.traceable == (observed == "P")
        assert (found.how is How.UNAVAILABLE) == (observed != "P")


def test_every_observed_function_is_in_the_catalogue() -> None:
    assert [row[0] for row in ROWS if function_named(row[0]) is None] == []


EXPECTED = """
do_fault                     symbol       symbol       symbol
do_read_fault                condition    condition    condition
do_cow_fault                 condition    condition    condition
do_shared_fault              condition    condition    condition
filemap_map_order0_folio     unavailable  condition    condition
set_pte_range                renamed      symbol       symbol
next_uptodate_folio          renamed      symbol       symbol
do_anonymous_page            condition    symbol       symbol
folio_zero_user              renamed      symbol       symbol
copy_user_large_folio        renamed      symbol       symbol
__alloc_frozen_pages_noprof  renamed      renamed      symbol
alloc_hugetlb_folio          renamed      symbol       symbol
swap_read_folio              renamed      symbol       symbol
folio_add_new_anon_rmap      renamed      symbol       symbol
vma_alloc_folio_noprof       renamed      symbol       symbol
shmem_alloc_and_add_folio    renamed      symbol       symbol
rwsem_wake                   variant      variant      variant
lock_vma_under_rcu           unavailable  symbol       symbol
exc_page_fault               unavailable  unavailable  unavailable
folio_wait_bit_common        unavailable  unavailable  unavailable
clear_page_erms              unavailable  unavailable  unavailable
process_huge_page            unavailable  unavailable  unavailable
"""


@pytest.mark.parametrize(("column", "kernel"), [(1, "6.1"), (2, "6.12"), (3, "7.3")])
def test_each_logical_function_is_found_in_its_way(column: int, kernel: str) -> None:
    rows = [line.split() for line in EXPECTED.strip().splitlines()]
    found = {one.name: one for one in resolve(CATALOGUE, kernel_views.load(kernel))}
    assert {row[0]: str(found[row[0]].how) for row in rows} == {row[0]: row[column] for row in rows}


def test_names_are_unique_and_presets_known() -> None:
    names = [name for function in CATALOGUE for name in function.names]
    assert len(names) == len(set(names))
    for function in CATALOGUE:
        assert function.presets
        assert set(function.presets) <= set(PRESETS)
        assert function.does
        assert len(function.does) <= 36, function.name
        assert all("/" in source for source in function.sources)


def test_what_to_look_at_instead_is_in_the_catalogue() -> None:
    pointers = {name for one in CATALOGUE for name in one.instead.split(", ") if name}
    assert [name for name in pointers if function_named(name) is None] == []


def test_presets_hold_the_functions_of_their_faults() -> None:
    assert {function.name for function in functions_in("lock")} >= {"folio_unlock", "rwsem_wake"}
    assert functions_in(ALL) == CATALOGUE
    for preset in ("read", "anon", "cow", "hugetlb", "shmem", "swap"):
        assert "handle_mm_fault" in {function.name for function in functions_in(preset)}
    with pytest.raises(KeyError):
        functions_in("reed")


def test_conditions_are_where_they_belong() -> None:
    conditions = {one.name: one.when for one in CATALOGUE if one.when}
    assert conditions["do_read_fault"] is READ_FAULT
    assert conditions["do_cow_fault"] is COW_FAULT
    assert conditions["do_shared_fault"] is SHARED_FAULT
    assert conditions["do_anonymous_page"] is ANONYMOUS


def test_a_function_goes_by_all_its_names() -> None:
    assert function_named("do_set_pte") is function_named("set_pte_range")
    assert function_named("no_such_function") is None


def test_resolutions_are_those_of_recordings() -> None:
    found = {one.name: one for one in resolve(CATALOGUE, kernel_views.load("6.12"))}
    assert found["rwsem_wake"].resolution == "symbol:.isra.0"
    assert found["do_read_fault"].resolution == "inferred"
    assert found["__alloc_frozen_pages_noprof"].resolution == "symbol"
    assert Resolved("x", How.INLINED).resolution == "inlined"
