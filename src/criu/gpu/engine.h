/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/*
 * Copies content of buffers by the GPU's copy engine (SDMA): between a buffer and host memory that
 * both reach, by packets through a render node's file of our own. Several requests are under way at
 * once. It was tried on no AMD GPU: the packets are those of the kernel driver for the same engines,
 * and before an engine is used for content it has to copy a page correctly.
 */
#ifndef ALLOT_CRIU_ENGINE_H
#define ALLOT_CRIU_ENGINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Requests at once, and the most that one copies. */
#define ENGINE_REQUESTS 4
#define ENGINE_PART	(UINT64_C(4) << 20)

/* All zero is a closed one. */
struct engine {
	bool open;
	int fd;
	uint32_t context;
	uint32_t commands, staging, buffer; /* handles */
	uint32_t less; /* 1: a packet says one byte less than it copies */
	uint32_t *words; /* where the CPU has the first two */
	char *at;
	uint64_t base; /* of our addresses of the GPU */
	bool has_buffer;
	uint64_t buffer_bytes;
	uint64_t fence[ENGINE_REQUESTS];
};

/*
 * True if the CPU reaches all of the GPU's memory, by the kernel; also if the kernel does not tell.
 */
bool engine_is_needless(uint32_t minor);

/* By a render node. -ENODEV: it does not copy right, or in a way that is not known. */
int engine_open(struct engine *engine, uint32_t minor);
void engine_close(struct engine *engine);

/* The buffer of the requests that follow, in place of the last one, whose requests are done. */
int engine_have(struct engine *engine, int dmabuf);

/*
 * Request `i` of ENGINE_REQUESTS: a part of the buffer's content, into its part of host memory or out of
 * it. That memory is the caller's again when the request was waited for.
 */
char *engine_staging(const struct engine *engine, uint32_t i);
int engine_submit(struct engine *engine, uint32_t i, uint64_t offset, uint64_t bytes, bool out);
int engine_await(struct engine *engine, uint32_t i);

#endif
