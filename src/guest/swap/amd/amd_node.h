/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pieces by handles of render nodes (OBJECT_GEM): how they are described, go and come back. What the
 * kernel tells of each is asked while it is there: how it was made, where its file's address space
 * maps it, what was noted about it, and its offset for mmap. Copies reach it by /dev/kfd, through a
 * dma-buf that is gone behind them.
 */
#ifndef ALLOT_GUEST_SWAP_AMD_AMD_NODE_H
#define ALLOT_GUEST_SWAP_AMD_AMD_NODE_H

#include "guest/swap/amd/amd_piece.h"
#include "ledger/records.h"

/* Notes all that is needed to make it again. SWAP_NODES: it could not be; SWAP_HOST. */
enum swap_why amd_node_describe(struct amd *amd, struct amd_pieces *pieces, uint64_t i);

/* Whether its file has let go of it: where that maps it the kernel unmaps it, too. */
bool amd_node_leave(const struct amd_pieces *pieces, const struct amd_piece *piece);

/*
 * The next number of its file is the piece's. `dmabuf`: of what is borrowed. SWAP_FINE,
 * SWAP_DEVICE or SWAP_DRIVER.
 */
enum swap_why amd_node_return(struct amd_pieces *pieces, uint64_t i, int dmabuf);

/* A small buffer of the machine's memory. 0 or -errno. */
int amd_node_fill(const struct amd_pieces *pieces, const struct amd_piece *piece,
		  uint64_t *ret_handle);
void amd_node_close(int fd, uint64_t handle);

/* For a copy: its own GPU has it at piece->va from reach on. 0 or -errno. */
int amd_node_reach(int kfd, const struct amd *amd, const struct amd_pieces *pieces,
		   struct amd_piece *piece);
int amd_node_unreach(int kfd, const struct amd *amd, struct amd_piece *piece);

#endif
