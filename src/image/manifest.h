/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The file `manifest.json` of an image: the owner of its memory. It is for people and programs to
 * read; the last record of `objects` has its CRC, so a manifest that was edited is refused.
 */
#ifndef ALLOT_IMAGE_MANIFEST_H
#define ALLOT_IMAGE_MANIFEST_H

#include "image/damage.h"
#include "image/object.h"
#include "ledger/records.h"

#define MANIFEST_VERSION 1
#define MANIFEST_DEVICES 64
#define MANIFEST_PROCESSES 65536
#define MANIFEST_PROPERTIES 32
#define MANIFEST_MAX_BYTES (16u << 20)
#define MANIFEST_TEXT 128

/* Anything about a device that a restore may want to compare: a number with a name. */
struct manifest_property {
	char name[32];
	uint64_t value;
};

struct manifest_device {
	uint8_t uuid[16]; /* as in policies */
	char model[MANIFEST_TEXT];
	uint64_t memory_bytes;
	uint32_t nproperties;
	struct manifest_property properties[MANIFEST_PROPERTIES];
};

struct manifest_process {
	int32_t pid;
	char command[MANIFEST_TEXT]; /* bytes that are not UTF-8 come back as '?' */
};

/* Lists are malloc'ed, and NULL where they are empty. */
struct manifest {
	uint8_t id[16];	    /* of the image: `objects` has the same */
	uint64_t created_s; /* since 1970 */
	struct policy policy; /* with the tenant's name */
	uint32_t ndevices, nprocesses;
	struct manifest_device *devices;
	struct manifest_process *processes;
};

void manifest_done(struct manifest *manifest); /* frees the lists; takes a zeroed one */
struct object_limits manifest_limits(const struct manifest *manifest);

/*
 * The manifest as text, malloc'ed, of *ret_len bytes. -EINVAL for one that manifest_read would
 * refuse, -ENOMEM.
 */
int manifest_write(const struct manifest *manifest, char **ret_text, size_t *ret_len);

/*
 * Reads the text. Unknown names are skipped. -EBADMSG for text that is no manifest,
 * -EPROTONOSUPPORT for one of another version, -ENOMEM; `damage` says which line or field.
 */
int manifest_read(const char *text, size_t len, struct manifest *ret, struct damage *damage);

#endif
