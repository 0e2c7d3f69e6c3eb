/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/*
 * Copies content of buffers that the CPU does not reach by the GPU's copy engine (SDMA): between
 * the buffer and host memory that both reach, by packets through a render node's file of our own.
 * It was tried on no AMD GPU: the packets are those of the kernel driver for the same engines, and
 * before an engine is used for content it has to copy a page correctly.
 */
#ifndef ALLOT_CRIU_ENGINE_H
#define ALLOT_CRIU_ENGINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* All zero is a closed one. */
struct engine {
	bool open;
	int fd;
	uint32_t minor; /* of the render node */
	uint32_t context;
	uint32_t commands, staging, buffer; /* handles */
	uint32_t less; /* 1: a packet says one byte less than it copies */
	uint32_t *words; /* where the CPU has the first two */
	char *at;
	uint64_t base;		  /* of our addresses of the GPU */
	ino_t inode;		  /* of the buffer's dma-buf; 0: there is none */
	uint64_t buffer_bytes;
};

/*
 * True if the CPU reaches all of the GPU's memory, by the kernel; also if the kernel does not tell.
 */
bool engine_is_needless(uint32_t minor);

/*
 * A part of a dma-buf's content, into `memory` or out of it (NULL: zeros). The engine is opened, or
 * has another buffer, where it must. -ENODEV: it does not copy right, or in a way that is not known.
 */
int engine_copy(struct engine *engine, uint32_t minor, int dmabuf, uint64_t offset, void *memory,
		size_t len, bool out);
void engine_close(struct engine *engine);

#endif
