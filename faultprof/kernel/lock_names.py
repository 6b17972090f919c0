"""Which lock a wait was for: the lock's type, and its name where the waiting function tells it.

Knows: the flags of lock:contention_begin (include/trace/events/lock.h), which functions belong to
the locks themselves, and which function of the kernel takes which lock.
Leaves to others: locks that are known by where they are (``capture.contention.locks``), variables
(``variables``).

Most locks are fields of structures that come and go, and only the function that takes one tells
which field it is. Where a function takes two locks of a type, or is inlined into one that takes
another, it is not in the table; names are those of the fields.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

_SPIN, _READ, _WRITE, _RT, _PERCPU, _MUTEX = (1 << bit for bit in range(6))

_TYPES = {
    0: "semaphore",
    _SPIN: "spinlock",
    _SPIN | _READ: "rwlock read",
    _SPIN | _WRITE: "rwlock write",
    _READ: "rwsem read",
    _WRITE: "rwsem write",
    _RT: "rt-mutex",
    _RT | _READ: "rt-rwlock read",
    _RT | _WRITE: "rt-rwlock write",
    _PERCPU | _READ: "percpu-rwsem read",
    _PERCPU | _WRITE: "percpu-rwsem write",
    _MUTEX: "mutex",
}

# What lies between the tracepoint and our program, newer kernels' names included.
_PROBE = re.compile(
    r"^(?:bpf_prog_|bpf_trace_run|__bpf_trace_|__bpf_prog_|bpf_trampoline_|__traceiter_contention_"
    r"|trace_contention_|__do_trace_contention_|perf_trace_|bpf_get_stack)"
)

# The locks' own functions: who called them waits.
_LOCKING = re.compile(
    r"^(?:_raw_(?:spin|read|write)_\w*|__raw_\w+|_?do_raw_\w+"
    r"|(?:native_|__pv_|pv_)?queued_(?:spin|read|write)_\w+"
    r"|(?:spin|read|write)_lock\w*|raw_spin_lock\w*"
    r"|rt_(?:spin|read|write)_\w+|rtlock_\w+|__?rt_\w*mutex\w*|rt_mutex_\w+|rwbase_\w+|__rwbase_\w+"
    r"|rwsem_(?:down|optimistic|mark|spin)_\w+|(?:down|__down|___down)(?:_\w+)?"
    r"|mutex_(?:lock|optimistic)\w*|__mutex_lock\w*|__ww_mutex_lock\w*|ww_mutex_lock\w*"
    r"|(?:__)?percpu_(?:down|rwsem)_\w+)$"
)

_RWSEM = ("rwsem read", "rwsem write")
_SPINNING = ("spinlock", "rt-mutex")  # with PREEMPT_RT most spinlocks are rt-mutexes

# By lock: its name, its types, and the functions that take no other lock of these types.
_TAKERS: tuple[tuple[str, Sequence[str], str], ...] = (
    (
        "zone lock",
        _SPINNING,
        "rmqueue rmqueue_bulk rmqueue_buddy __rmqueue_pcplist get_page_from_freelist "
        "free_pcppages_bulk free_one_page __free_pages_ok unreserve_highatomic_pageblock "
        "reserve_highatomic_pageblock take_page_off_buddy",
    ),
    (
        "lruvec lock",
        _SPINNING,
        "folio_lruvec_lock folio_lruvec_lock_irq folio_lruvec_lock_irqsave "
        "folio_lruvec_relock_irq folio_lruvec_relock_irqsave folio_batch_move_lru "
        "pagevec_lru_move_fn __page_cache_release release_pages folios_put_refs lru_note_cost",
    ),
    (
        "page-table lock",
        _SPINNING,
        "__pte_offset_map_lock pte_offset_map_lock pmd_lock __pmd_trans_huge_lock "
        "__pud_trans_huge_lock pmd_install __pte_alloc filemap_map_pages filemap_map_pmd "
        "finish_fault set_pte_range do_set_pmd do_fault do_read_fault do_cow_fault "
        "do_shared_fault do_fault_around do_anonymous_page do_wp_page wp_page_copy do_swap_page "
        "do_numa_page handle_pte_fault __handle_mm_fault zap_pte_range unmap_page_range "
        "copy_pte_range copy_page_range change_protection do_huge_pmd_anonymous_page "
        "__do_huge_pmd_anonymous_page do_huge_pmd_wp_page copy_huge_pmd zap_huge_pmd "
        "change_huge_pmd __split_huge_pmd huge_pmd_set_accessed follow_page_pte follow_page_mask "
        "page_vma_mapped_walk map_pte huge_pte_lock hugetlb_fault hugetlb_no_page hugetlb_wp "
        "__unmap_hugepage_range copy_hugetlb_page_range",
    ),
    (
        "i_mmap_rwsem",
        _RWSEM,
        "i_mmap_lock_read i_mmap_lock_write unlink_file_vma unlink_file_vma_batch_process "
        "unlink_file_vma_batch_add unlink_file_vma_batch_final vma_link vma_link_file "
        "unmap_mapping_pages unmap_mapping_range unmap_mapping_folio rmap_walk_file "
        "__rmap_walk_file hugetlb_vmdelete_list huge_pmd_share",
    ),
    (
        "anon_vma rwsem",
        _RWSEM,
        "anon_vma_clone anon_vma_fork unlink_anon_vmas anon_vma_lock_write anon_vma_lock_read "
        "folio_lock_anon_vma_read page_lock_anon_vma_read",
    ),
    ("VMA lock", _RWSEM, "vma_start_write __vma_start_write"),
    (
        "i_pages",
        _SPINNING,
        "__filemap_add_folio shmem_add_to_page_cache shmem_delete_from_page_cache "
        "__folio_mark_dirty __folio_start_writeback __folio_end_writeback",
    ),
    (
        "i_rwsem",
        _RWSEM,
        "inode_lock inode_lock_shared shmem_fallocate shmem_file_write_iter hugetlbfs_fallocate "
        "generic_file_write_iter ext4_buffered_write_iter ext4_file_write_iter "
        "ext4_file_read_iter",
    ),
    (
        "invalidate_lock",
        _RWSEM,
        "filemap_invalidate_lock filemap_invalidate_lock_shared filemap_fault "
        "filemap_create_folio page_cache_ra_unbounded page_cache_ra_order",
    ),
    ("folio wait queue", _SPINNING, "folio_wake_bit folio_wait_bit_common"),
    (
        "wait queue",
        _SPINNING,
        "prepare_to_wait prepare_to_wait_exclusive prepare_to_wait_event finish_wait "
        "add_wait_queue remove_wait_queue __wake_up __wake_up_common_lock __wake_up_sync_key",
    ),
    (
        "futex hash bucket",
        _SPINNING,
        "futex_q_lock futex_wait_setup __futex_wait futex_wake futex_requeue futex_unqueue",
    ),
    (
        "runqueue lock",
        _SPINNING,
        "raw_spin_rq_lock_nested raw_spin_rq_lock _raw_spin_rq_lock_irqsave __schedule "
        "__task_rq_lock",
    ),
    (
        "tasklist_lock",
        ("rwlock read", "rwlock write", "rt-rwlock read", "rt-rwlock write"),
        "__do_wait do_wait release_task copy_process do_exit exit_notify",
    ),
    ("pipe->mutex", ("mutex",), "anon_pipe_read anon_pipe_write pipe_read pipe_write"),
    ("pcpu_alloc_mutex", ("mutex",), "pcpu_alloc pcpu_alloc_noprof"),
    ("slab node list_lock", _SPINNING, "get_partial_node __slab_free"),
    ("split queue", _SPINNING, "deferred_split_folio"),
    ("hugetlb fault mutex", ("mutex",), "hugetlb_fault hugetlb_no_page hugetlb_wp"),
    ("hugetlb VMA lock", _RWSEM, "hugetlb_vma_lock_read hugetlb_vma_lock_write"),
    (
        "BPF map bucket",
        _SPINNING,
        "htab_map_update_elem htab_map_delete_elem htab_lock_bucket htab_map_alloc_elem "
        "__pcpu_freelist_pop __pcpu_freelist_push",
    ),
)

_BY_TAKER = {
    (function, kind): name
    for name, kinds, takers in _TAKERS
    for function in takers.split()
    for kind in kinds
}


def type_name(flags: int) -> str:
    """Return the name of a type of lock, by its flags without SPIN of a mutex."""
    return _TYPES.get(flags, f"flags {flags:#x}")


def of_the_probe(function: str) -> bool:
    """Whether a function stands between the tracepoint and a program of ours."""
    return _PROBE.match(function) is not None


def of_the_lock(function: str) -> bool:
    """Whether a function is part of how a lock is taken."""
    return _LOCKING.match(function) is not None


def lock_taken_by(functions: Iterable[str], kind: str) -> str | None:
    """Return the name of the lock of a type that one of ``functions`` takes; None: not known.

    Args:
        functions: the function that waits, with what is inlined at that place, any order.
        kind: as :func:`type_name` has it.
    """
    return next((_BY_TAKER[one, kind] for one in functions if (one, kind) in _BY_TAKER), None)
