/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/*
 * Memory objects, the content of an image, for both vendors: a size on a device, with content, and
 * with its holders. Each object is stored once, however many processes share it.
 */
#ifndef ALLOT_IMAGE_OBJECT_H
#define ALLOT_IMAGE_OBJECT_H

#include <stddef.h>
#include <stdint.h>

#define OBJECT_MAX_BYTES (UINT64_C(1) << 47) /* the address space of a process */
#define OBJECT_MAX_HOLDERS 65536
#define OBJECT_PAGE 4096 /* content is written, and left out where it is zero, by such pages */
#define OBJECT_EXTENT (UINT64_C(4) << 20) /* most content that is read or written at once */

enum object_holder_flags {
	OBJECT_READS = 1 << 0,	 /* may read through this mapping */
	OBJECT_WRITES = 1 << 1,	 /* and write */
	OBJECT_EXPORTS = 1 << 2, /* is the exporter, which the others have it from */
	OBJECT_HOLDER_FLAGS = (1 << 3) - 1,
};

/*
 * One mapping, or a handle that is mapped nowhere (bytes and address 0). Processes and devices are
 * numbers of the manifest's lists.
 */
struct object_holder {
	uint32_t process;
	uint32_t flags; /* enum object_holder_flags */
	uint64_t handle; /* as the process knows it, 0 where it has none */
	uint64_t address;
	uint64_t offset; /* of the mapping in the object, in bytes */
	uint64_t bytes;
	uint64_t devices; /* a bit for each that reaches it */
};

struct object {
	uint32_t device;
	uint32_t kind; /* the vendor's own word about the memory, given back as it was */
	uint64_t bytes;
	uint32_t nholders;
	const struct object_holder *holders;
};

/* The lengths of a manifest's lists: indices in objects are below these. */
struct object_limits {
	uint32_t ndevices; /* at most 64 */
	uint32_t nprocesses;
};

/* NULL, or its fault in words. */
const char *object_wrong(const struct object *object, const struct object_limits *limits);

#endif
