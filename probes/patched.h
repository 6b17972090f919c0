/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Patched: constants that user space puts into each copy of a program that it loads.
 *
 * Where a program is a template, a copy is loaded for every probe, with the function's number and
 * what is special about it in the place of two placeholders. Compiling a program for each would take
 * clang 0.2 s apiece, looking these up at each hit 20 ns. faultprof/bpf/bytecode.py has the same
 * placeholders.
 */
#ifndef FAULTPROF_PATCHED_H
#define FAULTPROF_PATCHED_H

#include <linux/compiler.h>
#include <linux/types.h>

#define FUNCTION_NUMBER patched_constant(0x0fa70001)
#define FUNCTION_WHAT patched_constant(0x0fa70002)

static __always_inline u64 patched_constant(u32 placeholder)
{
	u64 value;

	/* Opaque to the compiler, which must not compute with the placeholder. */
	asm volatile("%0 = %1" : "=r"(value) : "i"(placeholder));
	return value;
}

#endif
