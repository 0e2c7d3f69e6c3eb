/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Files that all processes of a simulator map, and locks on bytes of files, by which they see what
 * is alive. A lock is of an open file description: every descriptor and mapping that came of that
 * one open() keeps it, and it goes with the last of them, however their processes end. So a lock
 * can be kept by a mapping alone, which fork and exec do not hand on and no loop that closes
 * descriptors meets; and it goes along with a descriptor that is sent over a socket.
 */
#ifndef ALLOT_SIM_SHARED_H
#define ALLOT_SIM_SHARED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* Fills a new file, which reads zero; 0 or -errno. */
typedef int sim_shared_init_fn(void *map);

/*
 * Maps the file, which fork does not hand on. Where there is none it is made by `init`, if that is
 * not NULL: it appears under its name complete or not at all, and the first to make it wins. The
 * descriptor that is answered is of the same description as the mapping; the caller closes it.
 * 0, -EPROTO for a file of another size, or -errno.
 */
int sim_shared_open(const char *path, size_t bytes, sim_shared_init_fn *init, void **ret_map,
		    int *ret_fd);

/* F_WRLCK for one alone, F_RDLCK for any number: 0 or -errno; -EAGAIN where another has it. */
int sim_byte_lock(int fd, off_t at, short type);

/*
 * A process's number in a shared file, from 0 to `n` - 1: of the first byte from `at` on that
 * nobody has a lock on. The caller forgets what a dead process left under that number. -ENOSPC: all
 * are taken.
 */
int sim_seat_take(int fd, off_t at, uint32_t n);

/* Whether another description has a lock there; unknown counts as yes. */
bool sim_byte_locked(int fd, off_t at);

#endif
