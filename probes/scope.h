/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Scope: which tasks are recorded. The root process (the command, or -p's process) with all its
 * threads, and everything that any of them forks from now on.
 *
 * Tasks are known by the address of their task_struct, which the tracepoints hand over: no field
 * of a kernel structure is read. A task stays in scope until its structure is freed and not just
 * until it exits, since the tracepoint for the exit fires before exit_mm() on some kernels, and
 * giving back the memory is a part of the workload.
 *
 * Timers run on every CPU and ask scope_has_current(). Events that the tasks inherit would need no
 * such filter, but each new task would then be sampled only after one whole period of its own:
 * the first faults of short-lived processes would never be seen.
 *
 * Programs of one session can share a scope, so that each fork and exit is followed once: user
 * space gives the maps of one to the others, and attaches the tracepoints below for that one only.
 *
 * Knobs:
 *   SCOPE_ALL  1: every task is in scope
 */
#ifndef FAULTPROF_SCOPE_H
#define FAULTPROF_SCOPE_H

#include <linux/compiler.h>
#include <linux/types.h>

/* Tasks in scope at one time; what does not fit is counted. */
#define SCOPE_TASKS 65536

struct scope_state {
	u32 root_tgid;
	u32 started; /* set by user space, or by the exec(2) of a root process that was held */
	u64 lost_tasks;
};

BPF_ARRAY(scope_state, struct scope_state, 1);

#if SCOPE_ALL

static __always_inline bool scope_has_current(void)
{
	int zero = 0;
	struct scope_state *state = scope_state.lookup(&zero);

	return state && state->started;
}

#else

BPF_HASH(scope_tasks, u64, u8, SCOPE_TASKS);

static __always_inline bool scope_has(u64 task, u32 tgid)
{
	int zero = 0;
	struct scope_state *state = scope_state.lookup(&zero);

	if (!state || !state->started)
		return false;
	return tgid == state->root_tgid || scope_tasks.lookup(&task);
}

static __always_inline bool scope_has_current(void)
{
	return scope_has(bpf_get_current_task(), bpf_get_current_pid_tgid() >> 32);
}

/* sched_process_exec(task, old_pid, binprm) */
int on_exec(struct bpf_raw_tracepoint_args *ctx)
{
	int zero = 0;
	struct scope_state *state = scope_state.lookup(&zero);

	if (state && bpf_get_current_pid_tgid() >> 32 == state->root_tgid)
		state->started = 1;
	return 0;
}

/* sched_process_fork(parent, child), for threads too; the parent is the current task */
int on_fork(struct bpf_raw_tracepoint_args *ctx)
{
	int zero = 0;
	struct scope_state *state;
	u64 child = ctx->args[1];
	u8 present = 1;

	if (!scope_has_current())
		return 0;
	if (scope_tasks.update(&child, &present)) {
		state = scope_state.lookup(&zero);
		if (state)
			__sync_fetch_and_add(&state->lost_tasks, 1);
	}
	return 0;
}

/* sched_process_free(task): the address may be used again from here on */
int on_free(struct bpf_raw_tracepoint_args *ctx)
{
	u64 task = ctx->args[0];

	scope_tasks.delete(&task);
	return 0;
}

#endif
#endif
