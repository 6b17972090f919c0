/* SPDX-License-Identifier: GPL-2.0-only */
/* Included by bcc's helpers; page sizes come in as knobs where a program needs them. */
#ifndef FAULTPROF_SHIM_ASM_PAGE_H
#define FAULTPROF_SHIM_ASM_PAGE_H
#endif
