/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Copies between a GPU's memory and the host's, by a copy queue of our own: most of a GPU's memory is
 * not to be seen by the CPU. Packets are those of generation 9 and later.
 */
#ifndef ALLOT_GUEST_SWAP_AMD_AMD_LANE_H
#define ALLOT_GUEST_SWAP_AMD_AMD_LANE_H

#include <stdbool.h>
#include <stdint.h>

#include "guest/amd/amd.h"

struct amd_lane {
	uint32_t gpu_id; /* 0: it is not there */
	uint32_t queue;
	char *memory; /* the ring, and a page with pointers and the fence */
	uint64_t ring, page;
	void *doorbells;
	volatile uint64_t *doorbell;
	uint64_t written;
	uint32_t fences;
};

/* False: the GPU has no queue left, or another kind. `kfd`: of /dev/kfd. */
bool amd_lane_open(int kfd, const struct amd_device *device, struct amd_lane *ret);
void amd_lane_close(int kfd, struct amd_lane *lane);

/* Host memory, in whole pages, that the GPU finds at its address until it is given back. 0: error. */
uint64_t amd_lane_register(int kfd, const struct amd_lane *lane, char *at, uint64_t bytes);
void amd_lane_unregister(int kfd, const struct amd_lane *lane, uint64_t handle);

/* Waits until it is done. False: the GPU has stopped the queue, which is to be closed. */
bool amd_lane_copy(struct amd_lane *lane, uint64_t to, uint64_t from, uint64_t bytes);

#endif
