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
	char pci[TOPOLOGY_PCI_BYTES]; /* of the board, with all of its partitions */
	uint32_t minor;		      /* of the render node; 0: of another, or not known */
	uint64_t client; /* the same for descriptors of one open file */
	uint64_t vram_bytes;
};

/* Of one descriptor. 0; -ENODATA: it is not amdgpu's, or does not tell. Pure. */
int fdinfo_parse(const char *text, struct fdinfo *ret);

/* The same of the descriptor of that number in a folder of them. */
int fdinfo_read_one(int dir, int fd, struct fdinfo *ret);

/*
 * True if it is of that GPU. Partitions of a board have render nodes of their own; any other file of the
 * board counts for its first one.
 */
bool fdinfo_is_of(const struct fdinfo *info, const struct topology_node *gpu);

/*
 * Opens the folder of a process's descriptors: of the first thread that lists any. They have them
 * together, but of one that has ended, as the main thread may have long before its process, nothing
 * is listed. -ENOENT: it has none; -ESRCH: it is gone; -errno.
 */
int fdinfo_open(pid_t process);

typedef void fdinfo_adder(int fd, const struct fdinfo *info, void *arg);

/*
 * Reads the next descriptors of such a folder, a short time's worth, and calls `add` for those of
 * amdgpu's. Returns how many there were, 0 at the end, or -errno: -ENOENT: the thread has ended.
 */
int fdinfo_add_some(int dir, fdinfo_adder *add, void *arg);

/*
 * Bytes of the GPU that files of the process have, and `kept`, of which there are descriptors of our
 * own; -errno. However many there are.
 */
int fdinfo_read(pid_t process, const int *kept, uint32_t nkept, const struct topology_node *gpu,
		uint64_t *ret_bytes);

#endif
