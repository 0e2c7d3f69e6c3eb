/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/*
 * Content of buffers: for each render file that owns some, a file of objects (image/contents.h)
 * among CRIU's images, whose last record has the catalog's checksum. An object is a buffer, in the
 * catalog's order; zeros are left out.
 */
#ifndef ALLOT_CRIU_CONTENT_H
#define ALLOT_CRIU_CONTENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "criu/catalog.h"
#include "image/contents.h"

/* Where a buffer is found: a dma-buf, or a render file at an offset of its own. */
struct content_place {
	int fd;
	uint64_t offset;
	bool is_dmabuf;
};

/*
 * Saves the content of all buffers that `file` owns, if any. `places`: one for each buffer. Reports
 * its errors.
 */
int content_save(const struct catalog *catalog, uint32_t file, const struct contents_seal *seal,
		 const struct content_place *places);

/* Fills the buffers that `file` owns, through its descriptor. Reports its errors. */
int content_fill(const struct catalog *catalog, uint32_t file, const struct contents_seal *seal,
		 int fd);

#endif
