/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/*
 * Content of the buffers in one GPU's memory, read and written in parts. The GPU's copy engine moves it;
 * without one, threads of the CPU do, where the CPU reaches all of that memory (a read over PCIe takes
 * long, and is one core's). Parts that follow are read ahead, and a write is not waited for, so several
 * requests are under way at once:
 *
 *	read part 0	requests 0 1 2 3 ──► waits for 0
 *	read part 1		 1 2 3 4 ──► waits for 1
 */
#ifndef ALLOT_CRIU_MOVER_H
#define ALLOT_CRIU_MOVER_H

#include <pthread.h>
#include <sys/types.h>

#include "criu/gpu/engine.h"
#include "criu/kfd/kfd_calls.h"

/* A part that is asked for, or was read ahead. */
struct mover_request {
	bool used, out;
	uint64_t offset, bytes;

	/* Without an engine: its thread's. Under the mover's lock. */
	pthread_t thread;
	bool started, asked, done;
	int result;
	char *memory;
	struct mover *mover;
};

/* For people: by which way how much went, and how many requests were under way at most. */
struct mover_count {
	uint64_t engine_bytes, engine_requests;
	uint64_t cpu_bytes, cpu_requests;
	uint32_t most;
};

/* All zero is a closed one. Not to be copied while it is open. One thread at a time. */
struct mover {
	bool open, by_engine;
	uint32_t minor; /* of the GPU's render node */
	struct engine engine;
	int dmabuf; /* our own descriptor of the buffer that it has; */
	ino_t inode; /* 0: none */
	uint64_t bytes; /* of the buffer */
	struct mover_request request[ENGINE_REQUESTS];
	uint32_t next; /* the request that is used next */
	bool ending;
	pthread_mutex_t lock;
	pthread_cond_t change;
	struct mover_count count;
};

/*
 * A part of the content of a buffer in a GPU's memory, into `memory` or out of it (NULL: zeros).
 * -ENODEV: neither the CPU nor the engine reaches it. A write is done when mover_flush returns 0, or
 * before the next buffer.
 */
int mover_read(struct mover *mover, const struct kfd_place *place, uint64_t offset, void *memory,
	       size_t len);
int mover_write(struct mover *mover, const struct kfd_place *place, uint64_t offset,
		const void *memory, size_t len);
int mover_flush(struct mover *mover);

/* Waits for all requests. Returns what was counted. */
struct mover_count mover_close(struct mover *mover);

#endif
