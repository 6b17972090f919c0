/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Fault: which of its three ways do_fault() takes, where the compiler has inlined them.
 *
 * mm/memory.c: without vm_ops->fault none of them; else do_read_fault() if the access is no write,
 * else do_cow_fault() if the mapping is private, else do_shared_fault().
 *
 * Knobs:
 *   OFFSET_VM_FAULT_FLAGS, OFFSET_VM_FAULT_VMA, OFFSET_VM_AREA_STRUCT_VM_FLAGS,
 *   OFFSET_VM_AREA_STRUCT_VM_OPS, OFFSET_VM_OPERATIONS_STRUCT_FAULT
 *               where the fields are
 *   FLAG_WRITE  bit of enum fault_flag
 */
#ifndef FAULTPROF_FAULT_H
#define FAULTPROF_FAULT_H

#include <linux/compiler.h>
#include <linux/types.h>

#include "access.h"

#define VM_SHARED 0x8 /* linux/mm.h, since 2.6.12 */

enum file_fault {
	FILE_NONE,
	FILE_READ,
	FILE_COW,
	FILE_SHARED,
};

static __always_inline int file_fault(u64 vmf)
{
	u64 vma = read_u64(vmf, OFFSET_VM_FAULT_VMA);
	u64 ops = read_u64(vma, OFFSET_VM_AREA_STRUCT_VM_OPS);

	if (!read_u64(ops, OFFSET_VM_OPERATIONS_STRUCT_FAULT))
		return FILE_NONE;
	if (!(read_u32(vmf, OFFSET_VM_FAULT_FLAGS) & FLAG_WRITE))
		return FILE_READ;
	return read_u64(vma, OFFSET_VM_AREA_STRUCT_VM_FLAGS) & VM_SHARED ? FILE_SHARED : FILE_COW;
}

#endif
