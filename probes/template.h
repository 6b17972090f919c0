/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Template: programs of which user space loads a copy for each probe, which knows what it is for
 * (patched.h).
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

#include "access.h"
#include "patched.h"

#if FENTRY

KFUNC_PROBE(template)
{
	return enter(ctx, PROBE_FENTRY, FUNCTION_WHAT);
}

KRETFUNC_PROBE(template)
{
	return leave(ctx, PROBE_FENTRY, FUNCTION_WHAT);
}

#endif
#if KPROBE

int enter_template(void *ctx)
{
	return enter(ctx, PROBE_KPROBE, FUNCTION_WHAT);
}

int leave_template(void *ctx)
{
	return leave(ctx, PROBE_KPROBE, FUNCTION_WHAT);
}

#endif
#endif
