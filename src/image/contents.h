/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/*
 * Content in a file of objects (object_writer.h, object_reader.h) beside another file that
 * describes the objects. The two have one id, and the last record of content has the other file's
 * checksum.
 */
#ifndef ALLOT_IMAGE_CONTENTS_H
#define ALLOT_IMAGE_CONTENTS_H

#include <stdbool.h>

#include "image/damage.h"
#include "image/object.h"

/* The other file. */
struct contents_seal {
	uint64_t bytes; /* 0, when content is read: the id is enough */
	uint32_t crc;
};

struct contents {
	int dir;
	const char *name;
	const uint8_t *id; /* 16 bytes */
	struct object_limits limits;
	struct contents_seal seal;

	/* The next object, in the same order at each time: 1, or 0 after the last. -errno. */
	int (*next)(void *arg, struct object *ret);
	/* Part of that object into `memory`, or out of it: NULL means zeros. 0 or -errno. */
	int (*copy)(void *arg, uint64_t offset, void *memory, size_t len, bool out);
	void *arg;
};

/* Without an object there is no file. `level`: object_writer.h. */
int contents_save(const struct contents *contents, int level);

/* On 0 every object is filled, and matches `next`; else as object_reader.h. */
int contents_load(const struct contents *contents, struct damage *damage);

/*
 * The CPU's mapping of a dma-buf or a device's memory; memory that the CPU does not reach cannot be
 * mapped. Open while one object is copied: opening and closing synchronise the caches.
 */
struct contents_view {
	int fd;	  /* the caller's */
	char *at; /* NULL: it is not open */
	uint64_t bytes;
	bool out;
};

int contents_view_open(struct contents_view *view, int fd, uint64_t map_offset, uint64_t bytes,
		       bool out);
void contents_view_close(struct contents_view *view); /* that is open, or not */

/* As `copy` of struct contents. */
void contents_view_copy(const struct contents_view *view, uint64_t offset, void *memory,
			size_t len);

/* The other file, written and read; malloc'ed, and -EFBIG for one of more than `most` bytes. */
int contents_put_file(int dir, const char *name, const void *data, size_t len);
int contents_get_file(int dir, const char *name, size_t most, void **ret, size_t *ret_len);

#endif
