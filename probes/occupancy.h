/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Occupancy: how many CPUs are inside a function at the same moment.
 *
 * A CPU is inside a function while the task that runs on it is, by its shadow stack. Each CPU has
 * a slot with one bit for each function, which only its own programs write: those of an entry and
 * a return, and that of a context switch, which puts in what the next task is inside of. Slots
 * share no cache line. Two readers look at all of them:
 *
 * - A timer on one CPU counts, at each tick, how many CPUs are inside each function. A tick that
 *   comes late (its CPU had interrupts off, or was not run by a hypervisor) finds its own CPU as it
 *   has been all the while, and so stands for the whole time since the one before.
 * - One call in OCCUPANCY_EVERY looks, at its entry, how many are inside the same function, itself
 *   included; at its return its duration is added to what calls took at that occupancy. Which call
 *   is drawn by lot: counting would meet the same function of a fault again and again. All calls
 *   could take the timer's latest reading instead, which costs a look-up each; but that is up to a
 *   millisecond old, the time of a thousand short faults, and says nothing about who is inside now.
 *
 * Where a kprobe's program runs, the kernel skips a perf event's program on that CPU (both count in
 * bpf_prog_active): the timer's own CPU would seem to be inside traced functions too seldom. A raw
 * tracepoint's program is not skipped. So the perf event's program only tells which timer is ours,
 * and the reading is done where the timer expires.
 *
 * Knobs:
 *   OCCUPANCY        1: all of this; 0: nothing, at no cost
 *   CPUS             one more than the highest number of a CPU
 *   OCCUPANCY_EVERY  see above; the mean, at least 1
 *   OCCUPANCY_STEP   how many occupancies have their durations added up together
 *   FUNCTIONS        see trace.bpf.c
 */
#ifndef FAULTPROF_OCCUPANCY_H
#define FAULTPROF_OCCUPANCY_H

#include <linux/compiler.h>
#include <linux/types.h>

#include "scope.h"
#include "shadow_stack.h"

#if OCCUPANCY

#define WORDS_MASK 7 /* a word of a slot; the last one is no function's */
#define SLOTS (CPUS <= 16 ? 16 : CPUS <= 256 ? 256 : 8192) /* a power of two */
#define OCCUPANCY_STEPS ((CPUS + OCCUPANCY_STEP - 1) / OCCUPANCY_STEP)
#define SQUARE_SHIFT 4 /* squares of durations are kept in units of 16 ns, so that they fit */

#if INSIDE_WORDS > WORDS_MASK
#error "too many functions for a slot"
#endif

/* Two cache lines: processors fetch them in pairs. */
struct slot {
	struct inside inside;
	u32 due_in; /* calls until one looks at all slots */
} __attribute__((aligned(128)));

struct slots {
	struct slot of_cpu[SLOTS];
};

struct ticks {
	u64 timer; /* where our timer is; 0: not known yet */
	u64 count;
	u64 first_ns;
	u64 last_ns;
};

/* Calls that met the same occupancy at their entry. */
struct met {
	u64 calls;
	u64 ns;
	u64 offcpu_ns;
	u64 squares;
};

/*
 * One element, as the verifier follows a look-up of each CPU's for each function, and gives up where
 * these are many. BPF_F_MMAPABLE (1 << 10), as it begins at a page then; else 16 bytes into a line.
 */
BPF_F_TABLE("array", int, struct slots, slots, 1, 1 << 10);
BPF_PERCPU_ARRAY(expiring, u64, 1); /* the timer that expires on this CPU */
BPF_ARRAY(ticks, struct ticks, 1);
/* Used within a tick: what each CPU is inside of, and what any is. */
BPF_ARRAY(read_slots, struct slots, 1);
BPF_ARRAY(any_slot, struct slot, 1);
/* [function][CPUs] -> ns; with 0 CPUs nothing. */
BPF_ARRAY(occupied, u64, FUNCTIONS *(CPUS + 1));
BPF_PERCPU_ARRAY(met, struct met, FUNCTIONS *OCCUPANCY_STEPS);

static __always_inline struct slots *all_slots(void)
{
	int zero = 0;

	return slots.lookup(&zero);
}

/* Return this CPU's slot; NULL on one that came later. */
static __always_inline struct slot *own_slot(void)
{
	struct slots *all = all_slots();
	u64 cpu = bpf_get_smp_processor_id();

	if (!all || cpu >= CPUS)
		return NULL;
	/* For the verifier, which must see it. */
	asm volatile("%0 &= %1" : "+r"(cpu) : "i"(SLOTS - 1));
	return &all->of_cpu[cpu];
}

static __always_inline void add_inside(struct inside *inside, u32 function)
{
	u32 word;

#pragma clang loop unroll(full)
	for (word = 0; word < INSIDE_WORDS; word++)
		inside->words[word] |= (u64)(function / 64 == word) << (function % 64);
}

static __always_inline void copy_inside(struct inside *to, struct inside *from)
{
	u32 word;

#pragma clang loop unroll(full)
	for (word = 0; word < INSIDE_WORDS; word++)
		*(volatile u64 *)&to->words[word] = from->words[word];
}

static __always_inline void clear_inside(struct inside *inside)
{
	u32 word;

#pragma clang loop unroll(full)
	for (word = 0; word < INSIDE_WORDS; word++)
		if (inside->words[word])
			*(volatile u64 *)&inside->words[word] = 0;
}

/* Return whether this call is to look at all slots. */
static __always_inline bool occupancy_is_due(struct slot *slot)
{
	if (!slot)
		return false;
	if (slot->due_in) {
		slot->due_in--;
		return false;
	}
	slot->due_in = bpf_get_prandom_u32() % (2 * OCCUPANCY_EVERY - 1);
	return true;
}

/* Return the word that has the function's bit; the verifier must see that it is in the slot. */
static __always_inline u64 *word_of(struct slot *slot, u32 function)
{
	u64 word = function / 64;

	asm volatile("%0 &= %1" : "+r"(word) : "i"(WORDS_MASK));
	return &slot->inside.words[word];
}

static __always_inline u64 is_inside(u64 *word, u32 function)
{
	return *(volatile u64 *)word >> (function % 64) & 1;
}

static __always_inline u32 cpus_inside(struct slots *all, u32 function)
{
	u64 *word = word_of(&all->of_cpu[0], function);
	u32 count = 0, cpu;

	_Pragma("clang loop unroll(disable)")
	for (cpu = 0; cpu < CPUS; cpu++)
		count += is_inside(word + cpu * (sizeof(struct slot) / sizeof(u64)), function);
	return count;
}

/* Return how many CPUs are inside a function that this CPU's task enters now. */
static __always_inline u32 occupancy_at_entry(struct slot *own, u32 function)
{
	struct slots *all = all_slots();
	u32 count = 0;

	if (all)
		count = cpus_inside(all, function);
	return count + 1 - is_inside(word_of(own, function), function);
}

/* As in trace.bpf.c, what is written here is one function's, whose program runs once on a CPU. */
static __always_inline void add_met(u32 function, u32 occupancy, u64 ns, u64 offcpu_ns)
{
	u32 index = function * OCCUPANCY_STEPS + (occupancy - 1) / OCCUPANCY_STEP;
	struct met *met_so_far = met.lookup((int *)&index);

	if (!occupancy || !met_so_far)
		return;
	met_so_far->calls++;
	met_so_far->ns += ns;
	met_so_far->offcpu_ns += offcpu_ns;
	met_so_far->squares += (ns >> SQUARE_SHIFT) * (ns >> SQUARE_SHIFT);
}

/*
 * Copy what all CPUs are inside of, and gather what any is. What is counted must be one look: if it
 * were looked for what any is inside of and again for how many, who leaves in between would not
 * count, and who enters would only where somebody else is inside.
 */
static __always_inline void read_once(struct slots *seen, struct inside *any, struct slots *all)
{
	u32 cpu, word;
	u64 functions;

	clear_inside(any);
	_Pragma("clang loop unroll(disable)")
	for (cpu = 0; cpu < CPUS; cpu++) {
#pragma clang loop unroll(full)
		for (word = 0; word < INSIDE_WORDS; word++) {
			functions = *(volatile u64 *)&all->of_cpu[cpu].inside.words[word];
			seen->of_cpu[cpu].inside.words[word] = functions;
			any->words[word] |= functions;
		}
	}
}

static __always_inline void count_function(struct slots *seen, u32 function, u64 ns)
{
	int key = function * (CPUS + 1) + cpus_inside(seen, function);
	u64 *so_far = occupied.lookup(&key);

	if (so_far)
		*so_far += ns;
}

/* What is so now counts for the time since the former reading; `ns` is that. */
static __always_inline void read_all_slots(u64 ns)
{
	int zero = 0;
	struct slot *any = any_slot.lookup(&zero);
	struct slots *all = all_slots(), *seen = read_slots.lookup(&zero);
	u32 function;

	if (!any || !all || !seen)
		return;
	read_once(seen, &any->inside, all);
	_Pragma("clang loop unroll(disable)")
	for (function = 0; function < FUNCTIONS; function++)
		if (is_inside(word_of(any, function), function))
			count_function(seen, function, ns);
}

/* hrtimer_expire_entry(timer, now) */
int on_timer(struct bpf_raw_tracepoint_args *ctx)
{
	u64 timer = ctx->args[0], *expires, now;
	int zero = 0;
	struct ticks *state = ticks.lookup(&zero);
	struct scope_state *scope = scope_state.lookup(&zero);

	expires = expiring.lookup(&zero);
	if (!state || !expires || !scope)
		return 0;
	*expires = timer;
	if (state->timer != timer || !scope->started)
		return 0;
	now = bpf_ktime_get_ns();
	if (state->count++)
		read_all_slots(now - state->last_ns);
	else
		state->first_ns = now;
	state->last_ns = now;
	return 0;
}

/* The perf event's: called by the timer that has just expired on this CPU. */
int on_tick(void *ctx)
{
	int zero = 0;
	struct ticks *state = ticks.lookup(&zero);
	u64 *timer = expiring.lookup(&zero);

	if (state && timer && !state->timer)
		state->timer = *timer;
	return 0;
}

#else

struct slot;

static __always_inline struct slot *own_slot(void)
{
	return NULL;
}

#endif
#endif
