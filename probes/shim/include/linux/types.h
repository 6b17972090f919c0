/* SPDX-License-Identifier: GPL-2.0-only */
/* The integer types that bcc's helpers and our programs use. */
#ifndef FAULTPROF_SHIM_LINUX_TYPES_H
#define FAULTPROF_SHIM_LINUX_TYPES_H

typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;
typedef signed char s8;
typedef short s16;
typedef int s32;
typedef long long s64;

typedef u8 __u8;
typedef u16 __u16;
typedef u32 __u32;
typedef u64 __u64;
typedef s8 __s8;
typedef s16 __s16;
typedef s32 __s32;
typedef s64 __s64;

typedef u16 __be16;
typedef u32 __be32;
typedef u64 __be64;
typedef u32 __wsum;

typedef u64 __aligned_u64 __attribute__((aligned(8)));

typedef _Bool bool;
typedef unsigned long size_t;
typedef unsigned long uintptr_t;
typedef int pid_t;

#define true 1
#define false 0
#ifndef NULL
#define NULL ((void *)0)
#endif

#endif
