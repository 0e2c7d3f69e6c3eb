/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/*
 * A dump of /dev/kfd of a tree of processes: each process is added, then all is written at once,
 * since only then it is known what they share. A buffer is one for all of its holders: it is known
 * by the inode of its dma-buf, which stays open until the dump is closed. Handles do not identify
 * it: each process has its own numbers.
 */
#ifndef ALLOT_CRIU_KFD_KFD_DUMP_H
#define ALLOT_CRIU_KFD_KFD_DUMP_H

#include <stdbool.h>
#include <sys/types.h>

#include "amd/topology.h"
#include "criu/kfd/kfd_calls.h"

struct kfd_dump;

/* `calls` and `topology` are the caller's, and must last. -ENOMEM. */
int kfd_dump_open(const struct kfd_calls *calls, const struct topology *topology,
		  struct kfd_dump **ret);

/*
 * A process, by a descriptor of its /dev/kfd, which stays the caller's and must last; `file` is
 * CRIU's number for it. Its queues stand still until kfd_dump_close. After an error the dump is
 * good for that alone.
 */
int kfd_dump_add(struct kfd_dump *dump, int kfd, uint32_t file, char why[KFD_WHY_BYTES]);

/* The buffer of that inode: its number in the image. -ENOENT: /dev/kfd has none. */
int kfd_dump_find(const struct kfd_dump *dump, ino_t inode, uint32_t *ret_buffer);

/* The buffer that a render node maps at that offset, which is one for all its files. -ENOENT. */
int kfd_dump_find_at(const struct kfd_dump *dump, uint32_t minor, uint64_t offset,
		     uint32_t *ret_buffer);

/* Was it made by a process of these, as far as can be told? Else they have imported it. */
bool kfd_dump_is_made(const struct kfd_dump *dump, uint32_t buffer);

/*
 * Asks for each process, by its number in the order in which they were added, by which file of a
 * render node, of that minor, it has a GPU: CRIU's id, or 0: nobody knows, and then a restore opens
 * one of its own.
 */
void kfd_dump_join(struct kfd_dump *dump,
		   uint32_t (*find)(void *arg, uint32_t process, uint32_t minor), void *arg);

/*
 * Where in the address space of that file of a render node, as it was joined, memory of /dev/kfd is:
 * `each` is called for all of it, until it answers an error.
 */
int kfd_dump_addresses(const struct kfd_dump *dump, uint32_t file,
		       int (*each)(void *arg, uint64_t address, uint64_t bytes), void *arg);

/* A render node makes that buffer, and publishes it when it is restored. */
void kfd_dump_give(struct kfd_dump *dump, uint32_t buffer);

/*
 * Writes the image into a directory, by a descriptor of that: content first, so that an image that
 * is there has all. `level` as in object_writer_open. -EXDEV for a buffer that nobody here has
 * made.
 */
int kfd_dump_write(struct kfd_dump *dump, int dir, int level, char why[KFD_WHY_BYTES]);

/* Continues the processes. Takes NULL. */
void kfd_dump_close(struct kfd_dump *dump);

#endif
