/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Open render nodes, told apart: a handle of theirs is a number of one open file description, and
 * two that were opened apart may give the same number to different memory. A description is marked
 * by its owner fields (F_SETOWN, F_SETSIG), which mean nothing without O_ASYNC and follow it over
 * dup, fork and sockets: the first process that meets it writes its pid and a number there.
 *
 * When nobody has a description any more, so is its memory gone: no descriptor, here or in another
 * process or on its way there, no mapping, and not the kernel, which keeps the one that ACQUIRE_VM
 * was called with. No ioctl says so: amd_sweep finds out. A marked description has a lock of its
 * own (F_OFD_SETLK) on one byte of the device file, at the mark, which the kernel drops with it.
 */
#ifndef ALLOT_GUEST_AMD_FILES_H
#define ALLOT_GUEST_AMD_FILES_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "guest/amd/amd.h"

/*
 * The key of a handle of this file, which is of that device (by its place in struct amd). Files
 * beyond 62 in one process share one mark for each device. So two objects may have one key, and
 * their charges are counted together (object.refs).
 */
uint64_t amd_files_key(struct amd *amd, int fd, int device, uint32_t handle);

/*
 * Files that the program which ran here before exec had marked: their memory is still there, and no
 * table of this program has it. Once; `found`, if any, is called with a descriptor of each.
 */
typedef void amd_files_fn(int fd, void *arg);
void amd_files_find_before(struct amd *amd, amd_files_fn *found, void *arg);

/* True if no call of this process has met the file: it may have memory. It has a mark then. */
bool amd_files_meet(struct amd *amd, int fd, int device);

/* True if files may share the key. */
bool amd_files_is_shared(uint64_t key);

/*
 * Marks of this process, a bit each, and how often each was given: a mark that was given again is
 * another file's.
 */
struct amd_marks {
	pid_t pid; /* of this process */
	uint64_t set;
	uint32_t given[64];
	int16_t minor[64]; /* of the nodes, plus one; 0: not known, no such file has been met */
};

/* The marks that files of this process have now. */
void amd_files_marks(struct amd *amd, struct amd_marks *ret);

/*
 * Leaves out marks that were given again since. Under amd->file_lock, as long as that is to hold.
 */
void amd_files_keep_same(const struct amd *amd, struct amd_marks *marks);

/* True if the key is of one of them. */
bool amd_files_has_mark(uint64_t key, const struct amd_marks *marks);

/*
 * Which of `marks` are of no description any more, so far as can be seen: none when /proc tells
 * nothing, or when the node cannot be opened to ask for the lock.
 */
uint64_t amd_files_closed(const struct amd_marks *marks);

/*
 * True if this process has a file with that inode open or mapped: a dma-buf holds its memory. True
 * also when /proc tells nothing. Others with the same inode number only delay the answer a little.
 */
bool amd_files_has_inode(uint64_t inode);

/*
 * A copy of a descriptor that this process has of the file that the key is of, the caller's to
 * close. -EBADF: it has none, or files share the key.
 */
int amd_files_dup(uint64_t key);

/* Any descriptor of /dev/kfd that this process has, or -EBADF. */
int amd_files_kfd(void);

/* They may be used again: under the lock, when nothing is charged under their keys any more. */
void amd_files_forget(struct amd *amd, uint64_t marks);

#endif
