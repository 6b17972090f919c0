/* SPDX-License-Identifier: GPL-2.0-only */
/* No program may ask for a version: features are probed, not numbered (DESIGN.md, 4). */
#ifndef FAULTPROF_SHIM_LINUX_VERSION_H
#define FAULTPROF_SHIM_LINUX_VERSION_H
#define LINUX_VERSION_CODE 0
#define KERNEL_VERSION(a, b, c) (((a) << 16) + ((b) << 8) + (c))
#endif
