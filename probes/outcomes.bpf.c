// SPDX-License-Identifier: GPL-2.0-only
/*
 * Outcomes: what kind of fault each call of handle_mm_fault() was, how it ended, how long it took.
 *
 * Such a call is an attempt. One that returns VM_FAULT_RETRY has let go of its lock and has to be
 * made again; the next attempt of the same task at the same address is that. Of the functions that
 * stand for a kind the last that is entered says what the attempt was, with two exceptions: a fault
 * that swaps a page in may go on to copy it, and stays one; a huge page that cannot be had falls
 * back to small ones, and does not count as huge.
 *
 * Major is what the kernel accounts as such: an attempt that says so, or one that follows another
 * which slept (FAULT_FLAG_TRIED).
 *
 * Knobs:
 *   SCOPE_ALL          see scope.h
 *   FENTRY, KPROBE     see template.h
 *   ANONYMOUS_BY_VMA   1: do_anonymous_page() cannot be probed; a fault on a VMA without operations
 *                      that was nothing else stands for it
 *   MAX_TASKS          tasks that can have had a fault at one time
 *   OFFSET_..., FLAG_WRITE
 *                      see fault.h
 *   FLAG_TRIED, FLAG_VMA_LOCK
 *                      bits of enum fault_flag, 0 where this kernel has none
 *   RESULT_MAJOR, RESULT_RETRY, RESULT_ERROR, RESULT_FALLBACK
 *                      bits of enum vm_fault_reason
 */
#include <linux/compiler.h>
#include <linux/types.h>

#include "scope.h"
#include "access.h"
#include "fault.h"
#include "histogram.h"

/* What a fault was; faultprof/capture/contention/outcomes.py has the same order. */
enum kind {
	OTHER,
	READ,
	COW,
	SHARED,
	ANONYMOUS,
	WRITE_PROTECTED,
	SWAP,
	NUMA,
	HUGETLB,
	HUGE,
	KINDS
};

/* What a probe is for, besides the kinds. */
#define HANDLE_MM_FAULT 0x100
#define DO_FAULT 0x101

enum end {
	END_MINOR,
	END_MAJOR,
	END_RETRY,
	END_ERROR,
	ENDS
};

enum stat {
	STAT_TASKS_FULL,  /* attempts of tasks that found no place in the map */
	STAT_NO_RETURN,   /* attempts whose return was never seen */
	STAT_UNMATCHED,   /* returns whose entry was not */
	STAT_EXIT_INSIDE, /* tasks that ended inside of an attempt */
	STAT_TRIED,       /* attempts with FAULT_FLAG_TRIED */
	STAT_COUNT
};

struct attempt {
	u64 address;
	u64 start;
	u8 kind;
	u8 at_first; /* what it is taken for while no function has said what it is */
	u8 vma_lock;
	u8 tried;
	u8 again;    /* follows one at the same address that has to be made again */
	u8 inside;
	u8 retrying;
};

struct totals {
	u64 count;
	u64 ns;
	u64 longest_ns;
	u64 histogram[HISTOGRAM_BUCKETS];
};

#define ROWS (KINDS * 2 * 2 * ENDS) /* kind, whether under the VMA lock, whether again, end */

BPF_HASH(attempts, u64, struct attempt, MAX_TASKS);
BPF_PERCPU_ARRAY(totals, struct totals, ROWS);
BPF_PERCPU_ARRAY(stats, u64, STAT_COUNT);

static __always_inline void bump(int stat)
{
	u64 *value = stats.lookup(&stat);

	if (value)
		__sync_fetch_and_add(value, 1);
}

static __always_inline struct attempt *current_attempt(void)
{
	u64 task = bpf_get_current_task();
	struct attempt *attempt = attempts.lookup(&task);

	return attempt && attempt->inside ? attempt : NULL;
}

static __always_inline int kind_at_first(void *ctx, int kind)
{
#if ANONYMOUS_BY_VMA
	if (!read_u64(probe_argument(ctx, kind, 0), OFFSET_VM_AREA_STRUCT_VM_OPS))
		return ANONYMOUS;
#endif
	return OTHER;
}

/* handle_mm_fault(vma, address, flags, ...) */
static __always_inline void begin(void *ctx, int kind)
{
	u64 task = bpf_get_current_task(), address = probe_argument(ctx, kind, 1);
	u32 flags = probe_argument(ctx, kind, 2);
	struct attempt *attempt, fresh = {};

	if (!scope_has_current())
		return;
	attempt = attempts.lookup(&task);
	if (!attempt) {
		attempts.update(&task, &fresh);
		attempt = attempts.lookup(&task);
	}
	if (!attempt) {
		bump(STAT_TASKS_FULL);
		return;
	}
	if (attempt->inside)
		bump(STAT_NO_RETURN);
	attempt->again = attempt->retrying && attempt->address == address;
	attempt->retrying = 0;
	attempt->address = address;
	attempt->vma_lock = (flags & FLAG_VMA_LOCK) != 0;
	attempt->tried = (flags & FLAG_TRIED) != 0;
	attempt->kind = attempt->at_first = kind_at_first(ctx, kind);
	if (attempt->tried)
		bump(STAT_TRIED);
	attempt->inside = 1;
	attempt->start = bpf_ktime_get_ns();
}

static __always_inline int how_it_ended(struct attempt *attempt, u64 result)
{
	if (result & RESULT_RETRY)
		return END_RETRY;
	if (result & RESULT_ERROR)
		return END_ERROR;
	return result & RESULT_MAJOR || attempt->tried ? END_MAJOR : END_MINOR;
}

static __always_inline void end(void *ctx, int kind)
{
	u64 now = bpf_ktime_get_ns(), task = bpf_get_current_task(), ns;
	struct attempt *attempt = attempts.lookup(&task);
	struct totals *total;
	u32 row, how;

	if (!attempt)
		return;
	if (!attempt->inside) {
		bump(STAT_UNMATCHED);
		return;
	}
	attempt->inside = 0;
	ns = now - attempt->start;
	how = how_it_ended(attempt, probe_result(ctx, kind));
	attempt->retrying = how == END_RETRY;
	row = ((attempt->kind * 2 + attempt->vma_lock) * 2 + attempt->again) * ENDS + how;
	total = totals.lookup((int *)&row);
	if (!total)
		return;
	total->count++;
	total->ns += ns;
	if (ns > total->longest_ns)
		total->longest_ns = ns;
	histogram_add(total->histogram, ns);
}

static __always_inline void mark(u32 kind)
{
	struct attempt *attempt = current_attempt();

	if (attempt && !(attempt->kind == SWAP && kind == WRITE_PROTECTED))
		attempt->kind = kind;
}

static __always_inline void mark_file(u64 vmf)
{
	switch (file_fault(vmf)) {
	case FILE_READ:
		mark(READ);
		break;
	case FILE_COW:
		mark(COW);
		break;
	case FILE_SHARED:
		mark(SHARED);
		break;
	}
}

static __always_inline int enter(void *ctx, int kind, u32 what)
{
	if (what == HANDLE_MM_FAULT)
		begin(ctx, kind);
	else if (what == DO_FAULT)
		mark_file(probe_argument(ctx, kind, 0));
	else
		mark(what);
	return 0;
}

/* Of a kind's functions the returns are probed where they may fall back. */
static __always_inline int leave(void *ctx, int kind, u32 what)
{
	struct attempt *attempt;

	if (what == HANDLE_MM_FAULT) {
		end(ctx, kind);
		return 0;
	}
	attempt = current_attempt();
	if (attempt && probe_result(ctx, kind) & RESULT_FALLBACK)
		attempt->kind = attempt->at_first;
	return 0;
}

#include "template.h"

/* sched_process_free(task) */
int on_task_free(struct bpf_raw_tracepoint_args *ctx)
{
	u64 task = ctx->args[0];
	struct attempt *attempt = attempts.lookup(&task);

	if (!attempt)
		return 0;
	if (attempt->inside)
		bump(STAT_EXIT_INSIDE);
	attempts.delete(&task);
	return 0;
}
