/* SPDX-License-Identifier: GPL-2.0-only */
/* bcc brings its own copy of what it needs of this header. */
#ifndef FAULTPROF_SHIM_LINUX_BPF_H
#define FAULTPROF_SHIM_LINUX_BPF_H
#endif
