// SPDX-License-Identifier: GPL-2.0-only
/*
 * Folio locks: who waits for a folio, for how long, on which page of which file; who wakes them.
 *
 * All such waits sleep in folio_wait_bit_common(), which no probe can attach to, and which the
 * compiler calls from filemap_fault() and others without __folio_lock() in between. But it sleeps
 * by io_schedule(), with its entry of the wait queue on its stack, and ends in finish_wait() with
 * that entry. So a wait begins where a task calls io_schedule() with such an entry of its own right
 * above on its stack, and ends where finish_wait() is given the same entry: whoever called. Where
 * the caller was one of the functions that are probed, the wait is that function's, from its entry.
 *
 * A folio is looked at before its waiter sleeps: some give up their reference before they do.
 * Reads are of addresses that may be stale, which read as 0; names are checked by user space.
 *
 * Knobs:
 *   SCOPE_ALL      see scope.h
 *   KPROBE         1: templates of kprobe and kretprobe programs
 *   KPROBE_MANY    1: kprobe and kretprobe programs for many functions
 *   FUNCTIONS      how many functions that wait are probed
 *   NAMES          1: read the names of files
 *   MAX_TASKS, MAX_PLACES, MAX_FILES, MAX_PAGES
 *                  how many at one time, and in all
 *   BIT_LOCKED, BIT_WRITEBACK, BIT_HEAD
 *                  numbers of enum pageflags
 *   OFFSET_...     where the fields are; OFFSET_FOLIO_ORDER is that of a byte
 */
#include <linux/compiler.h>
#include <linux/types.h>

#include "scope.h"
#include "access.h"
#include "histogram.h"
#include "patched.h"

#define STACK_BYTES 65536 /* the largest kernel stack in use */
#define SEARCHED 64       /* words of the stack in which an entry of a wait queue is looked for */
#define NEAR 1024         /* bytes of the stack between a function and the entry of its wait */
#define SOON 100000000    /* ns between the two */
#define FRAMES 5          /* of the stack, from io_schedule() on: one of them is who waits */
#define NAME_PARTS 12     /* of a path */
#define NAME_BYTES 64     /* of a part; longer ones are cut, which user space sees */
#define NO_UNROLL _Pragma("clang loop unroll(disable)")

/* linux/wait.h, since 4.13 */
#define WAKE_EXCLUSIVE 0x01
#define WAKE_DONE 0x02 /* WQ_FLAG_WOKEN */

#define NOT_A_FILE 3 /* bits of folio->mapping that say: anonymous, or movable without a file */

/* What a program does; faultprof/capture/contention/folio.py has the same numbers. */
enum what {
	WAITS,        /* a function (folio, ...) that may wait */
	IO_SCHEDULE,  /* io_schedule() */
	FINISH_WAIT,  /* finish_wait(head, entry) */
	WAKES,        /* folio_wake_bit(folio, bit) */
	WAKES_ONE,    /* wake_page_function(entry, mode, sync, key) */
};

/* What is waited for. */
enum aim {
	AIM_LOCK,      /* the lock, to have it */
	AIM_UNLOCKED,  /* that it be unlocked */
	AIM_WRITEBACK, /* the end of writeback */
	AIM_OTHER,
	AIMS
};

enum owner {
	OWNER_FILE,
	OWNER_ANONYMOUS,
	OWNER_NONE, /* truncated, or not yet in a file */
};

enum stat {
	STAT_TASKS_FULL,
	STAT_PLACES_FULL,
	STAT_FILES_FULL,
	STAT_PAGES_FULL,
	STAT_UNENDED,      /* waits whose end was not seen */
	STAT_EXIT_INSIDE,  /* tasks that ended inside */
	STAT_WAKES_FULL,
	STAT_IN_INTERRUPT, /* wake-ups by interrupts of recorded tasks: not theirs */
	STAT_COUNT
};

struct settings {
	u64 wake_function; /* address of wake_page_function() */
};

struct file_key {
	u64 inode;
	u32 device;
	u16 owner;
	u16 aim;
};

struct page_key {
	struct file_key file;
	u64 index;
};

struct sum {
	u64 waits;
	u64 ns;
	u64 offcpu_ns;
	u64 pages; /* of the folio */
};

struct name_key {
	u64 inode;
	u64 device;
};

struct name {
	u64 parts; /* from the file upwards; NAME_PARTS + 1: more than fit */
	char part[NAME_PARTS][NAME_BYTES];
};

/* Where in the kernel tasks wait, and for what. */
struct place_key {
	u64 frame[FRAMES];
	u32 function; /* FUNCTIONS: none of those that are probed */
	u32 aim;
};

/* A task in a function that may wait, or waiting, or both. */
struct waiting {
	u64 entered;      /* the function */
	u64 stack;        /* where it was entered */
	u64 start;        /* of the wait */
	u64 entry;        /* of the wait queue; 0: does not wait */
	u64 switched_out; /* when the task stopped running; 0 while it runs */
	u64 offcpu_ns;
	u64 pages;
	struct page_key page;
	struct place_key place;
	u64 slept; /* waits since it was entered */
};

struct waking {
	u64 start;
	u32 let_go;  /* waiters */
	u32 matches; /* the waiter that is looked at waits for this */
	u64 aim;
};

struct totals {
	u64 waits;
	u64 given_up; /* of these, ended by a signal */
	u64 ns;
	u64 offcpu_ns;
	u64 max_ns;
	u64 histogram[HISTOGRAM_BUCKETS];
};

struct calls {
	u64 calls;
	u64 without_sleep;
};

struct wake_totals {
	u64 wakes;
	u64 let_go;
	u64 nobody; /* wakes that let nobody go */
	u64 ns;
	u64 max_ns;
	u64 histogram[HISTOGRAM_BUCKETS];
};

struct words {
	u64 word[SEARCHED];
};

BPF_ARRAY(settings, struct settings, 1);
BPF_HASH(waits, u64, struct waiting, MAX_TASKS);
BPF_HASH(wakes, u64, struct waking, MAX_TASKS);
BPF_HASH(files, struct file_key, struct sum, MAX_FILES);
BPF_HASH(pages, struct page_key, struct sum, MAX_PAGES);
BPF_HASH(names, struct name_key, struct name, MAX_FILES);
BPF_ARRAY(no_name, struct name, 1); /* never written: what a new name starts with */
BPF_PERCPU_HASH(places, struct place_key, struct totals, MAX_PLACES);
BPF_ARRAY(no_totals, struct totals, 1); /* never written, as no_name */
BPF_PERCPU_ARRAY(calls, struct calls, FUNCTIONS + 1);
BPF_PERCPU_ARRAY(wake_totals, struct wake_totals, AIMS);
BPF_PERCPU_ARRAY(scratch, struct words, 1);
BPF_PERCPU_ARRAY(stats, u64, STAT_COUNT);

/* Kprobe programs are not preempted, and one does not run inside another: nothing is atomic. */
static __always_inline void bump(int stat)
{
	u64 *value = stats.lookup(&stat);

	if (value)
		(*value)++;
}

static __always_inline struct waiting *new_waiting(u64 task)
{
	struct waiting fresh = {}, *made;

	fresh.place.function = FUNCTIONS;
	waits.update(&task, &fresh);
	made = waits.lookup(&task);
	if (!made)
		bump(STAT_TASKS_FULL);
	return made;
}

/* Which file the folio is a page of. */

static __always_inline u64 pages_of(u64 folio)
{
	u8 order = 0;

	if (!(read_u64(folio, OFFSET_FOLIO_FLAGS) & (1UL << BIT_HEAD)))
		return 1;
	bpf_probe_read_kernel(&order, sizeof(order), (void *)(folio + OFFSET_FOLIO_ORDER));
	return 1UL << (order & 31);
}

#if NAMES
static __always_inline void note_name(u64 inode, struct file_key *file)
{
	struct name_key key = { .inode = file->inode, .device = file->device };
	u64 entry = read_u64(inode, OFFSET_INODE_I_DENTRY), dentry, parent;
	struct name *name, *empty;
	int zero = 0, i;

	if (!entry || names.lookup(&key))
		return;
	empty = no_name.lookup(&zero);
	if (!empty)
		return;
	names.update(&key, empty);
	name = names.lookup(&key);
	if (!name)
		return;
	dentry = entry - OFFSET_DENTRY_D_ALIAS;
#pragma clang loop unroll(full)
	for (i = 0; i < NAME_PARTS; i++) {
		parent = read_u64(dentry, OFFSET_DENTRY_D_PARENT);
		bpf_probe_read_kernel_str(name->part[i], NAME_BYTES,
					  (void *)read_u64(dentry, OFFSET_DENTRY_D_NAME));
		name->parts = i + 1;
		if (parent == dentry || !parent)
			return;
		dentry = parent;
	}
	name->parts = NAME_PARTS + 1;
}
#else
static __always_inline void note_name(u64 inode, struct file_key *file)
{
}
#endif

static __always_inline void note_folio(struct waiting *waiting, u64 folio)
{
	u64 mapping = read_u64(folio, OFFSET_FOLIO_MAPPING), inode = 0;
	struct file_key *file = &waiting->page.file;

	file->inode = 0;
	file->device = 0;
	file->owner = OWNER_NONE;
	waiting->page.index = 0;
	waiting->pages = 1;
	if (mapping & NOT_A_FILE)
		file->owner = OWNER_ANONYMOUS;
	else if (mapping)
		inode = read_u64(mapping, OFFSET_ADDRESS_SPACE_HOST);
	if (!inode)
		return;
	file->owner = OWNER_FILE;
	file->inode = read_u64(inode, OFFSET_INODE_I_INO);
	file->device = read_u32(read_u64(inode, OFFSET_INODE_I_SB), OFFSET_SUPER_BLOCK_S_DEV);
	waiting->page.index = read_u64(folio, OFFSET_FOLIO_INDEX);
	waiting->pages = pages_of(folio);
	note_name(inode, file);
}

static __always_inline u16 aim_of(u32 bit, u32 flags)
{
	if (bit == BIT_LOCKED)
		return flags & WAKE_EXCLUSIVE ? AIM_LOCK : AIM_UNLOCKED;
	return bit == BIT_WRITEBACK ? AIM_WRITEBACK : AIM_OTHER;
}

/* Waits. */

/*
 * Return the current task's entry in a folio's wait queue, which the caller of the probed function
 * has on its stack; 0 if there is none. An old one that is still to be seen there does no harm:
 * finish_wait() is not called with it.
 */
static __always_inline u64 entry_on_stack(u64 stack, u64 task)
{
	int zero = 0, i;
	struct settings *known = settings.lookup(&zero);
	struct words *words = scratch.lookup(&zero);

	if (!known || !words)
		return 0;
	if (bpf_probe_read_kernel(words, sizeof(*words), (void *)stack))
		return 0;
#pragma clang loop unroll(full)
	for (i = 1; i < SEARCHED; i++) {
		/* The entry's task stands right before its function. */
		if (words->word[i] == known->wake_function && words->word[i - 1] == task)
			return stack + 8 * i - OFFSET_WAIT_QUEUE_ENTRY_FUNC;
	}
	return 0;
}

/*
 * Whether the wait is that of the function that was entered last. It is not if the kernel has missed
 * that function's return, for want of room for so many at once.
 */
static __always_inline bool is_within(struct waiting *waiting, u64 entry, u64 now)
{
	return waiting->stack - entry < NEAR && (waiting->slept || now - waiting->entered < SOON);
}

static __always_inline int sleep_begins(struct probe_registers *regs)
{
	u64 before = bpf_ktime_get_ns(), task = bpf_get_current_task(), entry, queued;
	struct waiting *waiting = waits.lookup(&task);
	u16 aim;

	if (!waiting && !scope_has_current())
		return 0;
	entry = entry_on_stack(probe_stack(regs), task);
	if (!entry)
		return 0;
	if (!waiting)
		waiting = new_waiting(task);
	if (!waiting || waiting->entry == entry)
		return 0; /* woken without being meant, and back to sleep */
	if (waiting->entry)
		bump(STAT_UNENDED);
	if (waiting->place.function != FUNCTIONS && !is_within(waiting, entry, before))
		waiting->place.function = FUNCTIONS;
	queued = entry - OFFSET_WAIT_PAGE_QUEUE_WAIT;
	waiting->entry = entry;
	note_folio(waiting, read_u64(queued, OFFSET_WAIT_PAGE_QUEUE_FOLIO));
	aim = aim_of(read_u32(queued, OFFSET_WAIT_PAGE_QUEUE_BIT_NR),
		     read_u32(entry, OFFSET_WAIT_QUEUE_ENTRY_FLAGS));
	waiting->page.file.aim = waiting->place.aim = aim;
	__builtin_memset(waiting->place.frame, 0, sizeof(waiting->place.frame));
	bpf_get_stack(regs, waiting->place.frame, sizeof(waiting->place.frame), 0);
	if (waiting->place.function == FUNCTIONS || waiting->slept) {
		waiting->offcpu_ns = 0;
		waiting->start = bpf_ktime_get_ns();
	} else {
		/* What this program takes is not the wait's. */
		waiting->start = waiting->entered + (bpf_ktime_get_ns() - before);
	}
	return 0;
}

static __always_inline void add_to_file(struct waiting *waiting, u64 ns)
{
	struct sum none = {}, *sum;

	files.insert(&waiting->page.file, &none);
	sum = files.lookup(&waiting->page.file);
	if (!sum) {
		bump(STAT_FILES_FULL);
		return;
	}
	__sync_fetch_and_add(&sum->waits, 1);
	__sync_fetch_and_add(&sum->ns, ns);
	__sync_fetch_and_add(&sum->offcpu_ns, waiting->offcpu_ns);
}

static __always_inline void add_to_page(struct waiting *waiting, u64 ns)
{
	struct sum none = {}, *sum;

	if (waiting->page.file.owner != OWNER_FILE)
		return;
	none.pages = waiting->pages;
	pages.insert(&waiting->page, &none);
	sum = pages.lookup(&waiting->page);
	if (!sum) {
		bump(STAT_PAGES_FULL);
		return;
	}
	__sync_fetch_and_add(&sum->waits, 1);
	__sync_fetch_and_add(&sum->ns, ns);
	__sync_fetch_and_add(&sum->offcpu_ns, waiting->offcpu_ns);
}

static __always_inline void add_to_place(struct waiting *waiting, u64 ns, bool given_up)
{
	struct totals *total, *empty;
	int zero = 0;

	total = places.lookup(&waiting->place);
	if (!total) {
		empty = no_totals.lookup(&zero);
		if (!empty)
			return;
		places.insert(&waiting->place, empty);
		total = places.lookup(&waiting->place);
	}
	if (!total) {
		bump(STAT_PLACES_FULL);
		return;
	}
	total->waits++;
	total->given_up += given_up;
	total->ns += ns;
	total->offcpu_ns += waiting->offcpu_ns;
	if (ns > total->max_ns)
		total->max_ns = ns;
	histogram_add(total->histogram, ns);
}

static __always_inline int wait_ends(struct probe_registers *regs)
{
	u64 now = bpf_ktime_get_ns(), task = bpf_get_current_task(), ns;
	struct waiting *waiting = waits.lookup(&task);
	u32 flags;

	if (!waiting || !waiting->entry || waiting->entry != REGISTER_ARGUMENT_1(regs))
		return 0;
	ns = now - waiting->start;
	flags = read_u32(waiting->entry, OFFSET_WAIT_QUEUE_ENTRY_FLAGS);
	add_to_place(waiting, ns, !(flags & WAKE_DONE));
	add_to_file(waiting, ns);
	add_to_page(waiting, ns);
	waiting->entry = 0;
	waiting->slept++;
	if (waiting->place.function == FUNCTIONS)
		waits.delete(&task);
	return 0;
}

static __always_inline int function_begins(struct probe_registers *regs, u32 function)
{
	u64 task = bpf_get_current_task(), stack = probe_stack(regs);
	struct waiting *waiting = waits.lookup(&task);

	if (!waiting) {
		if (!scope_has_current())
			return 0;
		waiting = new_waiting(task);
		if (!waiting)
			return 0;
	} else if (waiting->place.function != FUNCTIONS && stack < waiting->stack) {
		return 0; /* called by another one: the wait is that one's */
	}
	if (waiting->entry)
		bump(STAT_UNENDED);
	waiting->entry = 0;
	waiting->place.function = function;
	waiting->stack = stack;
	waiting->slept = 0;
	waiting->offcpu_ns = 0;
	waiting->entered = bpf_ktime_get_ns();
	return 0;
}

static __always_inline int function_ends(u32 function)
{
	u64 task = bpf_get_current_task();
	struct waiting *waiting = waits.lookup(&task);
	struct calls *counted;

	if (!waiting || waiting->place.function != function)
		return 0;
	counted = calls.lookup((int *)&function);
	if (counted) {
		counted->calls++;
		counted->without_sleep += !waiting->slept;
	}
	waits.delete(&task);
	return 0;
}

/* sched_switch(preempt, previous, next, ...) */
int on_switch(struct bpf_raw_tracepoint_args *ctx)
{
	u64 previous = ctx->args[1], next = ctx->args[2];
	struct waiting *waiting;

	waiting = waits.lookup(&previous);
	if (waiting)
		waiting->switched_out = bpf_ktime_get_ns();
	waiting = waits.lookup(&next);
	if (waiting && waiting->switched_out) {
		waiting->offcpu_ns += bpf_ktime_get_ns() - waiting->switched_out;
		waiting->switched_out = 0;
	}
	return 0;
}

/* sched_process_free(task) */
int on_task_free(struct bpf_raw_tracepoint_args *ctx)
{
	u64 task = ctx->args[0];

	if (waits.lookup(&task)) {
		bump(STAT_EXIT_INSIDE);
		waits.delete(&task);
	}
	wakes.delete(&task);
	return 0;
}

/* Wake-ups. */

static __always_inline bool in_interrupt(struct probe_registers *regs, u64 task)
{
	return probe_stack(regs) - read_u64(task, OFFSET_TASK_STRUCT_STACK) >= STACK_BYTES;
}

static __always_inline int wake_begins(struct probe_registers *regs)
{
	u64 task = bpf_get_current_task();
	struct waking fresh = {}, *waking;

	if (!scope_has_current())
		return 0;
	if (in_interrupt(regs, task)) {
		bump(STAT_IN_INTERRUPT);
		return 0;
	}
	fresh.aim = aim_of(REGISTER_ARGUMENT_1(regs), WAKE_EXCLUSIVE);
	wakes.update(&task, &fresh);
	waking = wakes.lookup(&task);
	if (waking)
		waking->start = bpf_ktime_get_ns();
	else
		bump(STAT_WAKES_FULL);
	return 0;
}

static __always_inline int wake_ends(struct probe_registers *regs)
{
	u64 now = bpf_ktime_get_ns(), task = bpf_get_current_task(), ns;
	struct waking *waking = wakes.lookup(&task);
	struct wake_totals *total;
	u32 aim;

	if (!waking || in_interrupt(regs, task))
		return 0;
	aim = waking->aim;
	ns = now - waking->start;
	total = wake_totals.lookup((int *)&aim);
	if (total) {
		total->wakes++;
		total->let_go += waking->let_go;
		total->nobody += !waking->let_go;
		total->ns += ns;
		if (ns > total->max_ns)
			total->max_ns = ns;
		histogram_add(total->histogram, ns);
	}
	wakes.delete(&task);
	return 0;
}

/* Other folios' waiters may be in the same queue. */
static __always_inline int wake_one_begins(struct probe_registers *regs)
{
	u64 task = bpf_get_current_task();
	u64 queued = REGISTER_ARGUMENT_0(regs) - OFFSET_WAIT_PAGE_QUEUE_WAIT;
	u64 key = REGISTER_ARGUMENT_3(regs);
	struct waking *waking = wakes.lookup(&task);

	if (!waking || in_interrupt(regs, task))
		return 0;
	waking->matches = read_u64(queued, OFFSET_WAIT_PAGE_QUEUE_FOLIO) ==
				  read_u64(key, OFFSET_WAIT_PAGE_KEY_FOLIO) &&
			  read_u32(queued, OFFSET_WAIT_PAGE_QUEUE_BIT_NR) ==
				  read_u32(key, OFFSET_WAIT_PAGE_KEY_BIT_NR);
	return 0;
}

static __always_inline int wake_one_ends(struct probe_registers *regs)
{
	u64 task = bpf_get_current_task();
	struct waking *waking = wakes.lookup(&task);

	if (!waking || in_interrupt(regs, task))
		return 0;
	/* Negative: the lock has been taken again, the waiter is left to sleep. */
	if (waking->matches && (int)REGISTER_RESULT(regs) >= 0)
		waking->let_go++;
	waking->matches = 0;
	return 0;
}

static __always_inline int enter(void *ctx, u32 function, int what)
{
	switch (what) {
	case WAITS: return function_begins(ctx, function);
	case IO_SCHEDULE: return sleep_begins(ctx);
	case FINISH_WAIT: return wait_ends(ctx);
	case WAKES: return wake_begins(ctx);
	default: return wake_one_begins(ctx);
	}
}

static __always_inline int leave(void *ctx, u32 function, int what)
{
	switch (what) {
	case WAITS: return function_ends(function);
	case WAKES: return wake_ends(ctx);
	case WAKES_ONE: return wake_one_ends(ctx);
	default: return 0;
	}
}

#if KPROBE

int enter_template(void *ctx)
{
	return enter(ctx, FUNCTION_NUMBER, FUNCTION_WHAT);
}

int leave_template(void *ctx)
{
	return leave(ctx, FUNCTION_NUMBER, FUNCTION_WHAT);
}

#endif
#if KPROBE_MANY

int enter_many(void *ctx)
{
	u64 cookie = probe_cookie(ctx);

	return enter(ctx, (u16)cookie, cookie >> 16);
}

int leave_many(void *ctx)
{
	u64 cookie = probe_cookie(ctx);

	return leave(ctx, (u16)cookie, cookie >> 16);
}

#endif
