// SPDX-License-Identifier: GPL-2.0-only
/*
 * Faults: how many page faults of each kind the tasks in scope take.
 *
 * The exception's tracepoints, as raw ones (see sample.bpf.c on why): they need no kprobes, and one
 * hit is one exception, before anything is known of how the kernel will handle it.
 *
 * Knobs:
 *   SCOPE_ALL          see scope.h
 *   FAULT_PRESENT_BIT  the bit of the architecture's error code that says "the page was there"
 *   FAULT_WRITE_BIT    the one that says "write"
 *   FAULT_EXEC_BIT     the one that says "instruction fetch"
 */
#include <linux/compiler.h>
#include <linux/types.h>

#include "scope.h"

/* faultprof/capture/fault_kinds.py has the same order. */
enum kind {
	KIND_READ,
	KIND_WRITE,
	KIND_PROTECTION, /* a write to a page that was there: copy-on-write, or a page made clean */
	KIND_EXEC,
	KIND_KERNEL,     /* of all these, those that kernel code took: copies from and to user memory */
	KIND_COUNT
};

BPF_PERCPU_ARRAY(faults, u64, KIND_COUNT);

/* Atomically: on kernels whose tracepoints can be preempted the other program may run meanwhile. */
static __always_inline void count(int kind)
{
	u64 *value = faults.lookup(&kind);

	if (value)
		__sync_fetch_and_add(value, 1);
}

static __always_inline int kind_of(u64 error_code)
{
	if (error_code & FAULT_EXEC_BIT)
		return KIND_EXEC;
	if (!(error_code & FAULT_WRITE_BIT))
		return KIND_READ;
	return error_code & FAULT_PRESENT_BIT ? KIND_PROTECTION : KIND_WRITE;
}

/* exceptions:page_fault_user(address, registers, error code) */
int on_user_fault(struct bpf_raw_tracepoint_args *ctx)
{
	if (scope_has_current())
		count(kind_of(ctx->args[2]));
	return 0;
}

/* exceptions:page_fault_kernel(address, registers, error code) */
int on_kernel_fault(struct bpf_raw_tracepoint_args *ctx)
{
	if (scope_has_current()) {
		count(kind_of(ctx->args[2]));
		count(KIND_KERNEL);
	}
	return 0;
}
