/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * A restore: the catalog, which every process has its own copy of, and what they have done of it,
 * which is in memory that they share.
 *
 * A file's buffers are made in two steps. First it creates what it owns, and publishes the dma-bufs
 * of what others hold as well; then, when all that it imports has been published, it imports. Who
 * comes too early for the second step asks CRIU to be called again, and is woken (waiters.h). Where
 * CRIU cannot do that (none up to 4.2 can), the first process that comes takes the first step for all files,
 * and nobody comes too early.
 *
 * Between calls descriptors are in CRIU's store: none of them can be in the way of a number that a
 * process wants for a file of its own.
 */
#ifndef ALLOT_CRIU_RESTORE_H
#define ALLOT_CRIU_RESTORE_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "criu/catalog.h"
#include "criu/content.h"
#include "criu/waiters.h"

struct restore_file {
	struct published file; /* when the first step is done */
	struct waiter waiter;
};

struct restore_shared {
	pthread_mutex_t first; /* of all files, where it is one process that takes it */
	/* Three lists, as in the catalog. */
	struct restore_file *files;
	struct published *buffers; /* their dma-bufs */
	struct waiter *dmabufs;
};

struct restore {
	struct catalog catalog;
	struct contents_seal seal;
	bool retries; /* CRIU calls again */
	struct restore_shared *shared;
	bool *own; /* of each file: this process has opened it */
};

/* Before there are processes. Says what is wrong with the image; without one there is nothing. */
int restore_open(struct restore *restore, bool retries);

/* The file or dma-buf with that name of CRIU's, or -ENOENT. */
int restore_find_file(const struct restore *restore, uint32_t id);
int restore_find_dmabuf(const struct restore *restore, uint32_t id);

#endif
