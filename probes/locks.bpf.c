// SPDX-License-Identifier: GPL-2.0-only
/*
 * Locks: how long the recorded tasks wait for locks of the kernel, for which, and where.
 *
 * The tracepoints lock:contention_begin(lock, flags) and contention_end(lock, result) stand in the
 * slow paths only; whoever gets a lock at once passes neither. A wait begins at the first of
 * several begins for the same lock, as perf has it: a mutex says anew whether it spins or sleeps.
 *
 * The stack is taken and all entries are made when a wait begins; when it ends the task holds the
 * lock, and whatever is done then makes others wait longer. The clock is read before: most of that
 * work is done while the lock is held by another, and so makes no wait longer. Only one that would
 * have been shorter than the work takes as long as it. No lock's address leaves this program
 * but that of a variable of the kernel itself, which user space turns into its name.
 *
 * Who spins stays on its CPU, and what waits there meanwhile is an interrupt: those waits nest.
 * Who sleeps is known by task and lock.
 *
 * The kernel does not run one of these programs within itself. So a wait in an interrupt of
 * on_begin() has an end only, and one in an interrupt of on_end() a begin only. Such a begin must
 * not stay: it would be taken for that of another wait for the same lock, long after (a run queue's
 * lock: 0.66 s).
 *
 * Knobs:
 *   SCOPE_ALL     see scope.h
 *   TRACED        1: there is a tracer beside this, whose shadow stack is lent; see shadow_stack.h
 *   MAX_WAITS     combinations of lock, type and place that can be told apart
 *   MAX_STACKS    kernel stacks that can be told apart
 *   OFFSET_TASK_STRUCT_STACK, OFFSET_TASK_STRUCT_MM, OFFSET_TASK_STRUCT_SIGHAND,
 *   OFFSET_MM_STRUCT_MMAP_LOCK, OFFSET_MM_STRUCT_PAGE_TABLE_LOCK, OFFSET_SIGHAND_STRUCT_SIGLOCK
 *                 where the fields are
 *   SIZE_MMAP_LOCK bytes of it
 */
#include <linux/compiler.h>
#include <linux/types.h>

#include "scope.h"
#include "access.h"
#include "histogram.h"
#if TRACED
#include "shadow_stack.h"
#else
#define STACK_BYTES 65536 /* as in shadow_stack.h */
#define ROOT 0
#endif

#define STACK_DEPTH 32
#define MAX_SLEEPERS 8192
#define MAX_NESTED 4 /* task, soft interrupt, interrupt, NMI; a power of two */
#define MAX_GONE 4   /* functions on the shadow stack that have returned unseen */
#define INTERRUPT 0xfffffffe /* in the place of a node */
#define NO_STACK 0xffffffff

/* Flags of contention_begin, include/trace/events/lock.h: an interface, and so they stay. */
#define LOCK_SPIN (1 << 0)
#define LOCK_MUTEX (1 << 5)
#define LOCK_TYPES 64

/* Locks that are known by where they are. */
enum known_lock {
	UNKNOWN_LOCK,
	MMAP_LOCK,
	MMAP_LOCK_INSIDE, /* a part of it, such as the spinlock over its list of waiters */
	PAGE_TABLE_LOCK,  /* mm->page_table_lock */
	SIGLOCK,
	KERNEL_VARIABLE,  /* in the kernel's image; only then is the address in the key */
};

enum stat {
	STAT_NESTED,        /* begins for a lock that the task waits for already */
	STAT_UNMATCHED,     /* ends without a begin */
	STAT_NO_END,        /* waits that were given up: the next one began without an end */
	STAT_SLEEPERS_FULL, /* waits that found no place in the map of sleepers */
	STAT_WAITS_FULL,    /* waits whose place found no room: only in the figures by type */
	STAT_STACKS_FULL,   /* waits whose stack found no room */
	STAT_COUNT
};

struct lock_stack {
	u64 depth;
	u64 address[STACK_DEPTH];
};

struct place {
	u64 address;
	u32 type;
	u32 known;
	u32 node;
	u32 stack;
};

struct wait {
	u64 lock;
	u64 start;
	u64 task;
	u64 here; /* where its stack was */
	struct place place;
};

struct sleeper {
	u64 task;
	u64 lock;
};

/* The waits that one CPU is in. */
struct spinning {
	u64 depth;
	struct wait waits[MAX_NESTED];
};

struct wait_totals {
	u64 waits;
	u64 total_ns;
	u64 histogram[HISTOGRAM_BUCKETS];
};

struct type_totals {
	u64 waits;
	u64 total_ns;
	u64 min_ns;
	u64 max_ns;
};

struct scratch {
	u64 here;
	struct lock_stack stack;
};

/* Where the kernel's image is; 0 and 0: nobody knows. */
struct image {
	u64 start;
	u64 end;
};

BPF_ARRAY(image, struct image, 1);
BPF_PERCPU_ARRAY(scratch, struct scratch, 1);
BPF_PERCPU_ARRAY(spinning, struct spinning, 1);
BPF_HASH(sleeping, struct sleeper, struct wait, MAX_SLEEPERS);
BPF_HASH(stacks, struct lock_stack, u32, MAX_STACKS);
BPF_QUEUE(free_stacks, u32, MAX_STACKS);
BPF_HASH(waits, struct place, struct wait_totals, MAX_WAITS);
BPF_ARRAY(no_waits, struct wait_totals, 1); /* never written: what a new place starts with */
BPF_PERCPU_ARRAY(types, struct type_totals, LOCK_TYPES);
BPF_PERCPU_ARRAY(stats, u64, STAT_COUNT);

static __always_inline void bump(int stat)
{
	u64 *value = stats.lookup(&stat);

	if (value)
		*value += 1;
}

/* Return what tells the types of locks apart: flags, without whether a mutex spins or sleeps. */
static __always_inline u32 type_of(u64 flags)
{
	if (flags & LOCK_MUTEX)
		flags &= ~LOCK_SPIN;
	return flags & (LOCK_TYPES - 1);
}

static __always_inline bool spins(u32 type)
{
	return type & LOCK_SPIN;
}

static __always_inline bool is_field(u64 lock, u64 structure, u32 offset)
{
	return structure && lock - structure == offset;
}

/* Return which lock this is, as far as addresses tell, and put into the key what they tell. */
static __always_inline void identify(u64 lock, u64 task, struct place *place)
{
	u64 mm = read_u64(task, OFFSET_TASK_STRUCT_MM);
	u64 sighand = read_u64(task, OFFSET_TASK_STRUCT_SIGHAND);
	struct image *kernel;
	int zero = 0;

	place->known = UNKNOWN_LOCK;
	place->address = 0;
	if (is_field(lock, mm, OFFSET_MM_STRUCT_MMAP_LOCK))
		place->known = MMAP_LOCK;
	else if (mm && lock - mm - OFFSET_MM_STRUCT_MMAP_LOCK < SIZE_MMAP_LOCK)
		place->known = MMAP_LOCK_INSIDE;
	else if (is_field(lock, mm, OFFSET_MM_STRUCT_PAGE_TABLE_LOCK))
		place->known = PAGE_TABLE_LOCK;
	else if (is_field(lock, sighand, OFFSET_SIGHAND_STRUCT_SIGLOCK))
		place->known = SIGLOCK;
	kernel = image.lookup(&zero);
	if (kernel && lock - kernel->start < kernel->end - kernel->start) {
		place->known = KERNEL_VARIABLE;
		place->address = lock;
	}
}

/* Return the number of a stack, made at need. */
static __always_inline u32 stack_number(struct lock_stack *stack)
{
	u32 *known = stacks.lookup(stack), fresh;

	if (known)
		return *known;
	if (free_stacks.pop(&fresh)) {
		bump(STAT_STACKS_FULL);
		return NO_STACK;
	}
	if (!stacks.insert(stack, &fresh))
		return fresh;
	/* Another CPU may have inserted the same stack since the look-up. */
	free_stacks.push(&fresh, 0);
	known = stacks.lookup(stack);
	if (known)
		return *known;
	bump(STAT_STACKS_FULL);
	return NO_STACK;
}

static __always_inline u32 stack_here(void *ctx, struct lock_stack *stack)
{
	long bytes;

	/* A shorter stack must not carry the tail of a longer one into the key. */
	__builtin_memset(stack, 0, sizeof(*stack));
	bytes = bpf_get_stack(ctx, stack->address, sizeof(stack->address), 0);
	if (bytes < 0)
		return NO_STACK;
	stack->depth = bytes / sizeof(u64);
	return stack_number(stack);
}

#if TRACED

/*
 * Return the node of the innermost traced function that the task is in. A frame that does not lie
 * above `here` is of a function that has returned unseen.
 */
static __always_inline u32 node_here(u64 task, u64 here)
{
	struct task_trace *trace = tasks.lookup(&task);
	struct frame *frame;
	u32 i;

	if (!trace)
		return ROOT;
	NO_UNROLL
	for (i = 0; i < MAX_GONE && i < trace->depth; i++) {
		frame = frame_at(trace, trace->depth - 1 - i);
		if (frame->stack > here)
			return frame->node;
	}
	return ROOT;
}

#else

static __always_inline u32 node_here(u64 task, u64 here)
{
	return ROOT;
}

#endif

/* Fill in where the wait is, as far as that is quickly done. */
static __always_inline void locate(void *ctx, struct scratch *memory, struct wait *wait)
{
	/* The verifier does not compute with a context pointer; through memory it becomes a number. */
	*(volatile u64 *)&memory->here = (u64)ctx;
	wait->here = *(volatile u64 *)&memory->here;
	if (wait->here - read_u64(wait->task, OFFSET_TASK_STRUCT_STACK) >= STACK_BYTES)
		wait->place.node = INTERRUPT;
	else
		wait->place.node = node_here(wait->task, wait->here);
}

/* Make room for the wait's figures, so that its end need not. */
static __always_inline void prepare(struct place *place)
{
	struct wait_totals *nothing;
	int zero = 0;

	if (waits.lookup(place))
		return;
	nothing = no_waits.lookup(&zero);
	if (nothing)
		waits.insert(place, nothing);
}

static __always_inline struct wait *spinning_at(struct spinning *cpu, u64 index)
{
	/* The compiler must not reason its way around the mask: the verifier wants to see it. */
	asm volatile("%0 &= %1" : "+r"(index) : "i"(MAX_NESTED - 1));
	return &cpu->waits[index];
}

/* Whether a wait on this CPU cannot go on any more when `wait` begins: see above. */
static __always_inline bool is_over(struct wait *older, struct wait *wait)
{
	if (wait->place.node != INTERRUPT || older->task != wait->task)
		return true;
	/* An interrupt of an interrupt is below it on the same stack, or on another. */
	return older->place.node == INTERRUPT && wait->here - older->here < STACK_BYTES;
}

/* Forget the waits whose ends have not been seen. */
static __always_inline void forget_before(struct wait *wait)
{
	int zero = 0, i;
	struct spinning *cpu = spinning.lookup(&zero);

	if (!cpu)
		return;
#pragma unroll
	for (i = 0; i < MAX_NESTED; i++) {
		if (!cpu->depth || !is_over(spinning_at(cpu, cpu->depth - 1), wait))
			return;
		bump(STAT_NO_END);
		cpu->depth--;
	}
}

static __always_inline void begin_spinning(struct wait *wait)
{
	int zero = 0;
	struct spinning *cpu = spinning.lookup(&zero);
	struct wait *top;

	if (!cpu)
		return;
	if (cpu->depth >= MAX_NESTED) {
		bump(STAT_NO_END);
		cpu->depth = 0;
	}
	top = spinning_at(cpu, cpu->depth);
	*top = *wait;
	cpu->depth++;
}

static __always_inline void begin_sleeping(struct wait *wait)
{
	struct sleeper sleeper = { wait->task, wait->lock };

	if (sleeping.update(&sleeper, wait))
		bump(STAT_SLEEPERS_FULL);
}

/* Whether the task waits for this lock already; only a mutex begins more than once. */
static __always_inline bool waits_already(u64 task, u64 lock, u32 type)
{
	struct sleeper sleeper = { task, lock };

	if (spins(type) || !sleeping.lookup(&sleeper))
		return false;
	if (type != LOCK_MUTEX) {
		bump(STAT_NO_END);
		return false;
	}
	bump(STAT_NESTED);
	return true;
}

int on_begin(struct bpf_raw_tracepoint_args *ctx)
{
	struct wait wait = { .lock = ctx->args[0], .start = bpf_ktime_get_ns() };
	int zero = 0;
	struct scratch *memory = scratch.lookup(&zero);

	if (!memory || !scope_has_current())
		return 0;
	wait.task = bpf_get_current_task();
	wait.place.type = type_of(ctx->args[1]);
	locate(ctx, memory, &wait);
	forget_before(&wait);
	if (waits_already(wait.task, wait.lock, wait.place.type))
		return 0;
	identify(wait.lock, wait.task, &wait.place);
	wait.place.stack = stack_here(ctx, &memory->stack);
	prepare(&wait.place);
	if (spins(wait.place.type))
		begin_spinning(&wait);
	else
		begin_sleeping(&wait);
	return 0;
}

static __always_inline void add_to_type(u32 type, u64 ns)
{
	struct type_totals *total = types.lookup((int *)&type);

	if (!total)
		return;
	if (!total->waits || ns < total->min_ns)
		total->min_ns = ns;
	if (ns > total->max_ns)
		total->max_ns = ns;
	total->waits++;
	total->total_ns += ns;
}

static __always_inline void finish(struct wait *wait, u64 now)
{
	struct wait_totals *total = waits.lookup(&wait->place);
	u64 ns = now - wait->start, bucket = histogram_bucket(ns);

	add_to_type(wait->place.type, ns);
	if (!total) {
		bump(STAT_WAITS_FULL);
		return;
	}
	__sync_fetch_and_add(&total->waits, 1);
	__sync_fetch_and_add(&total->total_ns, ns);
	/* As in histogram_add(), but other CPUs count here too. */
	asm volatile("" : "+r"(bucket));
	if (bucket < HISTOGRAM_BUCKETS)
		__sync_fetch_and_add(&total->histogram[bucket], 1);
}

/* Return the wait that the task spins in for a lock, and forget those within it: they are over. */
static __always_inline struct wait *end_spinning(struct sleeper *who)
{
	int zero = 0;
	struct spinning *cpu = spinning.lookup(&zero);
	struct wait *wait;
	u64 above;

	if (!cpu)
		return NULL;
#pragma unroll
	for (above = 0; above < MAX_NESTED; above++) {
		if (above >= cpu->depth)
			return NULL;
		wait = spinning_at(cpu, cpu->depth - 1 - above);
		if (wait->lock == who->lock && wait->task == who->task) {
			if (above)
				bump(STAT_NO_END);
			cpu->depth -= above + 1;
			return wait;
		}
	}
	return NULL;
}

int on_end(struct bpf_raw_tracepoint_args *ctx)
{
	u64 now = bpf_ktime_get_ns();
	struct sleeper sleeper = { bpf_get_current_task(), ctx->args[0] };
	struct wait *wait = end_spinning(&sleeper);

	if (wait) {
		finish(wait, now);
		return 0;
	}
	if (!scope_has_current())
		return 0;
	wait = sleeping.lookup(&sleeper);
	if (!wait) {
		bump(STAT_UNMATCHED);
		return 0;
	}
	finish(wait, now);
	sleeping.delete(&sleeper);
	return 0;
}
