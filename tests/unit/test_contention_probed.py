"""Which functions a part of contention probes on a kernel, and how."""

from __future__ import annotations

from dataclasses import replace

import pytest

from faultprof.capture.contention import outcomes, yielding
from faultprof.capture.contention.probed import Wanted, find
from faultprof.errors import ExitCode, FaultprofError
from faultprof.kernel.attachable import Attachable
from faultprof.kernel.named_symbols import NamedSymbols
from faultprof.kernel.view import KernelView
from tests import kernel_views
from tests.kernel_views import RecordedTypes


def made_view(*symbols: str) -> KernelView:
    """Return a kernel with these symbols, each of which can be probed."""
    lines = [f"{0xFFFFFFFF81000000 + 4096 * at:x} t {name}\n" for at, name in enumerate(symbols)]
    return KernelView(
        "made",
        NamedSymbols("".join(lines).encode()),
        Attachable.parse("\n".join(symbols)),
        RecordedTypes({name: ["vmf"] for name in symbols}, {}),
    )


@pytest.mark.parametrize("kernel", ["6.1", "6.12", "7.3"])
def test_every_kernel_shows_what_fault_around_does(kernel: str) -> None:
    probed = find(yielding.WANTED, kernel_views.load(kernel), "auto")
    assert not probed.missing
    renamed = {"next_uptodate_folio": "next_uptodate_page", "set_pte_range": "do_set_pte"}
    for name, former in renamed.items():
        assert probed.symbol(name) == (former if kernel == "6.1" else name)


@pytest.mark.parametrize("kernel", ["6.1", "6.12", "7.3"])
def test_every_kernel_shows_each_kind_of_fault(kernel: str) -> None:
    probed = find(outcomes.WANTED, kernel_views.load(kernel), "auto")
    assert outcomes.untold(probed) == []
    assert probed.has("do_anonymous_page") == (kernel != "6.1")
    # NUMA hinting is told by one of two, by the kernel's age.
    assert probed.has("numa_migrate_prep") != probed.has("numa_migrate_check")


def test_a_kind_that_no_function_stands_for_is_untold() -> None:
    probed = find(outcomes.WANTED, kernel_views.load("6.1"), "fentry")
    assert outcomes.untold(probed) == ["read", "cow", "shared"]
    assert probed.missing["do_fault"]


def test_what_attaches_in_one_way_only_is_attached_so() -> None:
    view = kernel_views.load("6.1")
    assert find(outcomes.WANTED, view, "auto").knobs() == {"FENTRY": 1, "KPROBE": 1}
    assert find(outcomes.WANTED, view, "kprobe").knobs() == {"FENTRY": 0, "KPROBE": 1}
    preempting = replace(kernel_views.load("6.12"), preempts=True)
    assert find(outcomes.WANTED, preempting, "auto").knobs() == {"FENTRY": 0, "KPROBE": 1}
    methods = {one["method"] for one in find(outcomes.WANTED, view, "auto").functions().values()}
    assert methods == {"kprobe", "fentry"}


def test_a_part_is_refused_without_what_it_needs() -> None:
    with pytest.raises(FaultprofError, match="no kprobes") as raised:
        find(yielding.WANTED, kernel_views.load("6.18"), "auto")
    assert raised.value.exit_code == ExitCode.UNSUPPORTED
    with pytest.raises(FaultprofError, match="filemap_map_pages cannot be probed") as raised:
        find(yielding.WANTED, made_view("handle_mm_fault"), "auto")
    assert raised.value.exit_code == ExitCode.UNSUPPORTED


def test_what_the_compiler_has_changed_keeps_no_arguments() -> None:
    view = made_view("do_swap_page.isra.0")
    reading = Wanted("do_swap_page", 1, reads_arguments=True)
    assert find([reading._replace(reads_arguments=False)], view, "auto").has("do_swap_page")
    assert "do_swap_page" in find([reading], view, "auto").missing
