/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a process holds of AMD GPUs' own memory and can leave: a list, made while the gate is shut,
 * in the order of handles. Beside it the calls of /dev/kfd by which a piece goes and comes back.
 *
 * A piece comes back with the handle that the program knows. The kernel gives the lowest number that
 * is free, so pieces come back in the order of their numbers, and numbers between them are taken by
 * small buffers until all are there. (A handle of our own for each of the kernel's would have to be
 * exchanged in every call that has one, also in lists behind pointers, for as long as the process
 * lives.)
 */
#ifndef ALLOT_GUEST_SWAP_AMD_AMD_PIECES_H
#define ALLOT_GUEST_SWAP_AMD_AMD_PIECES_H

#include "guest/amd/amd.h"
#include "ledger/records.h"

struct amd_piece {
	uint64_t handle;
	uint64_t va, size;
	uint64_t bytes;	 /* of content, from `va` on, and charged */
	uint64_t offset; /* for mmap */
	uint64_t mapped; /* GPUs that are to map it, a bit each by their place in struct amd, */
	uint64_t now;	 /* and that do */
	uint64_t host;	 /* where its content is in host memory */
	uint32_t flags;
	int device;
	bool away;
};

struct amd_pieces {
	struct amd_piece *at;
	uint64_t n, room;
	uint64_t bytes;	  /* of all */
	uint64_t *fillers; /* room for handles */
	uint64_t nfillers;
};

/* SWAP_HOST: there is no memory for the list. What queues are made of stays, and is not in it. */
enum swap_why amd_pieces_find(struct guest *guest, struct amd *amd, struct amd_pieces *ret);
void amd_pieces_free(struct amd_pieces *pieces);

/* `kfd` is a descriptor of /dev/kfd. Errors of the kernel, as -errno. */
int amd_pieces_map(int kfd, const struct amd *amd, struct amd_piece *piece, uint64_t gpus);
int amd_pieces_unmap(int kfd, const struct amd *amd, struct amd_piece *piece, uint64_t gpus);

/* Off its GPU: not away if the kernel does not take it. */
void amd_pieces_leave(int kfd, const struct amd *amd, struct amd_piece *piece);

/*
 * To be called in the order of the list for all that are away, and then amd_pieces_settle.
 * SWAP_FINE, SWAP_DEVICE (no room), or SWAP_DRIVER.
 */
enum swap_why amd_pieces_return(int kfd, struct guest *guest, struct amd *amd,
				struct amd_pieces *pieces, struct amd_piece *piece);
void amd_pieces_settle(int kfd, struct amd_pieces *pieces);

#endif
