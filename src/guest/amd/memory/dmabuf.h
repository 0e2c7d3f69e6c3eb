/* SPDX-License-Identifier: Apache-2.0 */
/* Identifies memory that goes from process to process. */
#ifndef ALLOT_GUEST_AMD_MEMORY_DMABUF_H
#define ALLOT_GUEST_AMD_MEMORY_DMABUF_H

#include <stdint.h>

#include "ledger/shared.h"

/* Shared memory: its name in the tenant's table and, of a dma-buf, its inode. */
struct dmabuf_name {
	struct shared_key key;
	uint64_t inode; /* 0: not a dma-buf */
};

/* Of a descriptor. Keeps errno. -EBADF. */
int dmabuf_name(int fd, struct dmabuf_name *ret);

#endif
