// SPDX-License-Identifier: GPL-2.0-only
/*
 * Tracing: the exact call tree of chosen kernel functions, added up in the kernel.
 *
 * Each task has a shadow stack of the traced functions that it is in. At a function's return its
 * time goes to a node of the call tree, which is the path of traced functions that led to it. No
 * event leaves the kernel; user space reads the nodes when the recording ends.
 *
 * The clock is read last at an entry and first at a return, so that the work in between falls
 * outside the function's own interval. For every node, whatever happens,
 *     inclusive = self + the children's inclusive,
 * also for functions that never return: see drop_top().
 *
 * Knobs:
 *   SCOPE_ALL     see scope.h
 *   FENTRY        1: templates of fentry and fexit programs
 *   KPROBE        1: templates of kprobe and kretprobe programs
 *   KPROBE_MANY   1: kprobe and kretprobe programs for many functions
 *   HITS          1: a template of kprobe programs that only count
 *   FUNCTIONS     how many functions there are, conditional ones included
 *   MAX_NODES     nodes of the call tree
 *   MAX_TASKS     tasks that can be inside traced functions at one time
 *   PAUSABLE      1: stand still, entries and returns, while user space says that nothing is recorded
 *   MULTIPLICITY  1: also tell how many calls of each callee one call makes
 *   OFFCPU        1: also tell how long the task was not running (sched_switch)
 *   OCCUPANCY     1: also tell how many CPUs are inside each function; see occupancy.h
 *   PAD           see pad.h
 *   READ_FAULT, COW_FAULT, SHARED_FAULT, SINGLE_PAGE, ANONYMOUS
 *                 numbers of the conditional functions; FUNCTIONS: not traced
 *   MAP_PAGES     number of filemap_map_pages, which SINGLE_PAGE is called from
 *   OFFSET_TASK_STRUCT_STACK, OFFSET_VM_FAULT_FLAGS, OFFSET_VM_FAULT_VMA,
 *   OFFSET_VM_AREA_STRUCT_VM_FLAGS, OFFSET_VM_AREA_STRUCT_VM_OPS,
 *   OFFSET_VM_OPERATIONS_STRUCT_FAULT
 *                 where the fields are
 *   FLAG_WRITE, FLAG_TRIED, FLAG_VMA_LOCK
 *                 bits of enum fault_flag, 0 where this kernel has none
 *   FLAG_FALLBACK bit of a fault's result that says: not handled, another outcome follows
 */
#include <linux/compiler.h>
#include <linux/types.h>

#include "scope.h"
#include "access.h"
#include "fault.h"
#include "histogram.h"
#include "occupancy.h"
#include "pad.h"
#include "patched.h"
#include "shadow_stack.h"

#define PER_CALL_BUCKETS 8 /* 1, 2, up to 4, 8, 16, 32, 64, and more calls */
#define PER_CALL_LAST ((1 << (PER_CALL_BUCKETS - 2)) + 1) /* the least that is "more" */
#define MAX_UNSEEN 4 /* functions that return unseen between two hits that we see */

/* What is special about a function; faultprof/capture/trace_plan.py has the same numbers. */
enum what {
	PLAIN,
	HANDLE_MM_FAULT, /* (vma, address, flags, ...): count the fault's flags */
	DO_FAULT,        /* (vmf): stands for an inlined do_{read,cow,shared}_fault */
	SET_PTE_RANGE,   /* (vmf, folio, page, nr, ...): of one page, within filemap_map_pages() */
	FAULT_OUTCOME,   /* __handle_mm_fault(vma, ...): stands for an inlined do_anonymous_page */
	OTHER_OUTCOME,   /* called by __handle_mm_fault(): then it was not do_anonymous_page */
};

enum stat {
	STAT_ENTRIES,
	STAT_HITS,         /* of probes that only count */
	STAT_RETURNS,
	STAT_UNMATCHED,    /* returns without an entry */
	STAT_NO_RETURN,    /* entries whose return was never seen */
	STAT_TOO_DEEP,     /* entries below MAX_DEPTH traced functions */
	STAT_INTERRUPT,    /* entries in an interrupt: not part of the task's call tree */
	STAT_TASKS_FULL,   /* entries of tasks that found no place in the map */
	STAT_NODES_FULL,   /* entries whose path found no node */
	STAT_EXIT_INSIDE,  /* frames of tasks that ended inside a traced function */
	STAT_FAULTS,       /* calls of handle_mm_fault */
	STAT_TRIED,        /* of these, a fault's second attempt */
	STAT_VMA_LOCK,     /* of these, under the VMA lock */
	STAT_CALLEES_FULL, /* calls whose caller has called MAX_CALLEES other functions */
	STAT_COUNT
};

struct node {
	u32 parent;
	u16 function;
	u16 used;
};

struct totals {
	u64 calls;
	u64 unfinished;    /* calls that never returned: they have no time of their own */
	u64 unfinished_ns; /* what was below these */
	u64 inclusive_ns;
	u64 self_ns;
	u64 min_ns;
	u64 max_ns;
	u64 offcpu_ns;
	u64 histogram[HISTOGRAM_BUCKETS];
	/* The caller's calls that called this, by how often. */
	u64 per_call[PER_CALL_BUCKETS];
};

BPF_ARRAY(empty_task, struct task_trace, 1); /* never written: what a new task starts with */
BPF_ARRAY(nodes, struct node, MAX_NODES);
BPF_ARRAY(edges, u32, MAX_NODES *FUNCTIONS); /* [parent][function] -> node, 0: none yet */
BPF_QUEUE(free_nodes, u32, MAX_NODES);
BPF_PERCPU_ARRAY(totals, struct totals, MAX_NODES);
BPF_PERCPU_ARRAY(stats, u64, STAT_COUNT);

/*
 * fentry programs can be preempted (they only may not migrate), and another task's program then
 * counts on the same CPU: hence atomically. Totals need not: each figure of a node is written by one
 * function's program, which the kernel does not run twice at once on a CPU (and counts as a
 * recursion miss when it would have to). Only calls that did not return are counted by whatever
 * program finds out, in fields of their own.
 */
static __always_inline void bump_by(int stat, u64 amount)
{
	u64 *value = stats.lookup(&stat);

	if (value)
		__sync_fetch_and_add(value, amount);
}

static __always_inline void bump(int stat)
{
	bump_by(stat, 1);
}

/*
 * Whether the recording stands still while its tasks go on. Without that, tasks that are inside
 * traced functions are followed to their end, and what is read meanwhile does not add up.
 */
static __always_inline bool paused(void)
{
#if PAUSABLE
	int zero = 0;
	struct scope_state *state = scope_state.lookup(&zero);

	return !state || !state->started;
#else
	return false;
#endif
}

/* Return the current task's shadow stack, or NULL if the task is not recorded. */
static __always_inline struct task_trace *current_trace(void)
{
	u64 task = bpf_get_current_task();
	struct task_trace *trace = tasks.lookup(&task);
	int zero = 0;

	if (paused())
		return NULL;
	if (trace || !scope_has_current())
		return trace;
	trace = empty_task.lookup(&zero);
	if (!trace)
		return NULL;
	tasks.insert(&task, trace);
	trace = tasks.lookup(&task);
	if (trace)
		trace->stack_base = read_u64(task, OFFSET_TASK_STRUCT_STACK);
	else
		bump(STAT_TASKS_FULL);
	return trace;
}

/*
 * Where the probe found the task's stack. The verifier does not compute with a context pointer;
 * through memory it becomes a number.
 */
static __always_inline u64 stack_here(struct task_trace *trace, void *ctx, int kind)
{
	if (kind == PROBE_KPROBE)
		return probe_stack(ctx);
	*(volatile u64 *)&trace->here = (u64)ctx;
	return *(volatile u64 *)&trace->here;
}

/* What is inside of what; nothing at all without OCCUPANCY. */

static __always_inline void occupancy_push(struct task_trace *trace, struct frame *frame,
					   u32 function)
{
#if OCCUPANCY
	frame->occupancy = 0;
	copy_inside(&frame->inside_before, &trace->inside);
	add_inside(&trace->inside, function);
#endif
}

static __always_inline void occupancy_pop(struct task_trace *trace, struct frame *frame)
{
#if OCCUPANCY
	copy_inside(&trace->inside, &frame->inside_before);
#endif
}

/* Look at all slots if it is this call's turn; `inner` is told by a condition in the host. */
static __always_inline void occupancy_look(struct slot *own, struct frame *host, u32 function,
					   struct frame *inner, u32 conditional)
{
#if OCCUPANCY
	if (!occupancy_is_due(own))
		return;
	host->occupancy = occupancy_at_entry(own, function);
	if (inner)
		inner->occupancy = occupancy_at_entry(own, conditional);
#endif
}

static __always_inline void occupancy_publish(struct slot *own, struct task_trace *trace)
{
#if OCCUPANCY
	if (own && trace)
		copy_inside(&own->inside, &trace->inside);
	else if (own)
		clear_inside(&own->inside);
#endif
}

static __always_inline void occupancy_finish(struct frame *frame, u64 ns, u64 offcpu_ns)
{
#if OCCUPANCY
	if (frame->occupancy)
		add_met(frame->function, frame->occupancy, ns, offcpu_ns);
#endif
}

/* Return the node of `function` called from `parent`, made at need. */
static __always_inline u32 child_node(u32 parent, u32 function)
{
	u32 index = parent * FUNCTIONS + function;
	struct node *node;
	u32 *edge, fresh;

	if (parent == NO_NODE)
		return NO_NODE;
	edge = edges.lookup(&index);
	if (!edge)
		return NO_NODE;
	if (*edge)
		return *edge;
	/* Two CPUs may get here at once: then one path has two nodes, and user space adds them up. */
	if (free_nodes.pop(&fresh)) {
		bump(STAT_NODES_FULL);
		return NO_NODE;
	}
	node = nodes.lookup(&fresh);
	if (node) {
		node->parent = parent;
		node->function = function;
		node->used = 1;
	}
	*edge = fresh;
	return fresh;
}

#if MULTIPLICITY

static __always_inline struct callee *callee_at(struct frame *frame, u64 index)
{
	/* As in frame_at(). */
	asm volatile("%0 &= %1" : "+r"(index) : "i"(CALLEE_MASK));
	return &frame->callee[index];
}

/* One call has bucket 0, up to 2 << n calls have bucket n + 1; the last one has no end. */
static __always_inline u64 per_call_bucket(u64 calls)
{
	u64 bucket = highest_bit(calls - 1) + (calls > 1);

	asm volatile("%0 &= %1" : "+r"(bucket) : "i"(PER_CALL_BUCKETS - 1));
	return bucket;
}

/*
 * The caller's call has called this `calls` times by now: it moves to another bucket when that is
 * one above a power of two. Where it has moved to another CPU meanwhile, one CPU's bucket counts
 * one too many and the other's one too few, and what they come to is right.
 */
static __always_inline void move_per_call(u32 node, u64 calls)
{
	struct totals *total;

	if (((calls - 1) & (calls - 2)) || calls > PER_CALL_LAST)
		return;
	total = totals.lookup((int *)&node);
	if (!total)
		return;
	total->per_call[per_call_bucket(calls)]++;
	if (calls > 1)
		total->per_call[per_call_bucket(calls - 1)]--;
}

/* Count a call of `function` in its caller's frame, and how often that has called it. */
static __always_inline void count_callee(struct frame *caller, u32 function, u32 node)
{
	struct callee *callee = NULL;
	u64 i;

	NO_UNROLL
	for (i = 0; i < MAX_CALLEES && i < caller->callees; i++) {
		callee = callee_at(caller, i);
		if (callee->function == function)
			goto found;
	}
	if (i == MAX_CALLEES) {
		bump(STAT_CALLEES_FULL);
		return;
	}
	caller->callees = i + 1;
	callee = callee_at(caller, i);
	callee->function = function;
	callee->calls = 0;
found:
	move_per_call(node, ++callee->calls);
}

#else

static __always_inline void count_callee(struct frame *caller, u32 function, u32 node)
{
}

#endif

/* What a frame's time counts for in its caller; a function without a node is its caller's self. */
static __always_inline void pay_caller(struct task_trace *trace, u64 ns)
{
	if (trace->depth)
		frame_at(trace, trace->depth - 1)->children_ns += ns;
}

/*
 * The top function has gone without a return that we saw. Nobody knows how long it took, but its
 * children's time is known and must not be lost: it counts as this function's, and no more.
 */
static __always_inline void drop_top(struct task_trace *trace)
{
	struct frame *frame = frame_at(trace, trace->depth - 1);
	struct totals *total = totals.lookup((int *)&frame->node);

	trace->depth--;
	if (total) {
		__sync_fetch_and_add(&total->unfinished, 1);
		__sync_fetch_and_add(&total->unfinished_ns, frame->children_ns);
	}
	pay_caller(trace, frame->children_ns);
}

static __always_inline void finish_top(struct task_trace *trace, u64 now)
{
	struct frame *frame = frame_at(trace, trace->depth - 1);
	struct totals *total = totals.lookup((int *)&frame->node);
	u64 ns = now - frame->start, offcpu_ns = trace->offcpu_ns - frame->offcpu_before;

	trace->depth--;
	occupancy_finish(frame, ns, offcpu_ns);
	if (!total) {
		pay_caller(trace, frame->children_ns);
		return;
	}
	if (!total->calls || ns < total->min_ns)
		total->min_ns = ns;
	if (ns > total->max_ns)
		total->max_ns = ns;
	total->calls++;
	total->inclusive_ns += ns;
	total->self_ns += ns - frame->children_ns;
	total->offcpu_ns += offcpu_ns;
	histogram_add(total->histogram, ns);
	pay_caller(trace, ns);
}

/*
 * A function that is still on the shadow stack lies above (at a higher address than) everything
 * that it calls. One that does not has returned unseen. At equal addresses two functions are taken
 * for a tail call, but a function does not tail-call itself: that would be a loop.
 */
static __always_inline bool top_has_gone(struct task_trace *trace, u64 stack, u32 function)
{
	struct frame *top;

	if (!trace->depth)
		return false;
	top = frame_at(trace, trace->depth - 1);
	return top->stack < stack || (top->stack == stack && top->function == function);
}

static __always_inline struct frame *push(struct task_trace *trace, u64 stack, u32 function)
{
	u32 depth = trace->depth;
	u32 parent = depth ? frame_at(trace, depth - 1)->node : ROOT;
	struct frame *frame;

	if (depth >= MAX_DEPTH)
		return NULL;
	frame = frame_at(trace, depth);
	frame->stack = stack;
	frame->children_ns = 0;
	frame->offcpu_before = trace->offcpu_ns;
	frame->node = child_node(parent, function);
	frame->function = function;
	frame->conditional = 0;
	frame->anonymous = 0;
	occupancy_push(trace, frame, function);
#if MULTIPLICITY
	frame->callees = 0;
#endif
	if (depth)
		count_callee(frame_at(trace, depth - 1), function, frame->node);
	trace->depth = depth + 1;
	return frame;
}

/* Return which function do_fault() has inlined for this fault, or FUNCTIONS. */
static __always_inline u32 inlined_fault(u64 vmf)
{
	switch (file_fault(vmf)) {
	case FILE_READ:
		return READ_FAULT;
	case FILE_COW:
		return COW_FAULT;
	case FILE_SHARED:
		return SHARED_FAULT;
	default:
		return FUNCTIONS;
	}
}

/* Whether the function on top was called from `function`, with nothing traced in between. */
static __always_inline bool called_from(struct task_trace *trace, u32 function)
{
	return trace->depth > 1 && frame_at(trace, trace->depth - 2)->function == function;
}

/* Return the number of the function that is inlined here under a condition, or FUNCTIONS. */
static __always_inline u32 conditional_function(struct task_trace *trace, void *ctx, int kind,
						int what)
{
	/* finish_fault() sets single pages too. */
	if (what == SET_PTE_RANGE && probe_argument(ctx, kind, 3) == 1 &&
	    called_from(trace, MAP_PAGES))
		return SINGLE_PAGE;
	if (what == DO_FAULT)
		return inlined_fault(probe_argument(ctx, kind, 0));
	return FUNCTIONS;
}

static __always_inline void count_fault(void *ctx, int kind)
{
	u64 flags = probe_argument(ctx, kind, 2);

	bump(STAT_FAULTS);
	if (flags & FLAG_TRIED)
		bump(STAT_TRIED);
	if (flags & FLAG_VMA_LOCK)
		bump(STAT_VMA_LOCK);
}

static __always_inline int enter(void *ctx, int kind, u32 function, int what)
{
	struct task_trace *trace = current_trace();
	struct frame *host, *inner = NULL;
	struct slot *own = own_slot();
	u32 conditional;
	u64 stack;
	int i;

	if (!trace)
		return 0;
	stack = stack_here(trace, ctx, kind);
	if (in_interrupt(trace, stack)) {
		bump(STAT_INTERRUPT);
		return 0;
	}
	bump(STAT_ENTRIES);
	NO_UNROLL
	for (i = 0; i < MAX_UNSEEN && top_has_gone(trace, stack, function); i++) {
		occupancy_pop(trace, frame_at(trace, trace->depth - 1));
		drop_top(trace);
		bump(STAT_NO_RETURN);
	}
	if (what == HANDLE_MM_FAULT)
		count_fault(ctx, kind);
	host = push(trace, stack, function);
	if (!host) {
		bump(STAT_TOO_DEEP);
		trace->too_deep++;
		return 0;
	}
	conditional = conditional_function(trace, ctx, kind, what);
	if (conditional < FUNCTIONS)
		inner = push(trace, stack, conditional);
	if (what == FAULT_OUTCOME)
		host->anonymous =
			!read_u64(probe_argument(ctx, kind, 0), OFFSET_VM_AREA_STRUCT_VM_OPS);
	occupancy_look(own, host, function, inner, conditional);
	pad(function);
	host->start = bpf_ktime_get_ns();
	if (inner) {
		inner->conditional = 1;
		inner->start = host->start;
	}
	occupancy_publish(own, trace);
	return 0;
}

/* Return how many frames lie above the topmost one of `function`, or MAX_DEPTH if there is none. */
static __always_inline u32 frames_above(struct task_trace *trace, u32 function)
{
	u32 above;

	NO_UNROLL
	for (above = 0; above < MAX_UNSEEN; above++) {
		if (above >= trace->depth)
			return MAX_DEPTH;
		if (frame_at(trace, trace->depth - 1 - above)->function == function)
			return above;
	}
	return MAX_DEPTH;
}

/* Count a call of `function` in the function on top, without a time. */
static __always_inline void count_call(struct task_trace *trace, u32 function)
{
	u32 parent = trace->depth ? frame_at(trace, trace->depth - 1)->node : ROOT;
	u32 node = child_node(parent, function);
	struct totals *total = totals.lookup((int *)&node);

	if (!total)
		return;
	total->calls++;
	if (trace->depth)
		count_callee(frame_at(trace, trace->depth - 1), function, node);
}

/* Look at the top function's outcome before it is finished. */
static __always_inline void judge_outcome(struct task_trace *trace, void *ctx, int kind, int what)
{
	if (what == FAULT_OUTCOME && frame_at(trace, trace->depth - 1)->anonymous)
		count_call(trace, ANONYMOUS);
	if (what == OTHER_OUTCOME && trace->depth > 1 && !(probe_result(ctx, kind) & FLAG_FALLBACK))
		frame_at(trace, trace->depth - 2)->anonymous = 0;
}

static __always_inline int leave(void *ctx, int kind, u32 function, int what)
{
	u64 now = bpf_ktime_get_ns();
	u64 task = bpf_get_current_task();
	struct task_trace *trace = tasks.lookup(&task);
	bool inner = false;
	u32 above, i;

	if (!trace || paused() || in_interrupt(trace, stack_here(trace, ctx, kind)))
		return 0;
	bump(STAT_RETURNS);
	if (trace->too_deep) {
		trace->too_deep--;
		return 0;
	}
	above = frames_above(trace, function);
	if (above == MAX_DEPTH) {
		bump(STAT_UNMATCHED);
		return 0;
	}
	/* Early: what is counted below is not inside of the function any more. */
	occupancy_pop(trace, frame_at(trace, trace->depth - 1 - above));
	occupancy_publish(own_slot(), trace);
	/* What is inlined here under a condition lies right above its host, if anywhere. */
	if (above && frame_at(trace, trace->depth - above)->conditional)
		above--, inner = true;
	NO_UNROLL
	for (i = 0; i < MAX_UNSEEN && i < above; i++) {
		drop_top(trace);
		bump(STAT_NO_RETURN);
	}
	if (inner)
		finish_top(trace, now);
	judge_outcome(trace, ctx, kind, what);
	finish_top(trace, now);
	return 0;
}

/* An inlined body whose entry is all that can be probed: count it, and no more. */
static __always_inline int hit(void *ctx, u32 function)
{
	struct task_trace *trace = current_trace();

	if (!trace)
		return 0;
	bump(STAT_HITS);
	count_call(trace, function);
	pad(function);
	return 0;
}

/* Templates: see patched.h; what is special about a function is its `enum what`. */
#if FENTRY

KFUNC_PROBE(template)
{
	return enter(ctx, PROBE_FENTRY, FUNCTION_NUMBER, FUNCTION_WHAT);
}

KRETFUNC_PROBE(template)
{
	return leave(ctx, PROBE_FENTRY, FUNCTION_NUMBER, FUNCTION_WHAT);
}

#endif
#if KPROBE

int enter_template(void *ctx)
{
	return enter(ctx, PROBE_KPROBE, FUNCTION_NUMBER, FUNCTION_WHAT);
}

int leave_template(void *ctx)
{
	return leave(ctx, PROBE_KPROBE, FUNCTION_NUMBER, FUNCTION_WHAT);
}

#endif
#if HITS

/* Always a kprobe: nothing else attaches inside a function. */
int hit_template(void *ctx)
{
	return hit(ctx, FUNCTION_NUMBER);
}

#endif
#if KPROBE_MANY

/*
 * Kprobes that are attached all at once share a program: what the templates have patched in is in
 * the cookie.
 */
int enter_many(void *ctx)
{
	u64 cookie = probe_cookie(ctx);

	return enter(ctx, PROBE_KPROBE, (u16)cookie, cookie >> 16);
}

int leave_many(void *ctx)
{
	u64 cookie = probe_cookie(ctx);

	return leave(ctx, PROBE_KPROBE, (u16)cookie, cookie >> 16);
}

#endif

#if OFFCPU || OCCUPANCY
/* sched_switch(preempt, previous, next, ...) */
int on_switch(struct bpf_raw_tracepoint_args *ctx)
{
	u64 previous = ctx->args[1], next = ctx->args[2];
	struct task_trace *trace;
	u64 now;

	trace = tasks.lookup(&previous);
	if (OFFCPU && trace && trace->depth)
		trace->switched_out = bpf_ktime_get_ns();
	trace = tasks.lookup(&next);
	occupancy_publish(own_slot(), trace);
	if (trace && trace->switched_out) {
		now = bpf_ktime_get_ns();
		trace->offcpu_ns += now - trace->switched_out;
		trace->switched_out = 0;
	}
	return 0;
}
#endif

/* sched_process_free(task) */
int on_task_free(struct bpf_raw_tracepoint_args *ctx)
{
	u64 task = ctx->args[0];
	struct task_trace *trace = tasks.lookup(&task);
	int i;

	if (!trace || paused())
		return 0;
	bump_by(STAT_EXIT_INSIDE, trace->depth);
	NO_UNROLL
	for (i = 0; i < MAX_DEPTH && trace->depth; i++)
		drop_top(trace);
	tasks.delete(&task);
	return 0;
}
