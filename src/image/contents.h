/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Content in a file of objects (object_writer.h, object_reader.h) beside another file that says
 * what the objects are. The two have one id, and the last record of content vouches for the other
 * file.
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

/* Every object is filled, and is what `next` says, when it answers 0; else as object_reader.h. */
int contents_load(const struct contents *contents, struct damage *damage);

/*
 * Copies by the CPU where it reaches the memory: part of what is mapped at `map_offset` of a
 * dma-buf or a device, of `map_bytes`. What it does not reach refuses to be mapped.
 */
int contents_copy(int fd, uint64_t map_offset, uint64_t map_bytes, uint64_t offset, void *memory,
		  size_t len, bool out);

/* The other file, written and read; malloc'ed, and -EFBIG for one of more than `most` bytes. */
int contents_put_file(int dir, const char *name, const void *data, size_t len);
int contents_get_file(int dir, const char *name, size_t most, void **ret, size_t *ret_len);

#endif
