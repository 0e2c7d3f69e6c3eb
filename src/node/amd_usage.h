/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A process's memory on AMD GPUs, by the kernel's own figures: KFD's for the process, and those of its
 * open files of render nodes. A process may have very many descriptors, so they are read in slices
 * (node/process/reading.h), and those that are known to be of render nodes are read again by themselves.
 * For all threads.
 */
#ifndef ALLOT_NODE_AMD_USAGE_H
#define ALLOT_NODE_AMD_USAGE_H

#include <stdint.h>
#include <sys/types.h>

#include "amd/topology.h"
#include "ledger/policy.h"

struct amd_usage {
	uint32_t n;
	struct {
		uint32_t node; /* index in the topology */
		uint64_t bytes; /* the larger of both figures, since one contains some of the other */
	} gpu[POLICY_DEVICES]; /* of which the kernel tells something */
};

/*
 * Reads the process's descriptors as far as its user's budget goes. Returns 0; -EAGAIN: some are
 * not read yet, and *ret has the present findings; -errno.
 */
int amd_usage_search(const struct topology *topology, pid_t pid, struct amd_usage *ret);

/* The same of files that are known from a search already, if there was one. */
int amd_usage_read(const struct topology *topology, pid_t pid, struct amd_usage *ret);

#endif
