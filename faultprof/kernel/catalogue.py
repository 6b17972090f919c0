"""The fault path's functions in mainline's names, and how each may appear on a kernel.

Knows: names in former and later kernels, which functions answer which question (presets).
Leaves to others: what a running kernel has (``resolve``).

To add a function, add a line to ``_TABLE``: below its source file, with two or more spaces between
its name in mainline, its presets (``*``: all faults; the one that shows it first), and what it
does in about five words. A further line may say:

    formerly: its names in other kernels or on arm64, in the order in which to try them
    when: the condition by which its calls are told where it is inlined and there is no debuginfo
    never: why no probe can attach to its symbol, on any kernel
    instead: what to look at where it is not to be had
    beware: what its figures do not show
    also in: further source files that it may be inlined in

Nothing here depends on a kernel's version.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from faultprof.kernel import conditions
from faultprof.kernel.conditions import When

PRESETS = {
    "read": "read faults on files",
    "anon": "faults on anonymous memory",
    "cow": "copy on write, first writes to files",
    "clear": "clearing and copying pages, above all huge ones",
    "hugetlb": "hugetlb faults",
    "shmem": "faults on shared memory and tmpfs",
    "swap": "faults that swap in",
    "lock": "folio lock and wake, mmap lock, VMA lock",
}
ALL = "all"
# What is traced unless the user says: the faults that any program takes. Of the rest, swap and
# hugetlb need a machine set up for them, and lock has much that runs outside of faults too; all
# of it would take half as long again to attach (57 functions instead of 39 on 6.12).
USUAL = ("read", "anon", "cow")

_TABLE = """
arch/*/mm/fault.c
    exc_page_fault               *                        the page-fault exception
        formerly: do_mem_abort; never: entry; instead: handle_mm_fault
    do_user_addr_fault           *                        a fault on a user address
        formerly: do_page_fault; never: entry; instead: handle_mm_fault
mm/memory.c
    handle_mm_fault              *                        any fault, once it has a VMA
    __handle_mm_fault            *                        any fault but hugetlb's
    handle_pte_fault             *                        a fault on a small page
        instead: __handle_mm_fault
    do_pte_missing               *                        a page without an entry yet
        instead: do_fault, do_anonymous_page
    do_fault                     read cow shmem           fault on a mapped file
    do_read_fault                read shmem               read from a mapped file
        when: READ_FAULT
    do_fault_around              read                     maps neighbours that are cached
        instead: filemap_map_pages
    set_pte_range                read shmem               enters pages in the table
        formerly: do_set_pte
    do_set_pmd                   read shmem               enters a huge page
    __do_fault                   read cow shmem           asks the file for its page
    finish_fault                 read cow shmem           enters the faulting page
    do_anonymous_page            anon                     first touch of a page
        when: ANONYMOUS
    alloc_anon_folio             anon                     allocates for a first touch
        instead: vma_alloc_folio_noprof
    __vmf_anon_prepare           anon cow                 prepares reverse mapping
        formerly: __anon_vma_prepare
    __pte_alloc                  anon                     allocates a page table
    do_cow_fault                 cow                      write to a private file
        when: COW_FAULT
    do_shared_fault              cow shmem                write to a shared file
        when: SHARED_FAULT
    do_page_mkwrite              cow                      asks the file to allow writes
    do_wp_page                   cow                      write to a read-only page
    wp_page_copy                 cow                      copies the page written to
        instead: do_wp_page
    wp_page_reuse                cow                      makes the page writable
        never: inline; instead: do_wp_page
    folio_zero_user              clear anon hugetlb       clears a large folio
        formerly: clear_huge_page; beware: not for anonymous huge pages that the allocator clears
    process_huge_page            clear                    orders the sub-pages
        instead: folio_zero_user, copy_user_large_folio
    clear_subpage                clear                    clears one sub-page
        instead: folio_zero_user
    clear_gigantic_page          clear                    clears a 1 GB page
        instead: folio_zero_user
    clear_contig_highpages       clear                    clears sub-pages in a row
        instead: folio_zero_user
    clear_user_highpage          clear                    clears a page for user space
        formerly: clear_user_highpages; instead: folio_zero_user
        also in: mm/shmem.c mm/page_alloc.c
    clear_page                   clear                    clears a page
        formerly: clear_pages; instead: folio_zero_user; also in: mm/shmem.c mm/page_alloc.c
    copy_user_large_folio        clear hugetlb            copies a large folio
        formerly: copy_user_huge_page
    copy_subpage                 clear                    copies one sub-page
        instead: copy_user_large_folio
    copy_mc_user_highpage        clear                    copies a page, survives poison
        formerly: copy_user_highpage; instead: copy_user_large_folio, do_wp_page
    do_swap_page                 swap                     fault on a swapped-out page
mm/filemap.c
    filemap_map_pages            read shmem               maps cached pages around
    next_uptodate_folio          read shmem               finds the next folio to map
        formerly: next_uptodate_page
    filemap_map_order0_folio     read                     maps one small folio
        when: SINGLE_PAGE
    filemap_map_folio_range      read                     maps part of a large folio
        instead: set_pte_range
    filemap_fault                read                     finds or reads a file's page
    filemap_read_folio           read                     reads a folio from its file
    __folio_lock                 lock read                waits for a folio lock
        beware: own file
    __folio_lock_killable        lock                     waits for it, killably
        beware: own file
    __folio_lock_or_retry        lock read swap           waits for it, or gives up the fault
    folio_wait_bit_common        lock                     sleeps until a folio bit clears
        never: inline; instead: __folio_lock, io_schedule
    folio_unlock                 lock read                unlocks a folio
        beware: own file
    folio_wake_bit               lock read                wakes who waits for a folio
mm/readahead.c
    page_cache_sync_ra           read                     reads ahead after a miss
mm/shmem.c
    shmem_fault                  shmem read               finds or makes a page
    shmem_get_folio_gfp          shmem read               finds or makes a folio
        beware: own file
    shmem_alloc_and_add_folio    shmem                    makes a folio
        formerly: shmem_alloc_and_acct_folio
    shmem_add_to_page_cache      shmem                    adds a folio to the file
    shmem_swapin_folio           shmem swap               swaps a folio in
    shmem_fallocate              shmem clear              fills a tmpfs file
mm/huge_memory.c
    do_huge_pmd_anonymous_page   anon clear               first touch of a huge page
    vma_alloc_anon_folio_pmd     anon clear               allocates a huge page
    do_huge_pmd_wp_page          cow                      write to a read-only huge page
    __split_huge_pmd             cow                      splits a huge mapping
mm/hugetlb.c
    hugetlb_fault                hugetlb clear cow        any fault on a hugetlb page
    hugetlb_no_page              hugetlb                  first touch of a hugetlb page
        instead: hugetlb_fault
    hugetlb_wp                   hugetlb cow              write to a read-only hugetlb page
    alloc_hugetlb_folio          hugetlb                  takes a hugetlb page
        formerly: alloc_huge_page
fs/hugetlbfs/inode.c
    hugetlbfs_fallocate          hugetlb clear            fills a hugetlb file
mm/mempolicy.c
    vma_alloc_folio_noprof       anon cow                 allocates a folio by policy
        formerly: vma_alloc_folio
mm/page_alloc.c
    __alloc_frozen_pages_noprof  anon cow hugetlb shmem   allocates pages
        formerly: __alloc_pages_noprof __alloc_pages
    kernel_init_pages            clear                    zeroes on allocation
        instead: __alloc_frozen_pages_noprof
    post_alloc_hook              clear                    prepares pages just allocated
        never: inline; instead: __alloc_frozen_pages_noprof
mm/memcontrol.c
    __mem_cgroup_charge          anon cow shmem           charges a memory cgroup
mm/rmap.c
    folio_add_new_anon_rmap      anon cow                 adds the reverse mapping
        formerly: page_add_new_anon_rmap
mm/swap.c
    folio_add_lru                anon shmem               puts a folio on the LRU
        beware: own file
mm/swap_state.c
    swapin_sync                  swap                     swaps in without read-ahead
    swapin_readahead             swap                     swaps in, reads ahead
mm/page_io.c
    swap_read_folio              swap                     reads a folio from swap
        formerly: swap_readpage
mm/migrate.c
    migration_entry_wait         lock                     waits for a page's migration
mm/mmap_lock.c
    lock_vma_under_rcu           lock                     locks a VMA without mmap_lock
        also in: mm/memory.c
    lock_mm_and_find_vma         lock                     takes mmap_lock, finds the VMA
        also in: mm/memory.c
kernel/locking/rwsem.c
    rwsem_down_read_slowpath     lock                     waits to read-lock
    rwsem_down_write_slowpath    lock                     waits to write-lock
    rwsem_wake                   lock                     wakes who waits for a rwsem
kernel/sched/core.c
    io_schedule                  lock read swap           sleeps for I/O or a folio lock
assembler
    clear_page_erms              clear                    clears with rep stosb
        never: assembler
    clear_page_rep               clear                    clears with rep stosq
        never: assembler
    clear_page_orig              clear                    clears with plain stores
        never: assembler
    __clear_pages_unrolled       clear                    clears with plain stores
        never: assembler
    copy_page                    clear                    copies a page
        never: assembler
"""

_FAULTS = ("read", "anon", "cow", "hugetlb", "shmem", "swap")
_CONDITIONS = {
    "READ_FAULT": conditions.READ_FAULT,
    "COW_FAULT": conditions.COW_FAULT,
    "SHARED_FAULT": conditions.SHARED_FAULT,
    "SINGLE_PAGE": conditions.SINGLE_PAGE,
    "ANONYMOUS": conditions.ANONYMOUS,
}
# The reasons that come up often.
_NEVER = {"entry": "notrace (entry code)", "inline": "notrace (declared inline)"}
_BEWARE = {"own file": "calls within its own source file may be inlined, and are then not seen"}


@dataclass(frozen=True, slots=True)
class Function:
    """A function of the fault path; the attributes are those of a line in the table."""

    name: str
    presets: tuple[str, ...]
    does: str
    formerly: tuple[str, ...] = ()
    when: When | None = None
    never: str = ""
    instead: str = ""
    beware: str = ""
    sources: tuple[str, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        """Mainline's name, then the others."""
        return (self.name, *self.formerly)


def functions_in(preset: str) -> tuple[Function, ...]:
    """Return the functions of a preset, or of all of them; KeyError for another name."""
    if preset == ALL:
        return CATALOGUE
    if preset not in PRESETS:
        raise KeyError(preset)
    return tuple(function for function in CATALOGUE if preset in function.presets)


def function_named(name: str) -> Function | None:
    """Return the function that has this name in some kernel; mainline's names win."""
    return _BY_NAME.get(name) or _BY_FORMER_NAME.get(name)


def _functions(table: str) -> Iterator[Function]:
    """Yield the functions of a table."""
    source = ""
    for entry in re.split(r"\n(?! {8})", table.strip()):
        line, *further = entry.split("\n")
        if not line.startswith(" "):
            source = line
            continue
        name, presets, does = re.split(r" {2,}", line.strip())
        remarks = "; ".join(text.strip() for text in further).split("; ") if further else []
        yield _function(name, presets, does, source, dict(text.split(": ", 1) for text in remarks))


def _function(name: str, presets: str, does: str, source: str, remarks: dict[str, str]) -> Function:
    sources = (source, *remarks.pop("also in", "").split())
    formerly = tuple(remarks.pop("formerly", "").split())
    when = _CONDITIONS[remarks.pop("when")] if "when" in remarks else None
    never, beware = remarks.pop("never", ""), remarks.pop("beware", "")
    return Function(
        name,
        _FAULTS if presets == "*" else tuple(presets.split()),
        does,
        formerly,
        when,
        _NEVER.get(never, never),
        beware=_BEWARE.get(beware, beware),
        sources=() if source == "assembler" else sources,
        **remarks,
    )


CATALOGUE = tuple(_functions(_TABLE))
_BY_NAME = {function.name: function for function in CATALOGUE}
_BY_FORMER_NAME = {name: function for function in CATALOGUE for name in function.formerly}
