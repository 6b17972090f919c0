"""Which part of the kernel a function belongs to: what colours and stacked bars go by.

Knows: the areas, and which names are in each.
Leaves to others: how an area looks (``render.palette``).

A function's area follows from its name and its resolution alone, so that it is the same in every
recording and on every kernel. The first line of ``_RULES`` that fits decides; leading underscores
do not count. What no line names is ``OTHER``.
"""

from __future__ import annotations

import re
from enum import StrEnum
from functools import lru_cache

from faultprof.recording.frames import USER, Frame


class Area(StrEnum):
    """A part of the fault path, in the words that a legend uses."""

    ENTRY = "fault entry"
    FILEMAP = "filemap"
    SHMEM = "shmem"
    ANON = "anon"
    HUGE = "huge pages"
    LOCKING = "locking"
    ALLOCATION = "allocation"
    CLEAR = "clear/copy"
    MEMCG = "memcg"
    OTHER = "other"
    USER = "user"


# Whole words or beginnings (with *) or anything within (with * on both sides).
_RULES: tuple[tuple[Area, str], ...] = (
    (
        Area.CLEAR,
        "clear_page* clear_pages* clear_huge_page clear_gigantic_page clear_subpage "
        "clear_user_highpage* clear_contig_highpages folio_zero_user process_huge_page copy_page* "
        "copy_subpage copy_user_* copy_mc_* kernel_init_pages memset* memcpy* memmove* "
        "rep_stos* rep_movs* clear_user* copy_highpage folio_copy",
    ),
    (
        Area.LOCKING,
        "*spin_lock* *spin_unlock* *spin_trylock* *spin_rq_lock* *rwsem* *mutex* *seqcount* "
        "down_read* down_write* up_read* up_write* read_lock* write_lock* *folio_lock* "
        "*folio_trylock* *folio_unlock* folio_wake* folio_wait_bit* unlock_page lock_page* "
        "wake_page_function lock_vma* lock_mm_and_find_vma *vma_start_read* vma_end_read "
        "*mmap_lock* osq_* queued_* native_queued_* pv_* futex* io_schedule* schedule "
        "schedule_timeout* wait_on_page_bit* migration_entry_wait* pte_offset_map_lock* "
        "*percpu_down* *percpu_up*",
    ),
    (Area.SHMEM, "shmem_* tmpfs_*"),
    (
        Area.HUGE,
        "*hugetlb* do_huge_* *huge_pmd* *huge_pud* *huge_zero* alloc_huge_* split_huge_* "
        "*thp_* vma_alloc_anon_folio_pmd map_anon_folio_pmd* do_set_pmd khugepaged* collapse_*",
    ),
    (
        Area.MEMCG,
        "*mem_cgroup* *memcg* *obj_cgroup* try_charge* *lruvec_stat* folio_throttle_swaprate",
    ),
    (
        Area.ENTRY,
        "asm_exc_page_fault exc_page_fault do_user_addr_fault do_kern_addr_fault do_mem_abort "
        "do_page_fault do_translation_fault el0_da el0_ia el0t_64_sync* handle_mm_fault "
        "handle_pte_fault do_pte_missing do_fault do_read_fault do_cow_fault do_shared_fault "
        "do_fault_around finish_fault set_pte_range do_set_pte access_error do_page_mkwrite "
        "fault_around_bytes* bad_area* do_numa_page",
    ),
    (
        Area.FILEMAP,
        "*filemap* next_uptodate_* page_cache_* *readahead* read_pages read_folio* "
        "find_get_* do_sync_mmap_readahead xas_* *mpage_* force_page_cache_ra",
    ),
    (
        Area.ANON,
        "*anon* do_wp_page wp_page_* *swap* do_swap_page wp_can_reuse* reuse_swap*",
    ),
    (
        Area.ALLOCATION,
        "*alloc_pages* *alloc_page* *alloc_folio* *folio_alloc* *alloc_frozen* get_page_from_* "
        "*rmqueue* *free_unref* *free_frozen* *free_pages* *free_page* prep_new_page "
        "post_alloc_hook *pcplist* pte_alloc* pmd_alloc* pud_alloc* *kmem_cache* *kmalloc* *kfree* "
        "*slab* mempool_* *mempolicy* policy_node* *zone_watermark* folio_put* folios_put* "
        "alloc_swap_folio free_pcp* release_pages",
    ),
)


def _pattern(words: str) -> re.Pattern[str]:
    alternatives = "|".join(re.escape(word).replace(r"\*", ".*") for word in words.split())
    return re.compile(f"_*(?:{alternatives})")


_PATTERNS = tuple((area, _pattern(words)) for area, words in _RULES)
_LONGEST = 200  # no kernel function's name is longer; matching one of 10,000 characters is slow


@lru_cache(maxsize=8192)
def area_of(frame: Frame) -> Area:
    """Return the area of a frame."""
    if frame.resolution == USER:
        return Area.USER
    name = frame.function[:_LONGEST]
    return next((area for area, pattern in _PATTERNS if pattern.fullmatch(name)), Area.OTHER)
