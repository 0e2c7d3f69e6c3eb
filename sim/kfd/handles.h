/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Handles of render nodes: the one table of the machine, for a handle is a number of an open file, and
 * the file is of all processes that have a descriptor of it, by dup, fork, exec or a socket.
 *
 * A file is told by its offset, which the emulator sets when a node is opened. It has a lock on the byte
 * of the node at that offset, which the kernel drops with the file's last descriptor or mapping: by that
 * its end is seen. A handle is there from the store of its key on, and gone with the store of 0, so a
 * kill leaves nothing to repair. Functions take the table's own lock.
 */
#ifndef ALLOT_SIM_KFD_HANDLES_H
#define ALLOT_SIM_KFD_HANDLES_H

#include <stdbool.h>
#include <stdint.h>

struct handles;

struct handle {
	uint64_t key;  /* of the memory (bank.h); 0: free */
	uint64_t file; /* whose it is */
	int32_t minor; /* of the node that the file is of */
	uint32_t handle;
};

/* What has the key of no memory: the file is the address space of a process's GPU. */
#define HANDLE_OF_VM UINT32_MAX

/* The table of the tree at `root`, made if there is none; of all of a process. 0 or -errno. */
int handles_open(const char *root, struct handles **ret);

/* Fills the handle, the lowest that is free in its file. -ENOMEM. */
int handles_add(struct handles *handles, struct handle *handle);

/* The file is an address space from now on: -EEXIST where it is one already, or -ENOMEM. */
int handles_add_vm(struct handles *handles, uint64_t file, int minor);

bool handles_find(struct handles *handles, uint64_t file, uint32_t handle, struct handle *ret);

/* The file's handle of that memory; 0: it has none. With file 0 of any, and whether there is one. */
uint32_t handles_of_key(struct handles *handles, uint64_t file, uint64_t key);

void handles_drop(struct handles *handles, const struct handle *handle);
void handles_change(struct handles *handles, const struct handle *handle, uint32_t to);

/* The n-th of the file, by their places in the table, if there are so many; 0 or any file. */
bool handles_nth(struct handles *handles, uint64_t file, uint32_t n, struct handle *ret);

/* Drops those of files that nobody has any more. */
void handles_reap(struct handles *handles, const char *root);

#endif
