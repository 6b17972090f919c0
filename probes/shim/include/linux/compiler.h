/* SPDX-License-Identifier: GPL-2.0-only */
/* Only the attribute that headers of bcc name. */
#ifndef FAULTPROF_SHIM_LINUX_COMPILER_H
#define FAULTPROF_SHIM_LINUX_COMPILER_H
#ifndef __always_inline
#define __always_inline inline __attribute__((always_inline))
#endif
#endif
