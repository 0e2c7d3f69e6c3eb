/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/*
 * Reads the file `objects` of an image as a stream. Each field is checked before it is used, and no
 * content of the file makes the reader take more than a few MiB of memory. Returned content has
 * been checked by its own CRCs. Only after object_reader_next returned 0 is the whole file known to
 * be good, so a caller that must not stop in the middle reads it twice. One thread.
 */
#ifndef ALLOT_IMAGE_OBJECT_READER_H
#define ALLOT_IMAGE_OBJECT_READER_H

#include "image/damage.h"
#include "image/object.h"

struct object_reader;

struct object_extent {
	uint64_t offset; /* in the object; bytes in no extent are zero */
	size_t bytes;
	const void *data; /* until the next call */
};

/*
 * Begins at the descriptor's position, which may be a pipe's; it stays the caller's. 0, -ENOMEM,
 * what read(2) answers, or why the file is refused, which `damage` (not NULL) says as well:
 *
 *   -EBADMSG          damaged: a CRC, an order or a field is wrong
 *   -ENODATA          it ends too early
 *   -EPROTONOSUPPORT  of another version, or with content that this build cannot unpack
 *
 * All functions below answer these, too, and go on doing so after the first time.
 */
int object_reader_open(int fd, const struct object_limits *limits, struct object_reader **ret,
		       struct damage *damage);
void object_reader_close(struct object_reader *reader); /* takes NULL */

/* The image's name, which manifest.json has as well. */
void object_reader_id(const struct object_reader *reader, uint8_t ret[16]);

/*
 * The next object; the rest of the previous object's content is read and checked. 1, or 0 at the
 * end, when every byte of the file has been checked. The holders are valid until the next call.
 */
int object_reader_next(struct object_reader *reader, struct object *ret, struct damage *damage);

/* The next piece of its content, in the order of offsets. 1, or 0 when there is no more of it. */
int object_reader_content(struct object_reader *reader, struct object_extent *ret,
			  struct damage *damage);

/* After the end: the size and CRC of manifest.json. */
void object_reader_manifest(const struct object_reader *reader, uint64_t *ret_bytes,
			    uint32_t *ret_crc);

#endif
