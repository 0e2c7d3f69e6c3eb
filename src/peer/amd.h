/* SPDX-License-Identifier: Apache-2.0 */
/* AMD's GPUs behind an open handle. */
#ifndef ALLOT_PEER_AMD_H
#define ALLOT_PEER_AMD_H

#include "amd/topology.h"
#include "peer/backend.h"

struct amd_gpu {
	const struct topology_node *node;
	uint32_t gpu_id;
	int render; /* the process's, not this handle's */
	struct peer_object registers;
	volatile uint32_t *flush; /* the first of them; NULL: none */
};

struct amd_state {
	struct topology *topology;
	int kfd; /* the process's */
	uint32_t minor;
	struct amd_gpu gpu[ALLOT_PEER_DEVICES];
};

/* amd_memory.c: the table's functions. */
int amd_reserve(struct allot_peer *peer, struct peer_object *object, uint64_t address,
		uint64_t alignment);
void amd_release(struct allot_peer *peer, struct peer_object *object);
int amd_alloc(struct allot_peer *peer, struct peer_object *object);
int amd_free(struct allot_peer *peer, struct peer_object *object);
int amd_map(struct allot_peer *peer, struct peer_object *object, const struct mapping_call *call,
	    uint32_t *ret_done);
int amd_export(struct allot_peer *peer, struct peer_object *object, int *ret_fd);
int amd_inspect(struct allot_peer *peer, int fd, const struct allot_peer_request *as,
		struct peer_object *object);
int amd_import(struct allot_peer *peer, int fd, struct peer_object *object);
int amd_read(struct allot_peer *peer, struct peer_object *object, uint64_t offset, void *to,
	     size_t bytes);
int amd_write(struct allot_peer *peer, struct peer_object *object, uint64_t offset,
	      const void *from, size_t bytes);

/* amd_memory.c: the page of a GPU's registers that lets the CPU's writes through. */
void amd_registers_open(struct allot_peer *peer, uint32_t device);
void amd_registers_close(struct allot_peer *peer, uint32_t device);

#endif
