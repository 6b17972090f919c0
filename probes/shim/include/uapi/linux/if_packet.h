/* SPDX-License-Identifier: GPL-2.0-only */
/* Included by bcc's helpers for packet programs; we have none. */
#ifndef FAULTPROF_SHIM_UAPI_LINUX_IF_PACKET_H
#define FAULTPROF_SHIM_UAPI_LINUX_IF_PACKET_H
#endif
