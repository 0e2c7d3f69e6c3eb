/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
#include "criu/catalog.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>

#include "amd/abi/drm.h"
#include "image/tables.h"

/* Of the header, what is behind the number of lists. */
struct tail {
	uint64_t bytes; /* of the file */
	uint8_t id[16];
};

static const uint32_t record_bytes[CATALOG_LISTS] = {
	[CATALOG_FILES] = sizeof(struct catalog_file),
	[CATALOG_BUFFERS] = sizeof(struct catalog_buffer),
	[CATALOG_HOLDERS] = sizeof(struct catalog_holder),
	[CATALOG_MAPPINGS] = sizeof(struct catalog_mapping),
	[CATALOG_DMABUFS] = sizeof(struct catalog_dmabuf),
	[CATALOG_CONTEXTS] = sizeof(struct catalog_context),
	[CATALOG_METADATA] = sizeof(struct catalog_metadata),
};

_Static_assert(sizeof(struct tail) == 24, "as written");
_Static_assert(sizeof(struct catalog_file) == 8 && sizeof(struct catalog_buffer) == 48 &&
		       sizeof(struct catalog_holder) == 24 && sizeof(struct catalog_mapping) == 32 &&
		       sizeof(struct catalog_dmabuf) == 8 && sizeof(struct catalog_context) == 8 &&
		       sizeof(struct catalog_metadata) == 280,
	       "as written");

#define FORMAT(number)                                                                             \
	{                                                                                          \
		.magic = UINT64_C(0x5441434d41544c41), /* "ALTAMCAT" */                            \
		.file = CATALOG_FILE,                                                              \
		.what = "catalog of render nodes",                                                 \
		.version = number,                                                                 \
		.max_bytes = CATALOG_MAX_BYTES,                                                    \
		.tail_bytes = sizeof(struct tail),                                                 \
		.nlists = CATALOG_LISTS,                                                           \
		.record_bytes = record_bytes,                                                      \
		.n_first = true,                                                                   \
	}

/* The second is for a catalog of which readers of the first would lose something. */
static const struct tables_format format = FORMAT(1), format_with_beside = FORMAT(2);

void catalog_done(struct catalog *c)
{
	tables_free(&format, c->n, c->list);
}

int catalog_add(struct catalog *c, enum catalog_list list, const void *record)
{
	return (int)tables_add(&format, c->n, c->list, list, record, 1);
}

int catalog_is_shared(const struct catalog *c, uint32_t buffer)
{
	if (c->buffers[buffer].kfd_plus_one)
		return true;
	for (uint32_t i = 0; i < c->n[CATALOG_HOLDERS]; i++)
		if (c->holders[i].buffer == buffer && i != c->buffers[buffer].owner)
			return true;
	for (uint32_t i = 0; i < c->n[CATALOG_DMABUFS]; i++)
		if (c->dmabufs[i].buffer == buffer)
			return true;
	return false;
}

int catalog_pack(const struct catalog *c, void **ret, size_t *ret_len)
{
	struct tail tail = {.bytes = tables_bytes(&format, c->n)};

	memcpy(tail.id, c->id, sizeof(tail.id));
	return tables_pack(c->n[CATALOG_CONTEXTS] || c->n[CATALOG_METADATA] ? &format_with_beside : &format,
			   &tail, c->n, c->list, ret, ret_len);
}

static bool catalog_is_sound_beside(const struct catalog *c)
{
	for (uint32_t i = 0; i < c->n[CATALOG_CONTEXTS]; i++)
		if (c->contexts[i].file >= c->n[CATALOG_FILES] || !c->contexts[i].id ||
		    c->contexts[i].id >= AMD_CONTEXT_NUMBERS)
			return false;
	for (uint32_t i = 0; i < c->n[CATALOG_METADATA]; i++)
		if (c->metadata[i].holder >= c->n[CATALOG_HOLDERS] ||
		    c->metadata[i].bytes > sizeof(c->metadata[i].data))
			return false;
	return true;
}

/* Numbers are of lists, and each buffer has an owner of its own. */
static bool catalog_is_sound(const struct catalog *c)
{
	for (uint32_t i = 0; i < c->n[CATALOG_HOLDERS]; i++)
		if (c->holders[i].file >= c->n[CATALOG_FILES] ||
		    c->holders[i].buffer >= c->n[CATALOG_BUFFERS] || !c->holders[i].handle)
			return false;
	for (uint32_t i = 0; i < c->n[CATALOG_BUFFERS]; i++) {
		const struct catalog_buffer *b = &c->buffers[i];

		if (b->owner == CATALOG_NONE ? !b->kfd_plus_one
					     : b->owner >= c->n[CATALOG_HOLDERS] ||
						       c->holders[b->owner].buffer != i || !b->bytes)
			return false;
	}
	for (uint32_t i = 0; i < c->n[CATALOG_MAPPINGS]; i++)
		if (c->mappings[i].holder >= c->n[CATALOG_HOLDERS])
			return false;
	for (uint32_t i = 0; i < c->n[CATALOG_DMABUFS]; i++)
		if (c->dmabufs[i].buffer >= c->n[CATALOG_BUFFERS])
			return false;
	return catalog_is_sound_beside(c);
}

int catalog_unpack(const void *file, size_t len, struct catalog *ret, struct damage *damage)
{
	struct catalog c = {.n = {0}};
	struct tail tail;
	int r = tables_unpack(&format, file, len, &tail, c.n, c.list, damage);

	if (r == -EPROTONOSUPPORT)
		r = tables_unpack(&format_with_beside, file, len, &tail, c.n, c.list, damage);
	if (r < 0)
		return r;
	if (tail.bytes != len || !catalog_is_sound(&c)) {
		catalog_done(&c);
		return damage_say(damage, -EBADMSG, CATALOG_FILE, DAMAGE_NOWHERE, DAMAGE_NO_OBJECT,
				  "it makes no sense");
	}
	memcpy(c.id, tail.id, sizeof(c.id));
	*ret = c;
	return 0;
}
