"""From presets, names and globs to functions, and the tracer's limit."""

from __future__ import annotations

import pytest

from faultprof.errors import FaultprofError
from faultprof.kernel.resolve import resolve
from faultprof.kernel.selection import MOST_AT_ONCE, choose, require_traceable
from tests import kernel_views


def names(kernel: str, *wanted: str) -> list[str]:
    return [function.name for function in choose((), wanted, kernel_views.load(kernel))]


def test_a_name_of_another_kernel_is_as_good() -> None:
    assert names("7.3", "clear_huge_page") == ["folio_zero_user"]
    assert names("6.1", "folio_zero_user", "clear_huge_page") == ["folio_zero_user"]


def test_a_former_name_that_is_another_function_here_means_that_function() -> None:
    assert names("6.12", "__alloc_pages_noprof") == ["__alloc_frozen_pages_noprof"]
    assert names("7.3", "__alloc_pages_noprof") == ["__alloc_pages_noprof"]
    assert names("7.3", "__alloc_pages") == ["__alloc_frozen_pages_noprof"]


def test_globs_match_what_can_be_probed_and_the_catalogue() -> None:
    found = names("7.3", "filemap_map_*")
    assert found == ["filemap_map_pages", "filemap_map_order0_folio", "filemap_map_folio_range"]
    assert names("7.3", "ext4_file_[mo]*")[0] == "ext4_file_mmap_prepare"
    assert "do_kern_addr_fault" in names("6.12", "do_*_fault")


def test_globs_tell_functions_that_share_a_name_between_kernels() -> None:
    assert names("7.3", "__alloc_*pages_noprof") == [
        "__alloc_frozen_pages_noprof",
        "__alloc_pages_noprof",
    ]
    assert names("6.1", "__alloc_*pages") == ["__alloc_frozen_pages_noprof"]


def test_globs_see_functions_behind_the_compilers_suffixes() -> None:
    assert names("7.3", "rwsem_wak?") == ["rwsem_wake"]


def test_presets_and_names_add_up_without_repetition() -> None:
    view = kernel_views.load("6.12")
    chosen = [one.name for one in choose(["lock", "read"], ["do_fault", "ext4_file_open"], view)]
    assert len(chosen) == len(set(chosen))
    assert chosen[-1] == "ext4_file_open"
    assert {"folio_unlock", "filemap_map_pages"} < set(chosen)


@pytest.mark.parametrize(
    ("wanted", "message", "hint"),
    [
        ("shmem_*", "shmem_* matches 112 functions; at most 64", "shmem_add_to_page_cache"),
        ("filemap_mapp*", "matches no function", "names like it: filemap_map_pages"),
    ],
)
def test_globs_that_match_too_much_or_nothing(wanted: str, message: str, hint: str) -> None:
    with pytest.raises(FaultprofError) as raised:
        names("7.3", wanted)
    assert raised.value.exit_code == 2
    assert message in raised.value.message
    assert hint in raised.value.hint


def test_unknown_presets_are_named_with_the_known_ones() -> None:
    with pytest.raises(FaultprofError) as raised:
        choose(["reed"], (), kernel_views.load("7.3"))
    assert raised.value.exit_code == 2
    assert "read, anon, cow" in raised.value.hint


@pytest.mark.parametrize(
    ("name", "code", "words"),
    [
        ("exc_page_fault", 3, ("notrace", "faultprof functions")),
        ("copy_page", 3, ("assembler", "faultprof functions")),
        ("lru_gen_add_folio", 3, ("notrace or assembler", "faultprof functions")),
        ("folio_zero_usr", 2, ("not in this kernel", "folio_zero_user")),
        ("do_raed_fault", 2, ("not in this kernel", "do_read_fault")),
    ],
)
def test_a_named_function_that_cannot_be_traced_is_an_error(
    name: str, code: int, words: tuple[str, str]
) -> None:
    view = kernel_views.load("6.12")
    resolved = resolve(choose((), [name], view), view)
    with pytest.raises(FaultprofError) as raised:
        require_traceable(resolved, view, named=[name])
    assert raised.value.exit_code == code
    assert words[0] in raised.value.message
    assert words[1] in raised.value.hint


def test_a_preset_leaves_out_what_cannot_be_traced() -> None:
    view = kernel_views.load("6.12")
    traced = require_traceable(resolve(choose(["read"], (), view), view), view)
    found = {one.name for one in traced.traced}
    assert "do_read_fault" in found
    assert "exc_page_fault" not in found
    assert traced.left_out == []


def test_a_kernel_without_kprobes_is_unsupported() -> None:
    view = kernel_views.load("6.18")
    with pytest.raises(FaultprofError) as raised:
        require_traceable(resolve(choose(["read"], (), view), view), view)
    assert raised.value.exit_code == 3
    assert "no kprobes" in raised.value.message
    assert "stock" in raised.value.hint


@pytest.mark.parametrize("kernel", ["6.1", "6.12", "7.3"])
def test_preset_all_fits(kernel: str) -> None:
    view = kernel_views.load(kernel)
    traced = require_traceable(resolve(choose(["all"], (), view), view), view)
    assert 50 < len(traced.traced) <= MOST_AT_ONCE
    assert traced.left_out == []


def test_with_debuginfo_the_costliest_inlined_bodies_are_left_out() -> None:
    view = kernel_views.load("6.12", debuginfo=True)
    resolved = resolve(choose(["all"], (), view), view)
    traced = require_traceable(resolved, view)
    assert len(traced.traced) == MOST_AT_ONCE
    least = min(len(one.places) for one in traced.left_out)
    kept = [one for one in traced.traced if one.how == "inlined"]
    assert least >= max(len(one.places) for one in kept)
    assert "clear_page" in {one.name for one in traced.left_out}
    named = require_traceable(resolved, view, named=["clear_page"])
    assert "clear_page" in {one.name for one in named.traced}


def test_more_functions_than_the_tracer_handles_are_refused() -> None:
    view = kernel_views.load("7.3")
    wanted = ["shmem_[a-f]*", "shmem_[g-r]*", "filemap_*"]
    resolved = resolve(choose((), wanted, view), view)
    with pytest.raises(FaultprofError) as raised:
        require_traceable(resolved, view, named=wanted)
    assert raised.value.exit_code == 2
    assert f"at most {MOST_AT_ONCE}" in raised.value.message
