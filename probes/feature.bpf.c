// SPDX-License-Identifier: GPL-2.0-only
/*
 * Feature: do bcc and this kernel get along? The least program of each kind that faultprof uses.
 *
 * `faultprof doctor` compiles and loads it, attaches the probe, and frees it all at once; nothing
 * is measured with it.
 *
 * Knobs:
 *   FENTRY  1: also a program at the entry of handle_mm_fault()
 */
#include <linux/compiler.h>
#include <linux/types.h>

BPF_ARRAY(hits, u64, 1);

static __always_inline void count_hit(void)
{
	int only = 0;
	u64 *value = hits.lookup(&only);

	if (value)
		__sync_fetch_and_add(value, 1);
}

int on_sample(void *ctx)
{
	count_hit();
	return 0;
}

#if FENTRY
KFUNC_PROBE(handle_mm_fault)
{
	count_hit();
	return 0;
}
#endif
