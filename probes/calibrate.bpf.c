// SPDX-License-Identifier: GPL-2.0-only
/*
 * Calibration: calls a probed function of the kernel in a loop, inside the kernel.
 *
 * User space runs these programs by BPF_PROG_TEST_RUN, without and with probes on the functions
 * behind two helpers; the kernel's own benchmark of probes drives them so too
 * (tools/testing/selftests/bpf/progs/trigger_bench.c). No system call is part of an iteration, and
 * the function is next to empty: what the loop grows by is what the probes cost.
 *
 * Knobs:
 *   LOOPS  calls in one run of the loop
 */
#include <linux/compiler.h>
#include <linux/types.h>

#define MAX_THREADS 1024
#define WARM_UP 16 /* the first calls find cold caches */
#define NO_UNROLL _Pragma("clang loop unroll(disable)")

/*
 * The helper's function does nothing but return a number. It takes no arguments; four are given so
 * that a probe finds a 1 in the fourth, as that of set_pte_range() does for a single page.
 */
static u64 (*empty_function)(u64, u64, u64, u64) = (void *)42; /* bpf_get_numa_node_id() */
/* The helper's function reads the clock: it says when the body ran, between its two probes. */
static u64 (*clock_function)(u64, u64, u64, u64) = (void *)125; /* bpf_ktime_get_boot_ns() */

struct moments {
	u64 began;
	u64 body;
	u64 ended;
};

BPF_ARRAY(of_thread, struct moments, MAX_THREADS);

/* (thread): LOOPS calls of the empty function */
int drive(struct bpf_raw_tracepoint_args *ctx)
{
	u32 thread = ctx->args[0];
	struct moments *moments = of_thread.lookup(&thread);
	u64 began, i;

	if (!moments)
		return 0;
	began = bpf_ktime_get_ns();
	NO_UNROLL
	for (i = 0; i < LOOPS; i++)
		empty_function(0, 0, 0, 1);
	moments->ended = bpf_ktime_get_ns();
	moments->began = began;
	return 0;
}

/* (thread): calls of the function that reads the clock, of which the last is looked at */
int drive_once(struct bpf_raw_tracepoint_args *ctx)
{
	u32 thread = ctx->args[0];
	struct moments *moments = of_thread.lookup(&thread);
	u64 began = 0, body = 0, i;

	if (!moments)
		return 0;
	NO_UNROLL
	for (i = 0; i < WARM_UP; i++) {
		began = bpf_ktime_get_ns();
		body = clock_function(0, 0, 0, 1);
		moments->ended = bpf_ktime_get_ns();
	}
	moments->body = body;
	moments->began = began;
	return 0;
}
