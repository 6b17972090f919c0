/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Access: the one place that reads a probed function's arguments and a kernel structure's fields.
 *
 * Registers stand where the architecture's user interface puts them (struct pt_regs of x86,
 * struct user_pt_regs of arm64, asm/ptrace.h): these layouts never change. The offset of a field
 * does change between kernels, and always comes in as a knob, read from the running kernel's BTF.
 */
#ifndef FAULTPROF_ACCESS_H
#define FAULTPROF_ACCESS_H

#include <linux/compiler.h>
#include <linux/types.h>

#if defined(__x86_64__) || defined(__TARGET_ARCH_x86)

struct probe_registers {
	u64 r15, r14, r13, r12, bp, bx, r11, r10, r9, r8, ax, cx, dx, si, di;
	u64 orig_ax, ip, cs, flags, sp, ss;
};

#define REGISTER_ARGUMENT_0(regs) ((regs)->di)
#define REGISTER_ARGUMENT_1(regs) ((regs)->si)
#define REGISTER_ARGUMENT_2(regs) ((regs)->dx)
#define REGISTER_ARGUMENT_3(regs) ((regs)->cx)
#define REGISTER_ARGUMENT_4(regs) ((regs)->r8)
#define REGISTER_RESULT(regs) ((regs)->ax)
#define REGISTER_STACK(regs) ((regs)->sp)
#define REGISTER_INSTRUCTION(regs) ((regs)->ip)
#define INTERRUPTS_ON(regs) (((regs)->flags & 0x200) != 0) /* X86_EFLAGS_IF */

#elif defined(__aarch64__) || defined(__TARGET_ARCH_arm64)

struct probe_registers {
	u64 regs[31];
	u64 sp, pc, pstate;
};

#define REGISTER_ARGUMENT_0(regs) ((regs)->regs[0])
#define REGISTER_ARGUMENT_1(regs) ((regs)->regs[1])
#define REGISTER_ARGUMENT_2(regs) ((regs)->regs[2])
#define REGISTER_ARGUMENT_3(regs) ((regs)->regs[3])
#define REGISTER_ARGUMENT_4(regs) ((regs)->regs[4])
#define REGISTER_RESULT(regs) ((regs)->regs[0])
#define REGISTER_STACK(regs) ((regs)->sp)
#define REGISTER_INSTRUCTION(regs) ((regs)->pc)
#define INTERRUPTS_ON(regs) (((regs)->pstate & 0x80) == 0) /* PSR_I_BIT masks them */

#else
#error "no register layout for this architecture"
#endif

/*
 * How a probe got here decides where its arguments are: a kprobe has registers, an fentry program
 * an array of the arguments. Both are constants once a program is compiled.
 */
enum probe_kind {
	PROBE_KPROBE,
	PROBE_FENTRY,
};

static __always_inline u64 probe_argument(void *ctx, int kind, int index)
{
	struct probe_registers *regs = ctx;
	u64 *arguments = ctx;

	if (kind == PROBE_FENTRY)
		return arguments[index];
	switch (index) {
	case 0: return REGISTER_ARGUMENT_0(regs);
	case 1: return REGISTER_ARGUMENT_1(regs);
	case 2: return REGISTER_ARGUMENT_2(regs);
	case 3: return REGISTER_ARGUMENT_3(regs);
	default: return REGISTER_ARGUMENT_4(regs);
	}
}

/* bpf_get_func_ret(), Linux 5.17; older headers of bcc do not know it. */
static long (*get_function_result)(void *ctx, u64 *value) = (void *)184;

/* A probed function's return value. */
static __always_inline u64 probe_result(void *ctx, int kind)
{
	struct probe_registers *regs = ctx;
	u64 value = 0;

	if (kind == PROBE_KPROBE)
		return REGISTER_RESULT(regs);
	get_function_result(ctx, &value);
	return value;
}

/* bpf_get_attach_cookie(), Linux 5.15; older headers of bcc do not know it. */
static u64 (*get_attach_cookie)(void *ctx) = (void *)174;

/* What a program that is attached in many places was given to tell them apart. */
static __always_inline u64 probe_cookie(void *ctx)
{
	return get_attach_cookie(ctx);
}

/*
 * Where a kprobe found the task's stack: at a function's entry its own frame's upper end. An
 * fentry program has no registers; its context lies in the trampoline's frame, between the
 * caller's and the function's own. Either way a deeper call has a lower value.
 */
static __always_inline u64 probe_stack(struct probe_registers *regs)
{
	return REGISTER_STACK(regs);
}

/* Where the code stands that a kprobe or a timer has interrupted; either has registers. */
static __always_inline u64 probe_instruction(struct probe_registers *regs)
{
	return REGISTER_INSTRUCTION(regs);
}

/* Whether the probed code runs with interrupts on; of a kprobe only, others have no registers. */
static __always_inline bool probe_interrupts_on(struct probe_registers *regs)
{
	return INTERRUPTS_ON(regs);
}

/* Read a field of a kernel structure; 0 when the address is bad. */
static __always_inline u64 read_u64(u64 base, u32 offset)
{
	u64 value = 0;

	bpf_probe_read_kernel(&value, sizeof(value), (void *)(base + offset));
	return value;
}

static __always_inline u32 read_u32(u64 base, u32 offset)
{
	u32 value = 0;

	bpf_probe_read_kernel(&value, sizeof(value), (void *)(base + offset));
	return value;
}

#endif
