/* SPDX-License-Identifier: Apache-2.0 */
/* PID namespaces: which one is ours, and which of our processes is pid N of another one. */
#ifndef ALLOT_BASE_PIDNS_H
#define ALLOT_BASE_PIDNS_H

#include <stddef.h>
#include <stdint.h>

/* Inode of the first one, in which drivers number processes: the kernel's PROC_PID_INIT_INO. */
#define PIDNS_FIRST UINT64_C(0xeffffffc)

/* Inode of this process's PID namespace, 0 when /proc does not say. */
uint64_t pidns_self(void);

struct pidns_query {
	uint64_t pidns;
	uint32_t pid;      /* in that namespace */
	uint32_t host_pid; /* out: in ours, 0 when not found */
};

/*
 * Answers all queries with one walk of /proc: a process is the one whose namespace is `pidns`
 * and whose innermost pid (last word of NSpid in its status) is `pid`.
 */
void pidns_translate(struct pidns_query *queries, size_t n);

#endif
