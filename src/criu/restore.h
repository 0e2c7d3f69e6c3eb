/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/*
 * A restore: the catalog, of which every process has a copy, and the processes' progress, in memory
 * that they share.
 *
 * A file's buffers are made in two steps. First it creates those that it owns, and publishes the
 * dma-bufs of those that others hold as well; then, when all that it imports is published, it
 * imports. A process that comes too early for the second step asks CRIU to be called again, and is
 * woken (waiters.h). Where CRIU cannot do that (none up to 4.2 can), the first process that comes
 * takes the first step for all files, and nobody comes too early.
 *
 * /dev/kfd is restored in the same steps (kfd_file.h), but each process takes its own first step.
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
#include "criu/kfd/kfd_restore.h"
#include "criu/waiters.h"

struct restore_file {
	pthread_mutex_t first; /* held during the first step, which /dev/kfd may need, too */
	struct published file; /* when that is done */
	struct waiter waiter;
};

struct restore_shared {
	pthread_mutex_t first; /* of all files, where it is one process that takes it */
	/* Three lists, as in the catalog. */
	struct restore_file *files;
	struct published *buffers; /* their dma-bufs */
	struct waiter *dmabufs;
	/* And two as in the image of /dev/kfd; there a buffer is that the catalog has as well. */
	struct published *kfd_buffers;
	struct waiter *kfds;
};

/* This process's /dev/kfd during its restore. */
struct restore_kfd {
	struct kfd_restored *restored; /* NULL until it is begun */
	uint32_t process;
	int files[KFD_RESTORED_FILES]; /* in CRIU's store, or -1 */
};

struct restore {
	struct catalog catalog;
	struct contents_seal seal;
	bool retries; /* CRIU calls again */
	struct restore_shared *shared;
	bool *own; /* of each file: this process has opened it */
	struct kfd_restore *kfd; /* NULL: nobody had any */
	struct restore_kfd own_kfd;
};

/*
 * Before there are processes. Reports errors of the image; without one there is nothing.
 * $ALLOT_AMDGPU_RELAX lists, with commas, the properties of which GPUs may have less, or others:
 * memory, firmware, caches, gws, capability.
 */
int restore_open(struct restore *restore, bool retries);

/* A file is not of this image. Says so where the folder has it by the name of CRIU's own plugin. */
void restore_name_upstreams(uint32_t id);

/* The file or dma-buf with that name of CRIU's, or -ENOENT. */
int restore_find_file(const struct restore *restore, uint32_t id);
int restore_find_dmabuf(const struct restore *restore, uint32_t id);

/* Where that buffer of the catalog is published. */
struct published *restore_buffer(const struct restore *restore, uint32_t buffer);

/* True if another process than its maker wants that buffer of /dev/kfd's image. */
bool restore_wants(const struct restore *restore, uint32_t kfd_buffer);

/* Publishes it for all that wait; the caller keeps the descriptor. -errno. */
int restore_publish(struct restore *restore, struct published *published, int dmabuf);

#endif
