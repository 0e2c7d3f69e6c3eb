/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a process holds of AMD GPUs' own memory and can leave: a list, made while the gate is shut,
 * in the order of handles. Beside it the calls by which a piece goes and comes back; those for handles
 * of render nodes are in amd_node.h.
 *
 * A piece comes back with the handle that the program knows. The kernel gives the lowest number that
 * is free, so pieces come back in the order of their numbers, and numbers between them are taken by
 * small buffers until all are there. (A handle of our own for each of the kernel's would have to be
 * exchanged in every call that has one, also in lists behind pointers, for as long as the process
 * lives.)
 */
#ifndef ALLOT_GUEST_SWAP_AMD_AMD_PIECES_H
#define ALLOT_GUEST_SWAP_AMD_AMD_PIECES_H

#include "guest/swap/amd/amd_piece.h"
#include "ledger/records.h"

/*
 * What queues are made of stays, and is not in it. SWAP_HOST: there is no memory for the list;
 * SWAP_NODES, and so many bytes: one of a render node could not be made again.
 */
enum swap_why amd_pieces_find(struct guest *guest, struct amd *amd, struct amd_pieces *ret,
			      uint64_t *ret_amount);
void amd_pieces_free(struct amd_pieces *pieces);

/* `kfd` is a descriptor of /dev/kfd. Errors of the kernel, as -errno. */
int amd_pieces_map(int kfd, const struct amd *amd, struct amd_piece *piece, uint64_t gpus);
int amd_pieces_unmap(int kfd, const struct amd *amd, struct amd_piece *piece, uint64_t gpus);

/* Off its GPU: not away if the kernel does not take it. */
void amd_pieces_leave(int kfd, const struct amd *amd, const struct amd_pieces *pieces,
		      struct amd_piece *piece);

/*
 * To be called in the order of the list for all of our own that are away, then the next for all
 * that is borrowed, and then amd_pieces_settle. SWAP_FINE, SWAP_DEVICE (no room), or SWAP_DRIVER.
 */
enum swap_why amd_pieces_return(int kfd, struct guest *guest, struct amd *amd,
				struct amd_pieces *pieces, uint64_t i);
/* Waits until who lends it has it. The same, or as borrow_why. */
enum swap_why amd_pieces_borrow(int kfd, struct guest *guest, struct amd *amd,
				struct amd_pieces *pieces, uint64_t i);
void amd_pieces_settle(int kfd, struct amd_pieces *pieces);

#endif
