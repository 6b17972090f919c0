/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Padding: makes a probe cost more than it does, by a wait of known length at each hit.
 *
 * What a command does under probes of two and four times their cost tells what it would do under
 * probes of none. User space writes how long each function's probes wait, and reads how long all
 * waited together.
 *
 * Knobs:
 *   PAD        1: probes can be padded
 *   FUNCTIONS  how many functions there are
 */
#ifndef FAULTPROF_PAD_H
#define FAULTPROF_PAD_H

#include <linux/compiler.h>
#include <linux/types.h>

#if PAD

/* Reads of the clock in one wait: 16 ns apiece at the least, and probes cost no 10 us. */
#define PAD_READS 2048

BPF_ARRAY(pad_ns, u64, FUNCTIONS);
BPF_PERCPU_ARRAY(padded_ns, u64, 1);

static __always_inline void pad(u32 function)
{
	u64 *wanted = pad_ns.lookup(&function), *sum, ns, start, now;
	int zero = 0, i;

	if (!wanted || !*wanted)
		return;
	ns = *wanted;
	start = now = bpf_ktime_get_ns();
#pragma clang loop unroll(disable)
	for (i = 0; i < PAD_READS; i++) {
		if (now - start >= ns)
			break;
		now = bpf_ktime_get_ns();
	}
	sum = padded_ns.lookup(&zero);
	if (sum)
		__sync_fetch_and_add(sum, now - start);
}

#else

static __always_inline void pad(u32 function)
{
}

#endif
#endif
