// SPDX-License-Identifier: GPL-2.0-only
/*
 * Burns a known time at a function's entry, in whatever calls it: a dose, for one program only.
 *
 * Knobs:
 *   COMMAND    first four letters of the program's name
 *   MAX_TURNS  most readings of the clock; a dose that takes more is not burnt to its end
 */
#include <linux/compiler.h>
#include <linux/types.h>

BPF_ARRAY(dose_ns, u64, 1);
BPF_ARRAY(burnt, u64, 1); /* how often a whole dose was */

int hit_template(void *ctx)
{
	int zero = 0, turn;
	u64 *dose = dose_ns.lookup(&zero), *count = burnt.lookup(&zero), start, limit;
	char command[16];

	bpf_get_current_comm(command, sizeof(command));
	if (!dose || !count || !*dose || *(u32 *)command != COMMAND)
		return 0;
	limit = *dose;
	start = bpf_ktime_get_ns();
	_Pragma("clang loop unroll(disable)")
	for (turn = 0; turn < MAX_TURNS; turn++) {
		if (bpf_ktime_get_ns() - start >= limit) {
			__sync_fetch_and_add(count, 1);
			break;
		}
	}
	return 0;
}
