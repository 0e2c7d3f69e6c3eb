/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The name under which a process lends memory to others of its tenant: what stands in a legacy IPC
 * handle of a swappable tenant, whose memory has none of the driver's, and what an importer sends
 * to the exporter's socket for a descriptor of it. Names are bytes that came from anywhere: `id` is
 * what nobody can guess, and all else is checked.
 */
#ifndef ALLOT_GUEST_LEND_SHARE_NAME_H
#define ALLOT_GUEST_LEND_SHARE_NAME_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "guest/lend/entry.h"

#define SHARE_MAGIC	UINT64_C(0x317265686f6c6c61)
#define SHARE_MAGIC_AMD UINT64_C(0x32726568646d6161)

struct share_name {
	uint64_t magic;
	uint64_t tenant;  /* see exporter_tenant */
	uint64_t process; /* a number of the exporter's own; its socket has it */
	uint64_t object;  /* address of the piece in the exporter; AMD's: key of the handle */
	uint64_t id;	  /* of that piece alone */
	uint64_t size;	  /* of the allocation, and where it begins in the piece */
	uint32_t offset;  /* AMD's: kind of the handle */
	uint32_t pages; /* granules of the piece */
	uint32_t slot, generation; /* of the exporter */
};

_Static_assert(sizeof(struct share_name) == 64, "it is a CUipcMemHandle");

enum share_want {
	SHARE_DESCRIPTOR, /* of the piece */
	SHARE_COPIED,	  /* to know when its content is in host memory */
};

struct share_request {
	struct share_name name;
	uint32_t swap; /* the policy's, that it is made under, see ledger/swap.h; 0: none */
	uint32_t want; /* enum share_want */
};

/* With the descriptor where one was wanted and the error is 0. */
struct share_reply {
	int32_t error; /* -errno */
	uint32_t reserved;
};

/* The same for all allocations of a piece. */
static inline struct shared_key share_key(const struct share_name *name)
{
	return entry_key(&name->process, 3 * sizeof(uint64_t));
}

/*
 * An abstract address in the network namespace, in no directory: a killed process leaves nothing.
 */
static inline socklen_t share_address(uint64_t process, struct sockaddr_un *ret)
{
	int n;

	*ret = (struct sockaddr_un){.sun_family = AF_UNIX};
	n = snprintf(ret->sun_path + 1, sizeof(ret->sun_path) - 1, "allot-share-%016llx",
		     (unsigned long long)process);
	return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)n);
}

#endif
