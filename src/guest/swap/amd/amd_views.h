/* SPDX-License-Identifier: Apache-2.0 */
/*
 * GPU memory that a process has mapped for the CPU. While it is away who touches such an address
 * waits:
 *
 *	take	memory of ours, of which every page is missing (userfaultfd), goes over the
 *		address in one step (mremap): a touch before that is in the GPU's memory, one
 *		behind it waits
 *	give	a new mapping of the GPU's memory goes over the address in one step; then who
 *		waits is woken, and touches that
 *
 * The program may unmap or protect such addresses at any time, for these are no calls that we see.
 * So what is there is read from the kernel each time. ROCm's library maps all of a GPU's memory that
 * it allocates, mostly for no access at all.
 */
#ifndef ALLOT_GUEST_SWAP_AMD_AMD_VIEWS_H
#define ALLOT_GUEST_SWAP_AMD_AMD_VIEWS_H

#include "guest/swap/amd/amd_pieces.h"

struct amd_view {
	uint64_t at, bytes;
	uint64_t piece;	 /* its place in the list */
	uint64_t within; /* the piece, where the mapping begins */
	uint64_t place;	 /* in the file of ours */
	int access;	 /* PROT_... */
	bool is_shared;
};

struct amd_views {
	struct amd_view *at;
	uint64_t n, room;
	uint64_t bytes;
	int faults; /* the userfaultfd */
	bool awaited; /* a thread waited while they were taken */
	int file;   /* ours, while something was taken */
	uint64_t inode;
	int node[GUEST_DEVICES]; /* descriptors of the files that pieces are mapped by */
	bool found;
};

/*
 * The mappings of pieces. SWAP_VIEWS, with their bytes: they cannot be taken, for the kernel does
 * not allow it, or could not be given back, for a file is closed.
 */
enum swap_why amd_views_find(struct amd *amd, const struct amd_pieces *pieces,
			     struct amd_views *views, uint64_t *ret_amount);

/* SWAP_FINE, or SWAP_DRIVER: some of them may be taken. */
enum swap_why amd_views_take(struct amd_views *views);

/* Whether a thread has touched any of what was taken, and waits. */
bool amd_views_are_awaited(const struct amd_views *views);

/* All that were taken, and ends what amd_views_find began. Pieces are where they were, or anew. */
void amd_views_give(struct amd_views *views, const struct amd_pieces *pieces);

#endif
