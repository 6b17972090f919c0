// SPDX-License-Identifier: GPL-2.0-only
/*
 * Sampling: one kernel stack (and, if asked for, one user stack) per tick of a perf event.
 *
 * Stacks are aggregated in a map whose key is the stack itself. A map keyed by a hash of the
 * stack (BPF_MAP_TYPE_STACK_TRACE) loses stacks on collisions; this one loses nothing until it
 * is full, and then it counts what it loses.
 *
 * Knobs:
 *   SCOPE_ALL        see scope.h
 *   MAX_STACKS       distinct keys that the map holds
 *   USER_STACKS      1: also take the user stack, as build ids and file offsets
 *   FAULT_LABELS     1: remember of each task whether its latest fault was a read or a write
 *   FAULT_WRITE_BIT  the bit of the architecture's error code that says "write"
 */
#include <linux/compiler.h>
#include <linux/types.h>

#include "scope.h"

/* The kernel's own default, kernel.perf_event_max_stack. */
#define KERNEL_DEPTH 127
/*
 * User stacks come as 32-byte records. LLVM's BPF back end has no memset to call and unrolls at
 * most 128 stores of 8 bytes: 32 records are the most that one memset can clear.
 */
#define USER_DEPTH 32

enum stat {
	STAT_RUNS,            /* times the program ran */
	STAT_NO_KERNEL_STACK, /* the helper refused: the sample is kept, without its stack */
	STAT_TRUNCATED,       /* kernel stacks that fill KERNEL_DEPTH */
	STAT_MAP_FULL,        /* samples lost because the map was full */
	STAT_MAP_BUSY,        /* samples lost because the map's bucket was locked (NMI) */
	STAT_KEYS,            /* keys inserted */
	STAT_COUNT
};

/* What the task's latest page fault was; only meaningful below an exception entry. */
enum fault_label {
	FAULT_UNKNOWN,
	FAULT_READ,
	FAULT_WRITE,
};

#if USER_STACKS
/* struct bpf_stack_build_id of the kernel's user interface. */
struct user_frame {
	s32 status;
	u8 build_id[20];
	u64 offset;
};
#endif

struct stack_key {
	char comm[16];
	u32 kernel_depth;
	u32 fault;
	u64 kernel[KERNEL_DEPTH];
#if USER_STACKS
	u64 user_depth;
	struct user_frame user[USER_DEPTH];
#endif
};

BPF_HASH(counts, struct stack_key, u64, MAX_STACKS);
BPF_PERCPU_ARRAY(scratch, struct stack_key, 1);
BPF_PERCPU_ARRAY(stats, u64, STAT_COUNT);
#if FAULT_LABELS
/*
 * Task and label in one word, in the slot of the task's lower 16 bits. Of tasks that share a slot
 * the one that faulted last has it; the other's samples go without label, and are counted so.
 * An LRU hash would keep both, at twice the cost for every fault of the machine.
 */
#define FAULT_SLOTS 65536
BPF_ARRAY(latest_fault, u64, FAULT_SLOTS);
#endif

static __always_inline void bump(int stat)
{
	u64 *value = stats.lookup(&stat);

	if (value)
		*value += 1;
}

static __always_inline void count_stack(struct stack_key *key)
{
	u64 one = 1;
	u64 *count = counts.lookup(key);
	long error;

	if (!count) {
		error = counts.insert(key, &one);
		if (!error) {
			bump(STAT_KEYS);
			return;
		}
		/* Another CPU may have inserted the same stack since the look-up. */
		count = counts.lookup(key);
		if (!count) {
			bump(error == -16 /* EBUSY */ ? STAT_MAP_BUSY : STAT_MAP_FULL);
			return;
		}
	}
	__sync_fetch_and_add(count, 1);
}

static __always_inline u32 kernel_stack(void *ctx, struct stack_key *key)
{
	long bytes;

	/* A shorter stack must not carry the tail of a longer one into the key. */
	__builtin_memset(key->kernel, 0, sizeof(key->kernel));
	bytes = bpf_get_stack(ctx, key->kernel, sizeof(key->kernel), 0);
	if (bytes < 0) {
		bump(STAT_NO_KERNEL_STACK);
		return 0;
	}
	if (bytes == sizeof(key->kernel))
		bump(STAT_TRUNCATED);
	return bytes / sizeof(u64);
}

#if USER_STACKS
static __always_inline u64 user_stack(void *ctx, struct stack_key *key)
{
	long bytes;

	__builtin_memset(key->user, 0, sizeof(key->user));
	bytes = bpf_get_stack(ctx, key->user, sizeof(key->user),
			      BPF_F_USER_STACK | BPF_F_USER_BUILD_ID);
	return bytes < 0 ? 0 : bytes / sizeof(struct user_frame);
}
#endif

int on_sample(void *ctx)
{
	int zero = 0;
	struct stack_key *key;

	if (!scope_has_current())
		return 0;
	key = scratch.lookup(&zero);
	if (!key)
		return 0;
	bump(STAT_RUNS);
	bpf_get_current_comm(key->comm, sizeof(key->comm));
	key->fault = FAULT_UNKNOWN;
	key->kernel_depth = kernel_stack(ctx, key);
#if USER_STACKS
	key->user_depth = user_stack(ctx, key);
#endif
#if FAULT_LABELS
	u32 tid = bpf_get_current_pid_tgid();
	int slot = tid % FAULT_SLOTS;
	u64 *fault = latest_fault.lookup(&slot);

	/* In user mode the latest fault is over: a label would only split the key. */
	if (fault && *fault >> 32 == tid && key->kernel_depth)
		key->fault = (u32)*fault;
#endif
	count_stack(key);
	return 0;
}

#if FAULT_LABELS
/*
 * exceptions:page_fault_user and page_fault_kernel, as raw tracepoints: these need no tracefs,
 * and unlike perf tracepoints they leave bpf_prog_active alone, so that a sample which hits
 * this program is taken and not dropped (kernel/trace/bpf_trace.c, kernel/events/core.c).
 * Arguments: address, registers, error code.
 */
int on_fault(struct bpf_raw_tracepoint_args *ctx)
{
	u32 tid = bpf_get_current_pid_tgid();
	int slot = tid % FAULT_SLOTS;
	u64 *fault = latest_fault.lookup(&slot);

	if (fault)
		*fault = (u64)tid << 32 | (ctx->args[2] & FAULT_WRITE_BIT ? FAULT_WRITE : FAULT_READ);
	return 0;
}
#endif
