/* SPDX-License-Identifier: GPL-2.0-only */
/* bcc includes it before everything else; nothing in it is needed. */
#ifndef FAULTPROF_SHIM_LINUX_COMPILER_TYPES_H
#define FAULTPROF_SHIM_LINUX_COMPILER_TYPES_H
#endif
