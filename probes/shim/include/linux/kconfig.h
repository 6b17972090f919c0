/* SPDX-License-Identifier: GPL-2.0-only */
/* What bcc asks of a kernel's configuration before it compiles anything. */
#ifndef FAULTPROF_SHIM_LINUX_KCONFIG_H
#define FAULTPROF_SHIM_LINUX_KCONFIG_H
#define CONFIG_BPF 1
#define CONFIG_BPF_SYSCALL 1
#endif
