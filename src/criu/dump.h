/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/*
 * A dump in progress: CRIU hands over one file after the other, and what they share is known after
 * the last. Until then the dma-buf of each buffer is held open: its inode identifies the buffer in
 * any file, process or device while it is open. (A handle is a number of one file.)
 */
#ifndef ALLOT_CRIU_DUMP_H
#define ALLOT_CRIU_DUMP_H

#include <stdbool.h>
#include <stdint.h>

#include "criu/catalog.h"
#include "criu/content.h"
#include "criu/keeper.h"

struct dump_buffer {
	struct content_place place;
	uint64_t inode; /* of its dma-buf; 0: it has none and never leaves its file */
};

struct dump;

struct dump_file {
	int fd; /* a duplicate of the descriptor, as of dma-bufs */
	/* Called when all files are known; says what is wrong; or NULL. */
	int (*check)(const struct dump *dump, uint32_t file);
};

struct dump {
	struct catalog catalog;
	struct dump_buffer *buffers; /* as in the catalog, as are the next two */
	struct dump_file *files;
	int *dmabufs;
	bool *imported; /* of each holder: the kernel says that it is another device's buffer */

	/* The processes' use of /dev/kfd, if any; also through duplicates. */
	struct kfd_dump *kfd;
	struct topology *topology;
	int *kfds;
	uint32_t nkfds;
	struct keeper keeper;
};

void dump_done(struct dump *dump); /* takes a zeroed one */

/* The number of the buffer with that dma-buf, or -ENOENT. */
int dump_find(const struct dump *dump, uint64_t inode);
int dump_add_buffer(struct dump *dump, const struct catalog_buffer *buffer,
		    const struct dump_buffer *is);
int dump_add_file(struct dump *dump, const struct catalog_file *file, const struct dump_file *is);
int dump_add_holder(struct dump *dump, const struct catalog_holder *holder, bool imported);
int dump_add_dmabuf(struct dump *dump, const struct catalog_dmabuf *dmabuf, int fd);

/* Removes from CRIU's folder the files of an earlier dump. */
void dump_begin(void);

/* After the last file: elects owners, and writes the image. Reports its errors. May be called again. */
int dump_finish(struct dump *dump);

#endif
