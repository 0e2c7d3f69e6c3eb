/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a test asks of a program that has queues on emulated AMD devices and knows nothing of allot,
 * and what it answers: one struct each, over its standard input and output.
 */
#ifndef ALLOT_TESTS_SIM_QUEUE_PUPPET_H
#define ALLOT_TESTS_SIM_QUEUE_PUPPET_H

#include <stdint.h>

enum queue_op {
	QUEUE_MAKE,    /* on GPU `gpu`, of `type`, at `percent`: its id */
	QUEUE_DESTROY, /* `id` */
	QUEUE_UPDATE,  /* `id`, `percent` */
	QUEUE_MASK,    /* `id`, of `bits` from `mask` on; with `wild` from address 16 */
	QUEUE_BUSY,    /* `id`, which copies: gives it something to do for ever */
	QUEUE_IDLE,    /* and lets it end */
	QUEUE_FORK,    /* goes on as a child of itself, which opens the devices anew */
	QUEUE_CLOSE,   /* every descriptor but these two, and opens other files in their place */
	QUEUE_NOTHING,
	QUEUE_RAW,     /* ioctl `request` of /dev/kfd with `wild` as its block */
};

struct queue_ask {
	enum queue_op op;
	uint32_t gpu, type, percent, id, bits;
	uint64_t request, wild;
	uint32_t mask[40];
};

struct queue_told {
	int32_t result; /* 0 or -errno */
	int32_t pid;
	uint32_t id;
	uint32_t percent; /* as it stands in the block after the call */
};

#endif
