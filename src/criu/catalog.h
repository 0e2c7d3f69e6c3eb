/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/*
 * The render nodes of a dump, for a restore: files, buffers, their holders, and their addresses. It
 * is the file allot-amdgpu.catalog among CRIU's images, with content beside it (content.h).
 *
 * src/image's manifest and its lists of holders are not used for this: an object there is a size, a
 * device and mappings. It has no place for a buffer's flags, its alignment, its handle in each file
 * and the offset at which that file maps it. Content is written by image/object_writer.h.
 *
 * The file is tables (image/tables.h), version 1; version 2 if it has contexts or metadata, which
 * builds that do not know these lists would pass over.
 */
#ifndef ALLOT_CRIU_CATALOG_H
#define ALLOT_CRIU_CATALOG_H

#include <stddef.h>
#include <stdint.h>

#include "image/damage.h"

#define CATALOG_FILE "allot-amdgpu.catalog"
#define CATALOG_MAX_BYTES (64u << 20)
#define CATALOG_NONE UINT32_MAX

/* An open render node: one for all that share the description. */
struct catalog_file {
	uint32_t id;	/* CRIU's */
	uint32_t minor; /* of the device, when it was dumped */
};

struct catalog_buffer {
	uint64_t bytes, alignment, domains, flags; /* as GEM_CREATE takes them */
	uint32_t owner; /* the holder that creates it; CATALOG_NONE: a process by /dev/kfd */
	uint32_t exported; /* its dma-buf's access mode, O_RDWR or O_RDONLY; as are below */
	uint32_t kfd_plus_one; /* its number in the image of /dev/kfd, or 0: it is not there */
	uint32_t zero;
};

struct catalog_holder {
	uint32_t file, buffer, handle;
	uint32_t zero;
	uint64_t mmap_offset; /* 0: the CPU has no access through this file */
};

/* An address of the GPU at which a holder has part of its buffer. */
struct catalog_mapping {
	uint32_t holder, flags;
	uint64_t address, offset, bytes;
};

/* A descriptor of a dma-buf. */
struct catalog_dmabuf {
	uint32_t id; /* CRIU's */
	uint32_t buffer;
};

/* A context of work, without work. */
struct catalog_context {
	uint32_t file, id;
};

/* The metadata that a program set on its buffer (AMDGPU_GEM_METADATA). */
struct catalog_metadata {
	uint32_t holder, bytes; /* of the data */
	uint64_t flags, tiling;
	uint32_t data[64];
};

enum catalog_list {
	CATALOG_FILES,
	CATALOG_BUFFERS,
	CATALOG_HOLDERS,
	CATALOG_MAPPINGS,
	CATALOG_DMABUFS,
	CATALOG_CONTEXTS,
	CATALOG_METADATA,
	CATALOG_LISTS,
};

/* Lists are malloc'ed, and NULL where they are empty. */
struct catalog {
	uint8_t id[16]; /* that its content has, too */
	uint32_t n[CATALOG_LISTS];
	union {
		void *list[CATALOG_LISTS];
		struct {
			struct catalog_file *files;
			struct catalog_buffer *buffers;
			struct catalog_holder *holders;
			struct catalog_mapping *mappings;
			struct catalog_dmabuf *dmabufs;
			struct catalog_context *contexts;
			struct catalog_metadata *metadata;
		};
	};
};

void catalog_done(struct catalog *catalog); /* takes a zeroed one */

/* Appends a record of that list. Its number, or -ENOMEM. */
int catalog_add(struct catalog *catalog, enum catalog_list list, const void *record);

/* Is the buffer in other hands than its owner's, so that a dma-buf must pass it on? */
int catalog_is_shared(const struct catalog *catalog, uint32_t buffer);

/* As a file's bytes, malloc'ed. -EFBIG, -ENOMEM. */
int catalog_pack(const struct catalog *catalog, void **ret, size_t *ret_len);

/*
 * Back from it, with all numbers in it checked: as tables_unpack answers. `damage` may be NULL.
 */
int catalog_unpack(const void *file, size_t len, struct catalog *ret, struct damage *damage);

#endif
