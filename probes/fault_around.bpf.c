// SPDX-License-Identifier: GPL-2.0-only
/*
 * Fault-around: what each call of filemap_map_pages() finds and maps, and what becomes of a fault
 * whose page it did not map.
 *
 * A fault is one or more attempts: calls of handle_mm_fault() by one task for one address, each but
 * the last of which returned VM_FAULT_RETRY. filemap_map_pages() asks next_uptodate_folio() for one
 * folio after the other until there is none, and enters what it finds by set_pte_range(); the same
 * function serves finish_fault(), whose pages are not counted here. Where a whole huge page can be
 * mapped, it asks once and leaves it to do_set_pmd(); where that huge page is mapped already, it asks
 * once and does nothing, and says that the fault is done.
 *
 * What comes after a call that left the faulting page out is told by __do_fault() and the functions
 * that wait for a folio's lock, until the attempt returns.
 *
 * Knobs:
 *   SCOPE_ALL     see scope.h
 *   FENTRY, KPROBE
 *                 see template.h
 *   SET_ONE       1: this kernel's set_pte_range() is do_set_pte(), which enters one page
 *   MAX_TASKS     tasks that can have had a fault at one time
 *   RESULT_NOPAGE, RESULT_RETRY, RESULT_MAJOR
 *                 bits of enum vm_fault_reason
 */
#include <linux/compiler.h>
#include <linux/types.h>

#include "scope.h"
#include "access.h"
#include "histogram.h"

/* What a probe is for; faultprof/capture/contention/yielding.py has the same numbers. */
enum what {
	HANDLE_MM_FAULT,
	MAP_PAGES,     /* filemap_map_pages() */
	NEXT_FOLIO,    /* next_uptodate_folio() */
	SET_PTES,      /* set_pte_range(vmf, folio, page, nr, ...) */
	SET_PMD,       /* do_set_pmd(), its return alone */
	ASK_FILE,      /* __do_fault() */
	FOLIO_LOCK,    /* whatever waits for a folio's lock */
};

/* The same order as in yielding.py. */
enum count {
	COUNT_FAULTS,
	COUNT_CALLS,
	COUNT_NS,           /* of all calls */
	COUNT_NOTHING,      /* calls that mapped nothing */
	COUNT_NOTHING_NS,
	COUNT_EMPTY,        /* of these, calls that found no folio at all */
	COUNT_ASKED,        /* calls of next_uptodate_folio() */
	COUNT_FOUND,        /* folios that it returned */
	COUNT_MAPPED,       /* pages that were entered one by one or in ranges */
	COUNT_PMD_MAPPED,   /* calls that mapped a huge page */
	COUNT_PMD_THERE,    /* calls that found one mapped already */
	COUNT_SECOND,       /* calls that are not the first in their fault */
	COUNT_LEFT_OUT,     /* calls that did not map the faulting page */
	COUNT_FILE,         /* of these, followed by __do_fault() */
	COUNT_WAITED,       /* of these, that waited for a folio's lock */
	COUNT_RETRIED,      /* of those left out, whose attempt ended in VM_FAULT_RETRY */
	COUNT_MAJOR,        /* whose attempt was a major one */
	COUNT_FILE_NS,      /* in these calls of __do_fault() */
	COUNT_WAITED_NS,    /* in those of them that waited */
	COUNT_TASKS_FULL,   /* attempts of tasks that found no place in the map */
	COUNT_NO_RETURN,    /* attempts and calls whose return was never seen */
	COUNT_UNMATCHED,    /* returns of attempts whose entry was not */
	COUNT_EXIT_INSIDE,  /* tasks that ended inside of an attempt */
	COUNT_COUNT
};

/* Numbers of pages: 0 to 64 one by one, then one bucket for each power of two. */
#define PAGES_ALONE 64
#define PAGES_BUCKETS 75

struct fault {
	u64 address;
	u64 map_start; /* of the call of filemap_map_pages() that is under way, else 0 */
	u64 file_start; /* the same for __do_fault() */
	u32 calls;     /* of filemap_map_pages(), in this fault */
	u32 asked;     /* in this call */
	u32 mapped;
	u8 pmd;
	u8 inside;     /* an attempt is under way */
	u8 retrying;   /* the last one has to be made again */
	u8 left_out;   /* its page was not mapped around; what follows? */
	u8 asked_file;
	u8 waited;
};

struct totals {
	u64 counts[COUNT_COUNT];
	u64 mapped[PAGES_BUCKETS]; /* calls by pages that they mapped in ranges */
	u64 found[PAGES_BUCKETS];  /* calls by folios that they found */
	u64 useful_ns[HISTOGRAM_BUCKETS];
	u64 useless_ns[HISTOGRAM_BUCKETS];
	u64 file_ns[HISTOGRAM_BUCKETS];   /* __do_fault() that waited for no lock */
	u64 waited_ns[HISTOGRAM_BUCKETS]; /* ... that did */
};

BPF_HASH(faults, u64, struct fault, MAX_TASKS);
BPF_PERCPU_ARRAY(totals, struct totals, 1);

/*
 * Counters are added to atomically since fentry programs can be preempted. Each histogram is written
 * by one program alone, which the kernel does not run twice at once on a CPU.
 */
static __always_inline void add(struct totals *total, int count, u64 amount)
{
	__sync_fetch_and_add(&total->counts[count], amount);
}

static __always_inline struct totals *our_totals(void)
{
	int zero = 0;

	return totals.lookup(&zero);
}

/* The task's fault, if an attempt at it is under way. */
static __always_inline struct fault *current_fault(void)
{
	u64 task = bpf_get_current_task();
	struct fault *fault = faults.lookup(&task);

	return fault && fault->inside ? fault : NULL;
}

/* The same, within filemap_map_pages(). */
static __always_inline struct fault *current_map(void)
{
	struct fault *fault = current_fault();

	return fault && fault->map_start ? fault : NULL;
}

static __always_inline void pages_add(u64 *buckets, u64 pages)
{
	u64 bucket = pages;

	if (pages > PAGES_ALONE)
		bucket = PAGES_ALONE - 5 + highest_bit(pages); /* 65 and up to 127 are bucket 65 */
	if (bucket >= PAGES_BUCKETS)
		bucket = PAGES_BUCKETS - 1;
	/* The verifier is to see the bound, whatever the compiler makes of it. */
	asm volatile("" : "+r"(bucket));
	if (bucket < PAGES_BUCKETS)
		buckets[bucket]++;
}

static __always_inline void begin_attempt(void *ctx, int kind)
{
	u64 task = bpf_get_current_task(), address = probe_argument(ctx, kind, 1);
	struct fault *fault, fresh = {};
	struct totals *total;

	if (!scope_has_current())
		return;
	total = our_totals();
	if (!total)
		return;
	fault = faults.lookup(&task);
	if (!fault) {
		faults.update(&task, &fresh);
		fault = faults.lookup(&task);
	}
	if (!fault) {
		add(total, COUNT_TASKS_FULL, 1);
		return;
	}
	if (fault->inside)
		add(total, COUNT_NO_RETURN, 1);
	if (!fault->retrying || fault->address != address) {
		fault->calls = 0;
		add(total, COUNT_FAULTS, 1);
	}
	fault->address = address;
	fault->map_start = 0;
	fault->file_start = 0;
	fault->retrying = 0;
	fault->left_out = 0;
	fault->inside = 1;
}

static __always_inline void end_attempt(void *ctx, int kind)
{
	u64 task = bpf_get_current_task(), result = probe_result(ctx, kind);
	struct fault *fault = faults.lookup(&task);
	struct totals *total = our_totals();

	if (!fault || !total)
		return;
	if (!fault->inside) {
		add(total, COUNT_UNMATCHED, 1);
		return;
	}
	fault->inside = 0;
	fault->retrying = (result & RESULT_RETRY) != 0;
	if (fault->map_start || fault->file_start)
		add(total, COUNT_NO_RETURN, 1);
	if (!fault->left_out)
		return;
	add(total, COUNT_FILE, fault->asked_file);
	add(total, COUNT_WAITED, fault->waited);
	add(total, COUNT_RETRIED, fault->retrying);
	add(total, COUNT_MAJOR, (result & RESULT_MAJOR) != 0);
}

static __always_inline void begin_map(void)
{
	struct fault *fault = current_fault();

	if (!fault)
		return;
	fault->calls++;
	fault->asked = 0;
	fault->mapped = 0;
	fault->pmd = 0;
	fault->left_out = 0;
	fault->map_start = bpf_ktime_get_ns();
}

/* Of a call that asked once nobody can see what it got but by what it did. */
static __always_inline u64 folios_found(struct fault *fault, bool done)
{
	return fault->asked > 1 ? fault->asked - 1 : done;
}

static __always_inline void count_map(struct totals *total, struct fault *fault, u64 ns, bool done)
{
	u64 found = folios_found(fault, done);
	bool there = done && !fault->mapped && !fault->pmd;

	add(total, COUNT_CALLS, 1);
	add(total, COUNT_NS, ns);
	add(total, COUNT_ASKED, fault->asked);
	add(total, COUNT_FOUND, found);
	add(total, COUNT_MAPPED, fault->mapped);
	if (fault->pmd)
		add(total, COUNT_PMD_MAPPED, 1);
	if (there)
		add(total, COUNT_PMD_THERE, 1);
	if (fault->calls > 1)
		add(total, COUNT_SECOND, 1);
	if (!done)
		add(total, COUNT_LEFT_OUT, 1);
	pages_add(total->found, found);
	if (fault->mapped || fault->pmd) {
		histogram_add(total->useful_ns, ns);
	} else {
		add(total, COUNT_NOTHING, 1);
		add(total, COUNT_NOTHING_NS, ns);
		if (!found)
			add(total, COUNT_EMPTY, 1);
		histogram_add(total->useless_ns, ns);
	}
	if (!fault->pmd)
		pages_add(total->mapped, fault->mapped);
}

static __always_inline void end_map(void *ctx, int kind)
{
	u64 now = bpf_ktime_get_ns();
	struct fault *fault = current_map();
	struct totals *total = our_totals();
	bool done = (probe_result(ctx, kind) & RESULT_NOPAGE) != 0;

	if (!fault || !total)
		return;
	count_map(total, fault, now - fault->map_start, done);
	fault->map_start = 0;
	fault->left_out = !done;
	fault->asked_file = 0;
	fault->waited = 0;
}

static __always_inline void begin_file(void)
{
	struct fault *fault = current_fault();

	if (!fault || !fault->left_out)
		return;
	fault->asked_file = 1;
	fault->file_start = bpf_ktime_get_ns();
}

static __always_inline void end_file(void)
{
	u64 now = bpf_ktime_get_ns(), ns;
	struct fault *fault = current_fault();
	struct totals *total = our_totals();

	if (!fault || !total || !fault->file_start)
		return;
	ns = now - fault->file_start;
	fault->file_start = 0;
	add(total, COUNT_FILE_NS, ns);
	if (fault->waited) {
		add(total, COUNT_WAITED_NS, ns);
		histogram_add(total->waited_ns, ns);
	} else {
		histogram_add(total->file_ns, ns);
	}
}

static __always_inline void note_wait(void)
{
	struct fault *fault = current_fault();

	if (fault && fault->file_start)
		fault->waited = 1;
}

static __always_inline int enter(void *ctx, int kind, u32 what)
{
	struct fault *fault;

	switch (what) {
	case HANDLE_MM_FAULT:
		begin_attempt(ctx, kind);
		break;
	case MAP_PAGES:
		begin_map();
		break;
	case ASK_FILE:
		begin_file();
		break;
	case FOLIO_LOCK:
		note_wait();
		break;
	case NEXT_FOLIO:
		fault = current_map();
		if (fault)
			fault->asked++;
		break;
	case SET_PTES:
		fault = current_map();
		if (fault)
			fault->mapped += SET_ONE ? 1 : probe_argument(ctx, kind, 3);
		break;
	}
	return 0;
}

static __always_inline int leave(void *ctx, int kind, u32 what)
{
	struct fault *fault;

	switch (what) {
	case HANDLE_MM_FAULT:
		end_attempt(ctx, kind);
		break;
	case MAP_PAGES:
		end_map(ctx, kind);
		break;
	case ASK_FILE:
		end_file();
		break;
	case SET_PMD:
		fault = current_map();
		if (fault && !(u32)probe_result(ctx, kind))
			fault->pmd = 1;
		break;
	}
	return 0;
}

#include "template.h"

/* sched_process_free(task) */
int on_task_free(struct bpf_raw_tracepoint_args *ctx)
{
	u64 task = ctx->args[0];
	struct fault *fault = faults.lookup(&task);
	struct totals *total = our_totals();

	if (!fault)
		return 0;
	if (fault->inside && total)
		add(total, COUNT_EXIT_INSIDE, 1);
	faults.delete(&task);
	return 0;
}
