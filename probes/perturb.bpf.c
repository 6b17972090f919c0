// SPDX-License-Identifier: GPL-2.0-only
/*
 * Perturbation: a busy wait at chosen functions, in recorded tasks only.
 *
 * The wait is bounded in every direction: by the loops, by a budget for the whole run, and by a
 * point in time after which none begins, should user space have lost sight of it. What runs in an
 * interrupt, or with interrupts off as far as the probe can tell, is never held up.
 *
 * The same programs run at every dose, also at none: what they cost themselves is in all of them.
 *
 * Knobs:
 *   SCOPE_ALL                 see scope.h
 *   FENTRY                    1: templates of fentry and fexit programs
 *   KPROBE                    1: templates of kprobe and kretprobe programs
 *   FUNCTIONS                 how many functions there are
 *   COARSE                    bound of the coarse loop; the longest delay decides
 *   OFFSET_TASK_STRUCT_STACK  where the field is
 */
#include <linux/compiler.h>
#include <linux/types.h>

#include "scope.h"
#include "access.h"
#include "patched.h"

#define MAX_CPUS 8192
#define MAX_TASKS 16384
#define STACK_BYTES 65536 /* the largest kernel stack in use */
#define FINE 1024 /* bound of the fine loop: more reads than fit into FINE_NS or two coarse steps */
#define FINE_NS 8000 /* up to here a coarse step might be too long already */
#define NO_UNROLL _Pragma("clang loop unroll(disable)")

/* Written by user space before each run. */
struct dose {
	u64 delay_ns;  /* 0: only count */
	u64 budget_ns; /* of all delays together */
	u64 until_ns;  /* no delay begins later; bpf_ktime_get_ns() */
	u32 every;     /* of so many hits on a CPU, one is due */
	u32 jitter;    /* 1: between none and twice the delay, all alike */
	u32 some_cpus; /* 1: only on those marked in cpus */
	u32 padding;
};

/* Per function; faultprof/capture/perturbing.py has the same order. */
struct counts {
	u64 hits;
	u64 due;
	u64 delayed;
	u64 delayed_ns;
	u64 interrupts_off; /* not held up, nor are these: */
	u64 in_interrupt;
	u64 over_budget;
	u64 too_late;
	u64 cut_short; /* held up for less than it should have been */
	u64 here;      /* see stack_here() */
};

/* Of one task: how many hits were due, and when the first and the last. */
struct task_hits {
	u64 due;
	u64 first_ns;
	u64 last_ns;
};

BPF_ARRAY(dose, struct dose, 1);
BPF_ARRAY(spent_ns, u64, 1);
BPF_ARRAY(cpus, u32, MAX_CPUS);
BPF_PERCPU_ARRAY(counts, struct counts, FUNCTIONS);
BPF_HASH(due_of_task, u32, struct task_hits, MAX_TASKS);

/* fentry programs can be preempted, and another task's then counts on the same CPU. */
static __always_inline void add(u64 *count, u64 amount)
{
	__sync_fetch_and_add(count, amount);
}

/* Where the probe found the task's stack; see trace.bpf.c */
static __always_inline u64 stack_here(struct counts *of_function, void *ctx, int kind)
{
	if (kind == PROBE_KPROBE)
		return probe_stack(ctx);
	*(volatile u64 *)&of_function->here = (u64)ctx;
	return *(volatile u64 *)&of_function->here;
}

static __always_inline bool in_interrupt(struct counts *of_function, void *ctx, int kind)
{
	u64 base = read_u64(bpf_get_current_task(), OFFSET_TASK_STRUCT_STACK);

	return stack_here(of_function, ctx, kind) - base >= STACK_BYTES;
}

static __always_inline bool is_chosen_cpu(struct dose *given)
{
	u32 cpu = bpf_get_smp_processor_id(), *marked;

	if (!given->some_cpus)
		return true;
	marked = cpus.lookup(&cpu);
	return marked && *marked;
}

static __always_inline void count_task(void)
{
	u32 task = bpf_get_current_pid_tgid();
	struct task_hits *hits = due_of_task.lookup(&task), fresh = {};
	u64 now = bpf_ktime_get_ns();

	if (hits) {
		hits->due++;
		hits->last_ns = now;
	} else {
		fresh.due = 1;
		fresh.first_ns = fresh.last_ns = now;
		due_of_task.update(&task, &fresh);
	}
}

/*
 * Read the clock many times between two looks at it: the verifier follows each round of a loop, and
 * has patience for a million instructions.
 */
static __always_inline u64 coarse_step(void)
{
	int i;

#pragma clang loop unroll(full)
	for (i = 0; i < 31; i++)
		bpf_ktime_get_ns();
	return bpf_ktime_get_ns();
}

/* Wait until so many ns after the start, and return how many it became. */
static __always_inline u64 wait_ns(u64 start, u64 ns)
{
	u64 now = start, step = 0, before;
	u32 i;

	/* Coarsely while there are two steps left to go: a step must not overshoot. */
	NO_UNROLL
	for (i = 0; i < COARSE; i++) {
		if (ns <= FINE_NS || now - start + 2 * step >= ns)
			break;
		before = now;
		now = coarse_step();
		step = now - before;
	}
	NO_UNROLL
	for (i = 0; i < FINE; i++) {
		if (now - start >= ns)
			break;
		now = bpf_ktime_get_ns();
	}
	return now - start;
}

static __always_inline void delay(struct dose *given, struct counts *of_function)
{
	/* From here on: what is to be looked at before the wait is a part of the delay. */
	u64 start = bpf_ktime_get_ns(), ns = given->delay_ns, waited, *spent;
	int zero = 0;

	spent = spent_ns.lookup(&zero);
	if (!spent)
		return;
	if (*spent > given->budget_ns) {
		add(&of_function->over_budget, 1);
		return;
	}
	if (start > given->until_ns) {
		add(&of_function->too_late, 1);
		return;
	}
	if (given->jitter)
		ns = (2 * ns * (u64)bpf_get_prandom_u32()) >> 32;
	waited = wait_ns(start, ns);
	if (waited < ns)
		add(&of_function->cut_short, 1);
	add(spent, waited);
	add(&of_function->delayed, 1);
	add(&of_function->delayed_ns, waited);
}

static __always_inline int perturb(void *ctx, int kind, u32 function)
{
	struct counts *of_function = counts.lookup(&function);
	int zero = 0;
	struct dose *given = dose.lookup(&zero);

	if (!of_function || !given || !scope_has_current())
		return 0;
	if (in_interrupt(of_function, ctx, kind)) {
		add(&of_function->in_interrupt, 1);
		return 0;
	}
	add(&of_function->hits, 1);
	if (kind == PROBE_KPROBE && !probe_interrupts_on(ctx)) {
		add(&of_function->interrupts_off, 1);
		return 0;
	}
	if (!is_chosen_cpu(given))
		return 0;
	if (given->every > 1 && of_function->hits % given->every)
		return 0;
	add(&of_function->due, 1);
	count_task();
	if (given->delay_ns)
		delay(given, of_function);
	return 0;
}

#if FENTRY

KFUNC_PROBE(template)
{
	return perturb(ctx, PROBE_FENTRY, FUNCTION_NUMBER);
}

KRETFUNC_PROBE(template)
{
	return perturb(ctx, PROBE_FENTRY, FUNCTION_NUMBER);
}

#endif
#if KPROBE

int enter_template(void *ctx)
{
	return perturb(ctx, PROBE_KPROBE, FUNCTION_NUMBER);
}

int leave_template(void *ctx)
{
	return perturb(ctx, PROBE_KPROBE, FUNCTION_NUMBER);
}

#endif
