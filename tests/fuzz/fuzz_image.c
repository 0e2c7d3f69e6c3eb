/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Images, as a file that anybody may have written. The first byte chooses: manifest.json; `objects`
 * as it is; or `objects` with its CRCs put right first, without which next to nothing would get past
 * them. What is read to the end must be in order, and may be written and read once more.
 */
#include <errno.h>
#include <stdbool.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "image/crc32c.h"
#include "image/format.h"
#include "image/manifest.h"
#include "image/object_reader.h"
#include "tests/fuzz/fuzz.h"

#define INPUT_MAX (1u << 20)

/* Records follow each other by their own sizes: seals them and their payloads as far as they go. */
static void seal(uint8_t *data, size_t size)
{
	struct format_record r;
	size_t at = sizeof(struct format_header);

	if (size >= at)
		((struct format_header *)data)->crc =
			crc32c(0, data, offsetof(struct format_header, crc));
	while (at + sizeof(r) <= size) {
		size_t payload = at + sizeof(r);

		memcpy(&r, data + at, sizeof(r));
		if (r.payload_bytes > size - payload)
			r.payload_bytes = size - payload;
		r.payload_crc = crc32c(0, data + payload, (size_t)r.payload_bytes);
		if (r.type == FORMAT_EXTENT && r.packing == FORMAT_PLAIN)
			r.c = r.payload_crc;
		r.crc = crc32c(0, &r, offsetof(struct format_record, crc));
		memcpy(data + at, &r, sizeof(r));
		at = payload + (size_t)r.payload_bytes;
	}
}

static void check_object(const struct object *object, const struct object_limits *limits)
{
	MUST(!object_wrong(object, limits));
	for (uint32_t i = 0; i < object->nholders; i++)
		MUST(object->holders[i].process < limits->nprocesses);
}

static void check_damage(int r, const struct damage *damage)
{
	MUST(r == -EBADMSG || r == -ENODATA || r == -EPROTONOSUPPORT);
	MUST(damage->text[0] && strlen(damage->text) < sizeof(damage->text));
}

static int read_content(struct object_reader *reader, const struct object *object,
			struct damage *damage)
{
	struct object_extent extent;
	uint64_t end = 0;
	uint8_t sum = 0;
	int r;

	while ((r = object_reader_content(reader, &extent, damage)) > 0) {
		MUST(extent.offset >= end && extent.bytes && extent.bytes <= OBJECT_EXTENT);
		end = extent.offset + extent.bytes;
		MUST(end <= object->bytes);
		for (size_t i = 0; i < extent.bytes; i++)
			sum ^= ((const uint8_t *)extent.data)[i];
	}
	__asm__ volatile("" : : "r"(sum)); /* each byte was looked at */
	return r;
}

static void read_objects(int fd, bool whole)
{
	const struct object_limits limits = {.ndevices = 2, .nprocesses = 3};
	struct object_reader *reader;
	struct damage damage = {0};
	struct object object;
	uint32_t n = 0;
	int r = object_reader_open(fd, &limits, &reader, &damage);

	if (r < 0) {
		check_damage(r, &damage);
		return;
	}
	while ((r = object_reader_next(reader, &object, &damage)) > 0) {
		check_object(&object, &limits);
		/* Every other one without its content: the reader passes over that by itself. */
		if (n++ % 2 == whole && (r = read_content(reader, &object, &damage)) < 0)
			break;
	}
	if (r < 0) {
		check_damage(r, &damage);
		MUST(object_reader_next(reader, &object, &damage) == r); /* and stays so */
	}
	object_reader_close(reader);
}

static void read_manifest(const char *text, size_t len)
{
	struct manifest m, again;
	struct damage damage = {0};
	char *written;
	size_t n;
	int r = manifest_read(text, len, &m, &damage);

	if (r < 0) {
		check_damage(r, &damage);
		return;
	}
	MUST(m.ndevices <= MANIFEST_DEVICES && m.nprocesses <= MANIFEST_PROCESSES);
	MUST(manifest_write(&m, &written, &n) == 0);
	MUST(manifest_read(written, n, &again, &damage) == 0);
	MUST(again.ndevices == m.ndevices && again.nprocesses == m.nprocesses);
	MUST(!memcmp(&again.policy, &m.policy, sizeof(m.policy)));
	free(written);
	manifest_done(&m);
	manifest_done(&again);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static uint8_t *copy;
	static int fd = -1;

	if (!size || size > INPUT_MAX)
		return 0;
	if (data[0] % 4 == 0) {
		read_manifest((const char *)data + 1, size - 1);
		return 0;
	}
	if (fd < 0) {
		fd = memfd_create("fuzz-image", MFD_CLOEXEC);
		copy = malloc(INPUT_MAX);
		MUST(fd >= 0 && copy);
	}
	memcpy(copy, data + 1, size - 1);
	if (data[0] % 4 != 1)
		seal(copy, size - 1);
	MUST(ftruncate(fd, 0) == 0);
	MUST(pwrite(fd, copy, size - 1, 0) == (ssize_t)size - 1);
	MUST(lseek(fd, 0, SEEK_SET) == 0);
	read_objects(fd, data[0] % 4 == 2);
	return 0;
}
