// SPDX-License-Identifier: GPL-2.0-only
/*
 * Order: how long large folios take to be cleared and copied, and in which order of their pages.
 *
 * A pair of probes times each clear or copy as a whole. In between nothing is probed: the page that
 * is being worked on is in a register. String instructions and the loops that stand for them write
 * through the register of the first argument, and an interrupt shows it. A timer on each CPU looks
 * at that register wherever it finds code that clears or copies, within such a call. Folios lie at
 * multiples of their size, so that the address tells the page. This works where clear_page() is an
 * assembler routine or inlined, with no debuginfo, and costs no page anything.
 *
 * Knobs:
 *   SCOPE_ALL  see scope.h
 *   FENTRY     1: templates of fentry and fexit programs
 *   KPROBE     1: templates of kprobe and kretprobe programs
 *   FUNCTIONS  how many functions there are
 *   OFFSET_TASK_STRUCT_NVCSW, OFFSET_TASK_STRUCT_NIVCSW, OFFSET_FOLIO_FLAGS, OFFSET_FOLIO_ORDER
 *              where the fields are
 *   HEAD_BIT   the flag of a folio of more than one page
 */
#include <linux/compiler.h>
#include <linux/types.h>

#include "scope.h"
#include "access.h"
#include "histogram.h"
#include "patched.h"

#define MAX_TASKS 8192
#define MAX_KEPT 4096 /* calls that are looked into; of the others only the time is kept */
#define MAX_SEEN 16  /* a power of two */
#define MAX_RANGES 32
#define NO_UNROLL _Pragma("clang loop unroll(disable)")

/* What a function takes; faultprof/capture/contention/order.py has the same numbers. */
enum what {
	CLEARS_FOLIO, /* (folio, address) */
	CLEARS_PAGES, /* (page, address, pages) */
	COPIES_FOLIO, /* (folio, from, address, vma) */
	COPIES_PAGES, /* (page, from, address, vma, pages) */
};

enum stat {
	STAT_TASKS_FULL, /* calls of tasks that found no place */
	STAT_UNMATCHED,  /* returns without an entry */
	STAT_NOT_KEPT,   /* calls that were looked into, but not kept */
	STAT_HITS,       /* of the probe that only counts */
	STAT_COUNT
};

struct seen {
	u64 ns; /* since the call's entry */
	u64 address;
};

/* One call. */
struct work {
	u64 start; /* at its end: how long it took */
	u64 hint;
	u64 switches;
	u32 pages;
	u32 function;
	u32 switched;
	u32 count;
	struct seen seen[MAX_SEEN];
};

struct totals {
	u64 calls;
	u64 pages;
	u64 ns;
	u64 switched; /* calls in which the task did not run all the time: in none of the others */
	u64 histogram[HISTOGRAM_BUCKETS]; /* of ns a page */
};

struct call_key {
	u64 task;
	u64 start;
};

struct ranges {
	u64 count;
	u64 edges[2 * MAX_RANGES];
};

BPF_HASH(running, u64, struct work, MAX_TASKS);
BPF_ARRAY(no_work, struct work, 1); /* never written */
BPF_HASH(kept, struct call_key, struct work, MAX_KEPT);
BPF_PERCPU_ARRAY(totals, struct totals, FUNCTIONS);
BPF_PERCPU_ARRAY(stats, u64, STAT_COUNT);
BPF_ARRAY(ranges, struct ranges, 1); /* where the code that clears and copies is */

static __always_inline void bump(int stat)
{
	u64 *value = stats.lookup(&stat);

	if (value)
		__sync_fetch_and_add(value, 1);
}

static __always_inline u64 switches_of(u64 task)
{
	return read_u64(task, OFFSET_TASK_STRUCT_NVCSW) + read_u64(task, OFFSET_TASK_STRUCT_NIVCSW);
}

static __always_inline u32 pages_of_folio(u64 folio)
{
	if (!(read_u64(folio, OFFSET_FOLIO_FLAGS) & HEAD_BIT))
		return 1;
	return 1u << (read_u32(folio, OFFSET_FOLIO_ORDER) & 31);
}

/* The compiler must not turn loads from different places of the context into one. */
#define KEPT_APART(value, number) asm volatile("" : "+r"(value) : "i"(number))

static __always_inline void take_arguments(struct work *work, void *ctx, int kind, int what)
{
	u64 hint, pages;

	if (what >= COPIES_FOLIO) {
		hint = probe_argument(ctx, kind, 2);
		KEPT_APART(hint, 2);
	} else {
		hint = probe_argument(ctx, kind, 1);
		KEPT_APART(hint, 1);
	}
	if (what == CLEARS_PAGES) {
		pages = probe_argument(ctx, kind, 2);
		KEPT_APART(pages, 2);
	} else if (what == COPIES_PAGES) {
		pages = probe_argument(ctx, kind, 4);
		KEPT_APART(pages, 4);
	} else {
		pages = pages_of_folio(probe_argument(ctx, kind, 0));
	}
	work->hint = hint;
	work->pages = pages;
}

static __always_inline int enter(void *ctx, int kind, u32 function, int what)
{
	u64 task = bpf_get_current_task();
	struct work *work;
	int zero = 0;

	if (!scope_has_current())
		return 0;
	work = no_work.lookup(&zero);
	if (!work)
		return 0;
	running.update(&task, work);
	work = running.lookup(&task);
	if (!work) {
		bump(STAT_TASKS_FULL);
		return 0;
	}
	work->function = function;
	take_arguments(work, ctx, kind, what);
	work->switches = switches_of(task);
	work->start = bpf_ktime_get_ns();
	return 0;
}

static __always_inline void add_up(struct work *work)
{
	struct totals *total = totals.lookup((int *)&work->function);

	if (!total)
		return;
	if (work->switched) {
		total->switched++;
		return;
	}
	total->calls++;
	total->pages += work->pages;
	total->ns += work->start;
	histogram_add(total->histogram, work->pages ? work->start / work->pages : 0);
}

static __always_inline int leave(void *ctx, int kind)
{
	u64 now = bpf_ktime_get_ns();
	u64 task = bpf_get_current_task();
	struct work *work = running.lookup(&task);
	struct call_key key = {};

	if (!work) {
		/* One that was running when the recording began has no entry either. */
		if (scope_has_current())
			bump(STAT_UNMATCHED);
		return 0;
	}
	key.task = task;
	key.start = work->start;
	work->start = now - work->start;
	work->switched = switches_of(task) != work->switches;
	add_up(work);
	if (work->count && kept.update(&key, work))
		bump(STAT_NOT_KEPT);
	running.delete(&task);
	return 0;
}

static __always_inline bool is_in_ranges(u64 address)
{
	int zero = 0;
	struct ranges *known = ranges.lookup(&zero);
	u32 i;

	if (!known)
		return false;
	NO_UNROLL
	for (i = 0; i < MAX_RANGES && i < known->count; i++)
		if (address >= known->edges[2 * i] && address < known->edges[2 * i + 1])
			return true;
	return false;
}

int on_sample(void *ctx)
{
	u64 task = bpf_get_current_task(), index;
	struct work *work = running.lookup(&task);
	struct seen *seen;

	if (!work || work->count >= MAX_SEEN || !is_in_ranges(probe_instruction(ctx)))
		return 0;
	index = work->count;
	asm volatile("%0 &= %1" : "+r"(index) : "i"(MAX_SEEN - 1));
	seen = &work->seen[index];
	seen->ns = bpf_ktime_get_ns() - work->start;
	seen->address = probe_argument(ctx, PROBE_KPROBE, 0);
	work->count++;
	return 0;
}

#if FENTRY

KFUNC_PROBE(template)
{
	return enter(ctx, PROBE_FENTRY, FUNCTION_NUMBER, FUNCTION_WHAT);
}

KRETFUNC_PROBE(template)
{
	return leave(ctx, PROBE_FENTRY);
}

#endif
#if KPROBE

int enter_template(void *ctx)
{
	return enter(ctx, PROBE_KPROBE, FUNCTION_NUMBER, FUNCTION_WHAT);
}

int leave_template(void *ctx)
{
	return leave(ctx, PROBE_KPROBE);
}

#endif

/* do_huge_pmd_anonymous_page(): how many huge pages could have been cleared. */
int hit_template(void *ctx)
{
	if (scope_has_current())
		bump(STAT_HITS);
	return 0;
}
