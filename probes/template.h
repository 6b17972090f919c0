/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Template: programs of which user space loads a copy for each probe, with a constant in the place
 * of a placeholder. Compiling a program for each would take clang 0.2 s apiece, looking up what a
 * probe is for 20 ns a hit.
 *
 * Before this is included stand
 *   static __always_inline int enter(void *ctx, int kind, u32 what);
 *   static __always_inline int leave(void *ctx, int kind, u32 what);
 *
 * Knobs:
 *   FENTRY  1: fentry and fexit programs
 *   KPROBE  1: kprobe and kretprobe programs
 */
#ifndef FAULTPROF_TEMPLATE_H
#define FAULTPROF_TEMPLATE_H

#include <linux/compiler.h>
#include <linux/types.h>

#include "access.h"

static __always_inline u64 probed_what(void)
{
	u64 value;

	/* Opaque to the compiler, which must not compute with the placeholder. */
	asm volatile("%0 = %1" : "=r"(value) : "i"(0x0fa70002));
	return value;
}

#if FENTRY

KFUNC_PROBE(template)
{
	return enter(ctx, PROBE_FENTRY, probed_what());
}

KRETFUNC_PROBE(template)
{
	return leave(ctx, PROBE_FENTRY, probed_what());
}

#endif
#if KPROBE

int enter_template(void *ctx)
{
	return enter(ctx, PROBE_KPROBE, probed_what());
}

int leave_template(void *ctx)
{
	return leave(ctx, PROBE_KPROBE, probed_what());
}

#endif
#endif
