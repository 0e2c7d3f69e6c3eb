/* SPDX-License-Identifier: GPL-2.0-only */
#include "criu/catalog.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "image/crc32c.h"

#define CATALOG_MAGIC	UINT64_C(0x5441434d41544c41) /* "ALTAMCAT" */
#define CATALOG_VERSION 1
#define CATALOG_ROWS	64 /* more lists than any version has */

struct header {
	uint64_t magic;
	uint32_t version;
	uint32_t nrows;
	uint64_t bytes; /* of the file */
	uint8_t id[16];
};

/* The rows' order is that of enum catalog_list. */
struct row {
	uint32_t n;
	uint32_t record_bytes;
};

static const size_t record_bytes[CATALOG_LISTS] = {
	[CATALOG_FILES] = sizeof(struct catalog_file),
	[CATALOG_BUFFERS] = sizeof(struct catalog_buffer),
	[CATALOG_HOLDERS] = sizeof(struct catalog_holder),
	[CATALOG_MAPPINGS] = sizeof(struct catalog_mapping),
	[CATALOG_DMABUFS] = sizeof(struct catalog_dmabuf),
};

_Static_assert(sizeof(struct header) == 40 && sizeof(struct row) == 8, "as written");
_Static_assert(sizeof(struct catalog_file) == 8 && sizeof(struct catalog_buffer) == 40 &&
		       sizeof(struct catalog_holder) == 24 && sizeof(struct catalog_mapping) == 32 &&
		       sizeof(struct catalog_dmabuf) == 8,
	       "as written");

void catalog_done(struct catalog *c)
{
	for (int i = 0; i < CATALOG_LISTS; i++)
		free(c->list[i]);
	*c = (struct catalog){0};
}

int catalog_add(struct catalog *c, enum catalog_list list, const void *record)
{
	size_t bytes = record_bytes[list];
	char *longer = reallocarray(c->list[list], c->n[list] + 1, bytes);

	if (!longer)
		return -ENOMEM;
	c->list[list] = longer;
	memcpy(longer + c->n[list] * bytes, record, bytes);
	return (int)c->n[list]++;
}

int catalog_is_shared(const struct catalog *c, uint32_t buffer)
{
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
	struct header header = {.magic = CATALOG_MAGIC, .version = CATALOG_VERSION,
				.nrows = CATALOG_LISTS};
	uint64_t len = sizeof(header) + CATALOG_LISTS * sizeof(struct row) + sizeof(uint32_t);
	uint32_t crc;
	char *text, *at;

	for (int i = 0; i < CATALOG_LISTS; i++)
		len += c->n[i] * record_bytes[i];
	if (len > CATALOG_MAX_BYTES)
		return -EFBIG;
	text = at = malloc(len);
	if (!text)
		return -ENOMEM;
	header.bytes = len;
	memcpy(header.id, c->id, sizeof(header.id));
	at = mempcpy(at, &header, sizeof(header));
	for (int i = 0; i < CATALOG_LISTS; i++)
		at = mempcpy(at, &(struct row){c->n[i], (uint32_t)record_bytes[i]},
			     sizeof(struct row));
	for (int i = 0; i < CATALOG_LISTS; i++)
		if (c->n[i])
			at = mempcpy(at, c->list[i], c->n[i] * record_bytes[i]);
	crc = crc32c(0, text, (size_t)(at - text));
	memcpy(at, &crc, sizeof(crc));
	*ret = text;
	*ret_len = len;
	return 0;
}

/* One list, of records that may be longer or shorter than ours. */
static int catalog_take(struct catalog *c, int list, const struct row *row, const char *at)
{
	size_t own = record_bytes[list],
	       both = own < row->record_bytes ? own : row->record_bytes;

	if (!row->n)
		return 0;
	c->list[list] = calloc(row->n, own);
	if (!c->list[list])
		return -ENOMEM;
	c->n[list] = row->n;
	for (uint32_t i = 0; i < row->n; i++)
		memcpy((char *)c->list[list] + i * own, at + (size_t)i * row->record_bytes, both);
	return 0;
}

/* Numbers are of lists, and each buffer has an owner of its own. */
static bool catalog_is_sound(const struct catalog *c)
{
	for (uint32_t i = 0; i < c->n[CATALOG_HOLDERS]; i++)
		if (c->holders[i].file >= c->n[CATALOG_FILES] ||
		    c->holders[i].buffer >= c->n[CATALOG_BUFFERS] || !c->holders[i].handle)
			return false;
	for (uint32_t i = 0; i < c->n[CATALOG_BUFFERS]; i++)
		if (c->buffers[i].owner >= c->n[CATALOG_HOLDERS] ||
		    c->holders[c->buffers[i].owner].buffer != i || !c->buffers[i].bytes)
			return false;
	for (uint32_t i = 0; i < c->n[CATALOG_MAPPINGS]; i++)
		if (c->mappings[i].holder >= c->n[CATALOG_HOLDERS])
			return false;
	for (uint32_t i = 0; i < c->n[CATALOG_DMABUFS]; i++)
		if (c->dmabufs[i].buffer >= c->n[CATALOG_BUFFERS])
			return false;
	return true;
}

static int catalog_unpack_lists(const char *text, size_t len, const struct header *header,
				struct catalog *ret)
{
	size_t at = sizeof(*header) + header->nrows * sizeof(struct row);
	struct row row;
	int r = 0;

	if (header->nrows > CATALOG_ROWS || at > len)
		return -EBADMSG;
	for (uint32_t i = 0; i < header->nrows && r == 0; i++) {
		memcpy(&row, text + sizeof(*header) + i * sizeof(row), sizeof(row));
		if (row.n && (!row.record_bytes || row.n > (len - at) / row.record_bytes))
			return -EBADMSG;
		if (i < CATALOG_LISTS)
			r = catalog_take(ret, (int)i, &row, text + at);
		at += (size_t)row.n * row.record_bytes;
	}
	if (r == 0 && (at != len || !catalog_is_sound(ret)))
		r = -EBADMSG;
	return r;
}

int catalog_unpack(const void *text, size_t len, struct catalog *ret)
{
	struct catalog c = {0};
	struct header header;
	uint32_t crc;
	int r;

	if (len < sizeof(header) + sizeof(crc))
		return -ENODATA;
	memcpy(&header, text, sizeof(header));
	if (header.magic != CATALOG_MAGIC)
		return -EBADMSG;
	if (header.version != CATALOG_VERSION)
		return -EPROTONOSUPPORT;
	if (header.bytes != len)
		return header.bytes > len ? -ENODATA : -EBADMSG;
	len -= sizeof(crc);
	memcpy(&crc, (const char *)text + len, sizeof(crc));
	if (crc != crc32c(0, text, len))
		return -EBADMSG;
	memcpy(c.id, header.id, sizeof(c.id));
	r = catalog_unpack_lists(text, len, &header, &c);
	if (r < 0)
		catalog_done(&c);
	else
		*ret = c;
	return r;
}
