/* SPDX-License-Identifier: Apache-2.0 */
/* Images for tests: a directory, a manifest, and objects whose content follows from a seed. */
#ifndef ALLOT_TESTS_IMAGE_FIXTURE_H
#define ALLOT_TESTS_IMAGE_FIXTURE_H

#include <dirent.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "amd/identity.h"
#include "image/image.h"
#include "tests/check.h"

#define PAGE OBJECT_PAGE

static uint64_t fixture_most_pages = 40; /* of an object */

/* A generator of its own, so that a seed means the same everywhere and for ever. */
static inline uint32_t fixture_random(uint64_t *state)
{
	*state = *state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
	return (uint32_t)(*state >> 33);
}

/* Page `page` of the object: zero, the same byte all over, or what no packing makes smaller. */
static inline void fixture_page(uint64_t seed, uint32_t object, uint64_t page, uint8_t *to)
{
	uint64_t state = seed * 1000003 + object * UINT64_C(7919) + page;
	uint32_t kind = (fixture_random(&state), fixture_random(&state) % 3);

	memset(to, kind == 1 ? (int)(1 + page % 255) : 0, PAGE);
	for (int i = 0; kind == 2 && i < PAGE; i++)
		to[i] = (uint8_t)fixture_random(&state);
}

static inline struct object fixture_object(uint64_t seed, uint32_t i, uint32_t nprocesses,
					   struct object_holder holders[4])
{
	uint64_t state = seed * 31 + i;
	struct object object = {.device = i % 2, .kind = 0x1000 + i, .holders = holders};

	fixture_random(&state);
	object.bytes = 1 + fixture_random(&state) % (fixture_most_pages * PAGE);
	object.nholders = fixture_random(&state) % 5;
	for (uint32_t h = 0; h < object.nholders; h++)
		holders[h] = (struct object_holder){
			.process = fixture_random(&state) % nprocesses,
			.flags = OBJECT_READS | (h ? 0 : OBJECT_EXPORTS),
			.handle = 1 + h,
			.address = UINT64_C(0x7f0000000000) + i * UINT64_C(0x1000000),
			.bytes = object.bytes - object.bytes / (h + 2),
			.offset = object.bytes / (h + 2),
			.devices = 1 + h % 3,
		};
	return object;
}

static inline struct manifest fixture_manifest(void)
{
	struct manifest m = {.created_s = 1800000000, .ndevices = 2, .nprocesses = 3};

	m.policy = (struct policy){.ndevices = 1, .name = "jobA", .weight = 3};
	m.policy.device[0] = (struct policy_device){.limit_bytes = UINT64_C(40) << 30};
	m.devices = calloc(m.ndevices, sizeof(*m.devices));
	m.processes = calloc(m.nprocesses, sizeof(*m.processes));
	CHECK(m.devices && m.processes);
	for (uint32_t i = 0; i < m.ndevices; i++) {
		struct manifest_device *d = &m.devices[i];

		memset(d->uuid, 0x11, sizeof(d->uuid));
		if (i) /* the other vendor's */
			CHECK_EQ(amd_identity_parse("GPU-1234567890abcd02", d->uuid), 0);
		snprintf(d->model, sizeof(d->model), "Device \"%u\"", i);
		d->memory_bytes = (UINT64_C(141) << 30) + i;
		d->nproperties = 2;
		d->properties[0] = (struct manifest_property){"sm_count", 132};
		d->properties[1] = (struct manifest_property){"links", i};
	}
	for (uint32_t i = 0; i < m.nprocesses; i++) {
		m.processes[i].pid = (int32_t)(1000 + i);
		snprintf(m.processes[i].command, sizeof(m.processes[i].command),
			 "python serve.py --worker %u", i);
	}
	return m;
}

/* Content in pieces of any number of pages, some left out where they are zero. */
static inline void fixture_fill(struct object_writer *w, uint64_t seed, uint32_t i, uint64_t bytes)
{
	static uint8_t buf[8 * PAGE];
	uint64_t state = seed + i, at = 0;

	while (at < bytes) {
		uint64_t n = 1 + fixture_random(&state) % 8, len;

		for (uint64_t p = 0; p < n; p++)
			fixture_page(seed, i, at / PAGE + p, buf + p * PAGE);
		len = n * PAGE < bytes - at ? n * PAGE : bytes - at;
		CHECK_EQ(object_writer_content(w, at, buf, len), 0);
		at += len;
	}
}

static inline void fixture_write(const char *dir, uint64_t seed, uint32_t nobjects, int level)
{
	struct manifest m = fixture_manifest();
	struct object_holder holders[4];
	struct image_draft *draft;

	CHECK_EQ(image_create(dir, &m, level, &draft), 0);
	for (uint32_t i = 0; i < nobjects; i++) {
		struct object object = fixture_object(seed, i, m.nprocesses, holders);

		CHECK_EQ(object_writer_begin(image_writer(draft), &object), 0);
		fixture_fill(image_writer(draft), seed, i, object.bytes);
	}
	CHECK_EQ(image_commit(draft), 0);
	manifest_done(&m);
}

static inline void fixture_check_object(struct object_reader *reader, uint64_t seed, uint32_t i,
					const struct object *object)
{
	struct object_holder holders[4];
	struct object want = fixture_object(seed, i, 3, holders);
	uint64_t room = (want.bytes + PAGE - 1) / PAGE * PAGE;
	uint8_t *model = calloc(1, room), *content = calloc(1, room);
	struct object_extent extent;
	struct damage damage;
	int r;

	CHECK_EQ(object->device, want.device);
	CHECK_EQ(object->kind, want.kind);
	CHECK_EQ(object->bytes, want.bytes);
	CHECK_EQ(object->nholders, want.nholders);
	CHECK(!want.nholders ||
	      !memcmp(object->holders, holders, want.nholders * sizeof(holders[0])));
	for (uint64_t p = 0; p < room / PAGE; p++)
		fixture_page(seed, i, p, model + p * PAGE);
	memset(model + want.bytes, 0, room - want.bytes);
	while ((r = object_reader_content(reader, &extent, &damage)) > 0) {
		CHECK(extent.offset + extent.bytes <= want.bytes);
		memcpy(content + extent.offset, extent.data, extent.bytes);
	}
	CHECK_EQ(r, 0);
	CHECK(!memcmp(model, content, room));
	free(model);
	free(content);
}

static inline void fixture_check(const char *dir, uint64_t seed, uint32_t nobjects)
{
	struct manifest want = fixture_manifest();
	const struct manifest *m;
	struct image *image;
	struct damage damage;
	struct object object;
	uint32_t n = 0;
	int r;

	r = image_open(dir, false, &image, &damage);
	if (r < 0)
		fprintf(stderr, "%s\n", damage.text);
	CHECK_EQ(r, 0);
	m = image_manifest(image);
	CHECK_EQ(m->created_s, want.created_s);
	CHECK(!memcmp(&m->policy, &want.policy, sizeof(want.policy)));
	CHECK_EQ(m->ndevices, want.ndevices);
	CHECK(!memcmp(m->devices, want.devices, want.ndevices * sizeof(*want.devices)));
	CHECK_EQ(m->nprocesses, want.nprocesses);
	CHECK(!memcmp(m->processes, want.processes, want.nprocesses * sizeof(*want.processes)));
	while ((r = object_reader_next(image_reader(image), &object, &damage)) > 0)
		fixture_check_object(image_reader(image), seed, n++, &object);
	CHECK_EQ(r, 0);
	CHECK_EQ(n, nobjects);
	image_close(image);
	manifest_done(&want);
}

/* Opens and reads all: 0, or why it is refused. */
static inline int fixture_verify(const char *dir, struct damage *damage)
{
	struct image *image;
	int r = image_open(dir, false, &image, damage);

	if (r < 0)
		return r;
	r = image_verify(image, NULL, NULL, damage);
	image_close(image);
	return r;
}

static inline void fixture_remove(const char *dir)
{
	DIR *d = opendir(dir);
	struct dirent *entry;

	CHECK(d);
	while ((entry = readdir(d)))
		if (entry->d_name[0] != '.')
			CHECK_EQ(unlinkat(dirfd(d), entry->d_name, 0), 0);
	closedir(d);
	CHECK_EQ(rmdir(dir), 0);
}

#endif
