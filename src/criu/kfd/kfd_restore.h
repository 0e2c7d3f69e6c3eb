/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/*
 * Restores /dev/kfd of a tree of processes. The image is opened once, before the processes exist.
 * Then each process, by itself, calls
 *
 *	kfd_restored_open	/dev/kfd, its own buffers with their content, stopped queues;
 *				buffers that others import are published
 *	kfd_restored_import	others' buffers, once they have published them: -EAGAIN ...
 *	kfd_restored_close	closes all but /dev/kfd, after its memory is mapped
 *
 * and finally the restorer calls kfd_restore_resume for each of them.
 *
 * The kernel makes every buffer anew, also those that a process had imported. So in place of each
 * of these it makes a small buffer, whose handle the import gets later: the kernel gives the lowest
 * free handle, and lower ones are filled meanwhile.
 */
#ifndef ALLOT_CRIU_KFD_KFD_RESTORE_H
#define ALLOT_CRIU_KFD_KFD_RESTORE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "amd/topology.h"
#include "criu/kfd/kfd_calls.h"
#include "criu/kfd/match.h"

/* How buffers go from one process to another; numbers are the image's. */
struct kfd_exchange {
	/* The descriptor stays the caller's. 0 or -errno. */
	int (*publish)(void *arg, uint32_t buffer, int dmabuf);
	/* A descriptor, the caller's to close; -EAGAIN: not published yet. */
	int (*take)(void *arg, uint32_t buffer);
	/* The render node's file that was CRIU's number so-and-so, the caller's to close. */
	int (*render)(void *arg, uint32_t file);
	void *arg;
};

struct kfd_restore;
struct kfd_restored;

/*
 * Reads the image in a directory, by a descriptor of that, and finds a GPU here for each of it.
 * `relax`: of enum match_relax. -ENOENT where there is no image of /dev/kfd.
 */
int kfd_restore_open(const struct kfd_calls *calls, const struct topology *topology, int dir,
		     unsigned int relax, struct kfd_restore **ret, char why[KFD_WHY_BYTES]);
void kfd_restore_close(struct kfd_restore *restore); /* takes NULL */

/* The process whose /dev/kfd was CRIU's file of that number; -ENOENT. */
int kfd_restore_find(const struct kfd_restore *restore, uint32_t file, uint32_t *ret_process);

/* How many processes and buffers the image has; whether others want a buffer of /dev/kfd's. */
uint32_t kfd_restore_processes(const struct kfd_restore *restore);
uint32_t kfd_restore_buffers(const struct kfd_restore *restore);
bool kfd_restore_is_shared(const struct kfd_restore *restore, uint32_t buffer);

/* The process that had that pid; -ENOENT. */
int kfd_restore_find_pid(const struct kfd_restore *restore, pid_t pid, uint32_t *ret_process);

/* The render node here that replaces one of the image; the same one if no GPU had it. */
uint32_t kfd_restore_minor(const struct kfd_restore *restore, uint32_t minor);

/* `dir`: the same directory, by whatever number this process has it. */
int kfd_restored_open(const struct kfd_restore *restore, uint32_t process, int dir,
		      const struct kfd_exchange *exchange, struct kfd_restored **ret,
		      char why[KFD_WHY_BYTES]);

/*
 * Takes the buffers that are published: -EAGAIN while some are missing. On 0 the kernel has
 * confirmed that the process has each buffer as it was.
 */
int kfd_restored_import(struct kfd_restored *restored, const struct kfd_exchange *exchange,
			char why[KFD_WHY_BYTES]);

/*
 * The descriptors it has: /dev/kfd, and, from 1 on, the render nodes of the image's GPUs, or
 * -EBADF. The caller may keep them elsewhere between two calls. kfd_restored_import needs the first
 * one. kfd_restored_close closes all but the first.
 */
#define KFD_RESTORED_FILES (1 + MATCH_GPUS)
int *kfd_restored_files(struct kfd_restored *restored);

/*
 * The new place of a mapping at this offset, of the GPU with this render node, or of /dev/kfd
 * (render_minor 0): the offset, and which of the descriptors to map with. -ENOENT: no memory of the
 * process's has it. After kfd_restored_import.
 */
int kfd_restored_offset(const struct kfd_restored *restored, uint32_t render_minor, uint64_t offset,
			uint64_t *ret_offset, uint32_t *ret_file);

void kfd_restored_close(struct kfd_restored *restored); /* takes NULL */

/* `kfd`: the caller's own /dev/kfd. Continues the process's queues. */
int kfd_restore_resume(const struct kfd_calls *calls, int kfd, pid_t pid, char why[KFD_WHY_BYTES]);

#endif
