/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A process that was made again from an image, with what it had on AMD GPUs. The kernel has given it
 * that by the same handles, but a dma-buf is another one by its inode, and that is what memory which
 * goes from process to process is known by.
 */
#ifndef ALLOT_GUEST_AMD_MEMORY_AGAIN_H
#define ALLOT_GUEST_AMD_MEMORY_AGAIN_H

#include "guest/core/guest.h"

/* Before that: bytes of dma-bufs that have no handle any more, by which they could be found again. */
uint64_t amd_again_obstacle(struct guest *guest);

/* After that, while nobody calls: looks at what has changed. Needs the process's slot. */
void amd_again(struct guest *guest);

#endif
