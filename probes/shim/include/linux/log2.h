/* SPDX-License-Identifier: GPL-2.0-only */
/* bcc sizes perf buffers with this. */
#ifndef FAULTPROF_SHIM_LINUX_LOG2_H
#define FAULTPROF_SHIM_LINUX_LOG2_H
#define roundup_pow_of_two(n) (1UL << (64 - __builtin_clzl((n) - 1)))
#endif
