/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The shadow stack: which traced functions each task is in. trace.bpf.c keeps it; programs beside
 * it, to which user space lends the map, read their own task's.
 *
 * Knobs:
 *   MAX_TASKS     tasks that can be inside traced functions at one time
 *   MULTIPLICITY  1: also tell how many calls of each callee one call makes
 *   OCCUPANCY     1: also know what a task is inside of, see occupancy.h; of so many FUNCTIONS
 */
#ifndef FAULTPROF_SHADOW_STACK_H
#define FAULTPROF_SHADOW_STACK_H

#include <linux/compiler.h>
#include <linux/types.h>

#include "access.h"

#define MAX_DEPTH 32 /* a power of two: indices are masked for the verifier */
#define DEPTH_MASK (MAX_DEPTH - 1)
#define MAX_CALLEES 8 /* different callees of one call that are told apart; a power of two too */
#define CALLEE_MASK (MAX_CALLEES - 1)
/* The largest kernel stack in use; interrupts have stacks of their own, elsewhere. */
#define STACK_BYTES 65536
#define NO_UNROLL _Pragma("clang loop unroll(disable)")
#define NO_NODE 0xffffffff
#define ROOT 0

/* How often a call that still runs has called one function. */
struct callee {
	u32 function;
	u32 calls;
};

#if OCCUPANCY

#define INSIDE_WORDS ((FUNCTIONS + 63) / 64)

/* A set of functions. */
struct inside {
	u64 words[INSIDE_WORDS];
};

#endif

struct frame {
	u64 start;
	u64 stack;
	u64 children_ns;
	u64 offcpu_before;
	u32 node;
	u16 function;
	u8 conditional; /* left together with the frame below, which is its host */
	u8 anonymous;   /* a fault on an anonymous VMA that has had no other outcome yet */
#if MULTIPLICITY
	u64 callees;
	struct callee callee[MAX_CALLEES];
#endif
#if OCCUPANCY
	u64 occupancy;               /* at the entry; 0: not looked at */
	struct inside inside_before; /* what the task was inside of without this call */
#endif
};

struct task_trace {
	u64 stack_base;
	u64 here; /* see stack_here() */
	u64 switched_out; /* when the task stopped running; 0 while it runs */
	u64 offcpu_ns;    /* in all */
	u32 depth;
	u32 too_deep;     /* entries above MAX_DEPTH that have yet to return */
	struct frame frames[MAX_DEPTH];
#if OCCUPANCY
	struct inside inside;
#endif
};

BPF_HASH(tasks, u64, struct task_trace, MAX_TASKS);

static __always_inline struct frame *frame_at(struct task_trace *trace, u64 index)
{
	/* The compiler must not reason its way around the mask: the verifier wants to see it. */
	asm volatile("%0 &= %1" : "+r"(index) : "i"(DEPTH_MASK));
	return &trace->frames[index];
}

static __always_inline bool in_interrupt(struct task_trace *trace, u64 stack)
{
	return stack - trace->stack_base >= STACK_BYTES;
}

#endif
