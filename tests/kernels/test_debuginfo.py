"""Inline expansion of a stock Debian kernel with its own -dbg package, against addr2line.

The first test that asks for the package downloads it (1 GB, once a month); see debuginfo_cache.
"""

from __future__ import annotations

import random
import re
import subprocess
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import faultprof
from faultprof.kernel.build_id import elf_build_id
from faultprof.kernel.debuginfo import Debuginfo, find_debuginfo
from faultprof.kernel.inline_index import InlineIndex
from faultprof.kernel.kallsyms import Kallsyms
from faultprof.kernel.symbols import Symbolizer
from tests.addr2line import addr2line, disagreements
from tests.running import run, samples_below

from .debuginfo_cache import KernelDebuginfo, debuginfo
from .vm import session
from .vm.errors import UnavailableError
from .vm.images import REPOSITORY
from .vm.kernels import KERNELS
from .vm.source import source_tree

KERNEL = KERNELS["6.12"]
SOURCES = ("mm/memory.c", "mm/filemap.c", "mm/shmem.c", "mm/huge_memory.c")
# What a fault-path profile touches: functions in some 50 units, found by their symbols.
PROFILE = """
asm_exc_page_fault exc_page_fault do_user_addr_fault handle_mm_fault __handle_mm_fault do_fault
filemap_map_pages next_uptodate_folio set_pte_range filemap_fault shmem_fault shmem_get_folio_gfp
folio_zero_user clear_page_erms do_anonymous_page do_huge_pmd_anonymous_page vma_alloc_folio_noprof
alloc_pages_mpol_noprof __alloc_pages_noprof get_page_from_freelist __mem_cgroup_charge
folio_add_lru lru_gen_add_folio __count_memcg_events cgroup_rstat_updated mas_walk
lock_vma_under_rcu down_read_trylock up_read rwsem_down_read_slowpath _raw_spin_lock
native_queued_spin_lock_slowpath __pte_offset_map_lock folio_unlock folio_wake_bit
__wake_up_locked_key try_to_wake_up schedule __schedule update_curr pick_next_task_fair
enqueue_task_fair hrtimer_interrupt tick_nohz_handler update_process_times task_tick_fair
sched_tick rcu_sched_clock_irq __sysvec_apic_timer_interrupt irq_exit_rcu handle_softirqs
run_timer_softirq do_syscall_64 __x64_sys_munmap do_vmi_align_munmap unmap_region zap_pte_range
tlb_finish_mmu free_pages_and_swap_cache folios_put_refs free_unref_folios uncharge_folio
vm_mmap_pgoff do_mmap mmap_region perf_event_mmap security_mmap_file exit_mmap do_exit
__x64_sys_exit_group wait_consider_task ksys_read vfs_read ext4_file_read_iter shmem_file_read_iter
page_cache_ra_unbounded readahead_folio xas_load xas_find kmem_cache_alloc_noprof kmem_cache_free
get_random_u32 fput task_work_run ktime_get native_sched_clock __update_load_avg_se
""".split()  # noqa: SIM905 (a list of 90 quoted words is harder to read)


@pytest.fixture(scope="session")
def package() -> KernelDebuginfo:
    try:
        return debuginfo(KERNEL)
    except UnavailableError as error:
        pytest.skip(str(error))
        raise


@pytest.fixture(scope="session")
def vmlinux(package: KernelDebuginfo) -> Path:
    return package.vmlinux


@pytest.fixture(scope="session")
def build_id(vmlinux: Path) -> str:
    found = elf_build_id(vmlinux)
    assert found is not None
    return found


@pytest.fixture(scope="session")
def kallsyms(vmlinux: Path) -> Kallsyms:
    """Return the file's own symbols as a kernel at its address would list them."""
    return shifted_symbols(vmlinux, 0)


def shifted_symbols(vmlinux: Path, shift: int) -> Kallsyms:
    printed = subprocess.run(
        ["nm", "-n", vmlinux], check=True, capture_output=True, text=True
    ).stdout
    lines = (line.split(" ", 2) for line in printed.splitlines() if line[0] != " ")
    moved = ((int(line[0], 16), *line[1:]) for line in lines)
    text = "".join(f"{(at + shift if at else 0):016x} {kind} {name}\n" for at, kind, name in moved)
    return Kallsyms(text.encode())


@pytest.fixture
def index(vmlinux: Path, build_id: str) -> InlineIndex:
    """Return an index with the user's own cache, as a later use has it."""
    return InlineIndex(vmlinux, build_id)


@pytest.fixture
def empty_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))


def addresses_of(index: InlineIndex, source: str) -> list[int]:
    """Return all addresses that the units of a source file cover."""
    units = index.units_named(source)
    assert len(units) == 1, source
    coverage = index.coverage
    ours = np.isin(coverage.owners, units)
    spans = zip(coverage.starts[ours].tolist(), coverage.ends[ours].tolist(), strict=True)
    return [address for start, end in spans for address in range(start, end)]


@pytest.mark.parametrize("source", SOURCES)
def test_a_source_file_agrees_with_addr2line(
    index: InlineIndex, vmlinux: Path, source: str
) -> None:
    chosen = sorted(random.Random(source).sample(addresses_of(index, source), 4000))
    chains = index.chains(np.array(chosen, np.uint64))
    assert disagreements(chosen, chains, addr2line(vmlinux, chosen)) == []
    assert sum(map(len, chains)) > 1.5 * len(chosen), "much of mm/ is inlined"


def test_addresses_all_over_the_kernel_agree_with_addr2line(
    index: InlineIndex, vmlinux: Path
) -> None:
    coverage = index.coverage
    places = random.Random(1).sample(range(coverage.starts.size), 60)
    chosen = [
        address
        for start, end in zip(coverage.starts[places], coverage.ends[places], strict=True)
        for address in range(int(start), min(int(end), int(start) + 100))
    ]
    chains = index.chains(np.array(chosen, np.uint64))
    assert disagreements(chosen, chains, addr2line(vmlinux, chosen)) == []


def test_do_read_fault_is_found_in_do_fault(index: InlineIndex, kallsyms: Kallsyms) -> None:
    (do_fault,) = [found for found in kallsyms.find("do_fault") if found.name == "do_fault"]
    units = index.units_at(np.array([do_fault.address], np.uint64))
    assert units == index.units_named("mm/memory.c")
    for function in ("do_read_fault", "do_cow_fault", "do_shared_fault"):
        (site,) = index.sites(function, units)
        assert site.chain == ("do_fault", function)
        assert site.inlined
        assert do_fault.address <= site.entry < do_fault.end
    (site,) = index.sites("do_read_fault", units)
    assert any(low <= site.entry < high for low, high in site.ranges)


def test_the_sites_that_clear_huge_pages_are_found(
    index: InlineIndex, kallsyms: Kallsyms, vmlinux: Path
) -> None:
    units = index.units_named("mm/memory.c")
    sites = [site for site in index.sites("clear_page", units) if site.host == "folio_zero_user"]
    assert len(sites) >= 2
    assert {"process_huge_page", "clear_gigantic_page"} <= {site.chain[1] for site in sites}
    (host,) = kallsyms.find("folio_zero_user")
    for site in sites:
        assert all(host.address <= low < high <= host.end for low, high in site.ranges)
        starts = [low for low, _ in site.ranges]
        assert set(addr2line(vmlinux, starts)) == {site.chain}
    hosts = {site.host for site in index.sites("process_huge_page", units)}
    assert hosts == {"folio_zero_user", "copy_user_large_folio"}


def test_symbols_and_debuginfo_name_the_same_functions(
    index: InlineIndex, kallsyms: Kallsyms
) -> None:
    addresses = np.array(addresses_of(index, "mm/memory.c"), np.uint64)
    symbols, chains = kallsyms.lookup(addresses), index.chains(addresses)
    for address, symbol, chain in zip(addresses.tolist(), symbols, chains, strict=True):
        if chain:
            assert symbol is not None
            assert symbol.folded.function == chain[0], hex(address)


@pytest.mark.usefixtures("empty_cache")
def test_a_profiles_first_use_and_later_ones(
    vmlinux: Path, build_id: str, kallsyms: Kallsyms, capsys: pytest.CaptureFixture[str]
) -> None:
    """Print the time of a first and a later use; only what is read from the file is asserted."""
    symbols = [found for name in PROFILE for found in kallsyms.find(name)[:1]]
    addresses = np.array(
        [at for found in symbols for at in range(found.address, found.end, 16)], np.uint64
    )
    returns = np.ones(addresses.shape, bool)
    results, seconds, units = [], [], []
    for path in (vmlinux, vmlinux, Path("/nonexistent")):
        started = time.perf_counter()
        symbolizer = Symbolizer(kallsyms=kallsyms, debuginfo=Debuginfo(build_id, path))
        results.append(symbolizer.resolve(addresses, returns))
        seconds.append(time.perf_counter() - started)
        units.append(symbolizer.units_read)
    assert results[0] == results[1] == results[2]
    assert units[1:] == [0, 0]
    assert units[0] >= 40, "a typical profile"
    with capsys.disabled():
        print(
            f"\n{addresses.size} addresses in {units[0]} units: "
            f"first {seconds[0]:.2f} s, then {seconds[1]:.3f} s"
        )


@pytest.mark.parametrize("shift", [0x1A400000, 0x3E000000])
def test_a_moved_kernel_has_the_same_frames(
    vmlinux: Path, build_id: str, kallsyms: Kallsyms, index: InlineIndex, shift: int
) -> None:
    addresses = np.array(addresses_of(index, "mm/memory.c")[::7], np.uint64)
    found = Debuginfo(build_id, vmlinux)
    moved = Symbolizer(kallsyms=shifted_symbols(vmlinux, shift), debuginfo=found)
    still = Symbolizer(kallsyms=kallsyms, debuginfo=found)
    returns = np.zeros(addresses.shape, bool)
    assert moved.resolve(addresses + np.uint64(shift), returns) == still.resolve(addresses, returns)


_RECORD = """\
set -e
export FAULTPROF_VMLINUX=/job/vmlinux
head -c 64M /dev/zero >/dev/shm/file
cd /tmp
for run in first second; do
    start=$EPOCHREALTIME
    faultprof record --mode sample -o $run.fprof -- usemem -t 2 --readonly -f /dev/shm/file 64m
    python -c "print('$run recording: %.1f s' % ($EPOCHREALTIME - $start))"
done
cp first.fprof second.fprof /results
usemem=$(ls ~/.cache/faultprof/usemem-*/usemem)
cd /job/src
python -m tests.kernels.count_both_ways "$usemem" -t 2 --readonly -f /dev/shm/sparse 16m
grep -w _stext /proc/kallsyms >/results/stext
"""


def test_do_read_fault_inlined_on_the_moved_kernel(
    package: KernelDebuginfo,
    index: InlineIndex,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Record shared-file read faults in a guest whose kernel KASLR has moved, and count them."""
    try:
        machine = replace(session.prepare(KERNEL), memory_mib=3072)
    except UnavailableError as error:
        pytest.skip(str(error))
        raise
    files = source_tree(REPOSITORY) | {"vmlinux": package.small_vmlinux}
    result = machine.run(_RECORD, files)
    assert result.status == 0, result.output
    assert int(result.files["stext"].split()[0], 16) != index.markers["_stext"]
    for name in ("first.fprof", "second.fprof"):
        recording = tmp_path / name
        recording.write_bytes(result.files[name])
        resolutions = {
            total.frame.function: total.frame.resolution
            for total in faultprof.load(recording).functions()
        }
        assert resolutions["do_read_fault"] == "inlined"
        assert resolutions["do_fault"] == "symbol"
        assert "inferred" not in resolutions.values()
        assert samples_below(recording, "do_fault", "do_read_fault", "filemap_map_pages") > 0
        report = run("report", "--json", recording)
        assert report.returncode == 0, report.stderr
        assert "/job/vmlinux" in report.stdout, "the ledger names the debuginfo"
    counts = re.search(r"(\d+) by condition, (\d+) by address", result.output)
    assert counts is not None
    assert counts[1] == counts[2]
    assert int(counts[1]) >= 4096  # pages of the sparse file
    with capsys.disabled():
        print("\n" + "\n".join(re.findall(r"\w+ recording: .*|.* by condition.*", result.output)))


def test_the_file_is_found_where_debian_puts_it(
    package: KernelDebuginfo, build_id: str, tmp_path: Path
) -> None:
    path = tmp_path / f"usr/lib/debug/boot/vmlinux-{package.release}"
    path.parent.mkdir(parents=True)
    path.symlink_to(package.vmlinux)
    assert find_debuginfo(build_id, package.release, tmp_path, {}).path == path
