/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A process's memory by its open render nodes, as the kernel tells it in /proc/<pid>/fdinfo. Memory
 * by handles of render nodes (GEM_CREATE) is in no other figure of a process.
 *
 * The amount also contains mapped memory of /dev/kfd and imported memory. So it is not to be added
 * to KFD's figure, only to be compared with it.
 */
#ifndef ALLOT_GUARD_FDINFO_H
#define ALLOT_GUARD_FDINFO_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "amd/topology.h"

struct fdinfo {
	char pci[TOPOLOGY_PCI_BYTES];
	uint64_t client; /* the same for descriptors of one open file */
	uint64_t vram_bytes;
};

/* Of one descriptor. 0; -ENODATA: it is not amdgpu's, or does not tell. Pure. */
int fdinfo_parse(const char *text, struct fdinfo *ret);

/*
 * Bytes of the GPU at that place that files of the process have, and `kept`, of which there are
 * descriptors of our own; -errno.
 */
int fdinfo_read(pid_t process, const int *kept, uint32_t nkept, const char *pci,
		uint64_t *ret_bytes);

/* Whether it has an open file of any GPU. */
bool fdinfo_is_any(pid_t process);

#endif
