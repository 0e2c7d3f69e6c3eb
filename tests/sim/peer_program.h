/* SPDX-License-Identifier: Apache-2.0 */
/* What test programs of peer memory have in common: a handle, and short ways to use it. */
#ifndef ALLOT_TESTS_SIM_PEER_PROGRAM_H
#define ALLOT_TESTS_SIM_PEER_PROGRAM_H

#include "allot/peer.h"
#include "tests/check.h"

static struct allot_peer *peer;

static inline int alloc_as(struct allot_peer_request what, uint64_t *ret_address)
{
	return allot_peer_alloc(peer, &what, ret_address);
}

static inline struct allot_peer_object find(uint64_t address)
{
	struct allot_peer_object object = {0};

	CHECK_EQ(allot_peer_find(peer, address, &object), 0);
	return object;
}

#endif
