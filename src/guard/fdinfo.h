/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the kernel says of open render nodes, in /proc/<pid>/fdinfo: memory by handles of theirs
 * (GEM_CREATE) is in no other figure of a process. Mapped memory of /dev/kfd is in it as well, and
 * what was imported; so it is no amount to be added to KFD's figure, but one to compare it with.
 */
#ifndef ALLOT_GUARD_FDINFO_H
#define ALLOT_GUARD_FDINFO_H

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

/* Bytes of the GPU at that place that files of the process have; -errno. */
int fdinfo_read(pid_t process, const char *pci, uint64_t *ret_bytes);

#endif
