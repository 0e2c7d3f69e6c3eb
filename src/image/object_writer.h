/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/*
 * Writes the file `objects` of an image as a stream: object after object, each with its content in
 * the order of offsets. Zeros, and ranges that are not given, take no room. The file is whole only
 * after object_writer_finish. One thread.
 */
#ifndef ALLOT_IMAGE_OBJECT_WRITER_H
#define ALLOT_IMAGE_OBJECT_WRITER_H

#include "image/object.h"

struct object_writer;

/*
 * Begins at the descriptor's position, which may be a pipe's; the caller keeps it. `level`: 0
 * writes content as it is, 1 to 19 packs it by zstd (-ENOTSUP if this build cannot). -ENOMEM, or
 * the error of write(2).
 */
int object_writer_open(int fd, const uint8_t id[16], const struct object_limits *limits, int level,
		       struct object_writer **ret);

/* Takes NULL. An unfinished file is no image. */
void object_writer_close(struct object_writer *writer);

/* Ends the object before it. -EINVAL for one that object_wrong would not let pass. */
int object_writer_begin(struct object_writer *writer, const struct object *object);

/*
 * Writes content of the object that was begun last, from `offset` (whole pages, not before the end
 * of the last content). `len` is whole pages, or reaches to the object's end. -EINVAL otherwise.
 */
int object_writer_content(struct object_writer *writer, uint64_t offset, const void *data,
			  size_t len);

/* Writes the last record, which holds the size and the CRC of manifest.json. */
int object_writer_finish(struct object_writer *writer, uint64_t manifest_bytes,
			 uint32_t manifest_crc);

#endif
