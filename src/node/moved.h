/* SPDX-License-Identifier: Apache-2.0 */
/* Where the memory of a swappable tenant is. */
#ifndef ALLOT_NODE_MOVED_H
#define ALLOT_NODE_MOVED_H

#include <stdbool.h>
#include <stdint.h>

#include "node/tenants.h"

/* A tenant's movable bytes on all devices, its evicted bytes, and its waiting threads. */
struct moved {
	uint64_t resident_bytes;
	uint64_t host_bytes, file_bytes; /* away, in memory of the host and in files */
	uint64_t waiting;
	uint64_t out_ns, back_ns; /* how long it takes; 0: not known yet */
};

/* Of a tenant that could be read. */
struct moved moved_of(const struct tenant_entry *tenant);

/*
 * True if it waits, and in the last 3 s a tenant that was to be evicted had no room on the host.
 * Reads a file if it waits.
 */
bool moved_waits_for_host(const struct tenant_entry *tenant, const struct moved *moved);

#endif
