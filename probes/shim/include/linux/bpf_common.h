/* SPDX-License-Identifier: GPL-2.0-only */
/* Instruction macros of classic BPF; bcc's bpf.h includes it, C programs need none. */
#ifndef FAULTPROF_SHIM_LINUX_BPF_COMMON_H
#define FAULTPROF_SHIM_LINUX_BPF_COMMON_H
#endif
