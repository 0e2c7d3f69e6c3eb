/* SPDX-License-Identifier: Apache-2.0 */
/* NVIDIA's GPUs behind an open handle, by the driver's library, which is opened by name. */
#ifndef ALLOT_PEER_NVIDIA_H
#define ALLOT_PEER_NVIDIA_H

#include "nvidia/cuda_api.h"
#include "peer/backend.h"

struct nvidia_state {
	CUcontext context[ALLOT_PEER_DEVICES]; /* primary ones that were needed to copy */
};

/* nvidia_result.c. The -errno of a result, its name, and both: "what: on: CUDA_ERROR_..." */
int nvidia_errno(CUresult result);
const char *nvidia_words(CUresult result);
int nvidia_complain(CUresult result, const char *what, const char *on);

/* nvidia_memory.c: the table's functions. */
int nvidia_reserve(struct allot_peer *peer, struct peer_object *object, uint64_t address,
		   uint64_t alignment);
void nvidia_release(struct allot_peer *peer, struct peer_object *object);
int nvidia_alloc(struct allot_peer *peer, struct peer_object *object);
int nvidia_free(struct allot_peer *peer, struct peer_object *object);
int nvidia_map(struct allot_peer *peer, struct peer_object *object, const struct mapping_call *call,
	       uint32_t *ret_done);
int nvidia_export(struct allot_peer *peer, struct peer_object *object, int *ret_fd);
int nvidia_inspect(struct allot_peer *peer, int fd, const struct allot_peer_request *as,
		   struct peer_object *object);
int nvidia_import(struct allot_peer *peer, int fd, struct peer_object *object);
int nvidia_read(struct allot_peer *peer, struct peer_object *object, uint64_t offset, void *to,
		size_t bytes);
int nvidia_write(struct allot_peer *peer, struct peer_object *object, uint64_t offset,
		 const void *from, size_t bytes);

/* Of a device's memory, to be shared. */
CUmemAllocationProp nvidia_prop(uint32_t device);

#endif
