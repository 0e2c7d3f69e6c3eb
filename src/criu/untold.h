/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/*
 * Addresses of the GPU at which a file of a render node has its buffers, on a kernel that does not
 * tell them (before 6.18). A tenant's process has noted them (noted.h). At the end of the dump, when it is
 * known what /dev/kfd has in the same address space, the kernel is asked whether these are taken
 * and no others (occupied.h): else there is no dump.
 */
#ifndef ALLOT_CRIU_UNTOLD_H
#define ALLOT_CRIU_UNTOLD_H

#include <stdint.h>

#include "amd/gem_addresses.h"
#include "criu/dump.h"

/* The notes of a file, by handle. */
struct untold {
	struct amd_address *list;
	uint32_t n;
	uint32_t left; /* not taken yet */
};

#define UNTOLD_NONSENSE "what its process noted of its addresses makes no sense"

/* By CRIU's descriptor. -errno: untold_words. */
int untold_read(int fd, struct untold *ret);
void untold_done(struct untold *untold); /* takes a zeroed one */
const char *untold_words(int error);

/* Moves the notes of that holder's buffer, of `bytes` bytes, to the catalog. -EPROTO, -ENOMEM. */
int untold_take(struct dump *dump, struct untold *untold, uint32_t holder, uint64_t bytes);

/* Checks that the catalog and /dev/kfd's dump describe all of the file. Reports its errors. */
int untold_check(const struct dump *dump, uint32_t file);

#endif
