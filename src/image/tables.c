/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
#include "image/tables.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/number.h"
#include "image/crc32c.h"

#define LISTS_MAX 64 /* more than any version has */

#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "images are written as they lie in memory, little-endian"
#endif

struct head {
	uint64_t magic;
	uint32_t version;
	uint32_t nlists;
};

struct row {
	uint32_t word[2];
};

_Static_assert(sizeof(struct head) == 16 && sizeof(struct row) == 8, "as written");

int64_t tables_add(const struct tables_format *f, uint32_t *n, void **lists, uint32_t list,
		   const void *records, uint32_t count)
{
	size_t bytes = f->record_bytes[list], first = n[list];
	char *longer;

	if (count > f->max_bytes - first)
		return -ENOMEM;
	longer = reallocarray(lists[list], first + count + 1, bytes);
	if (!longer)
		return -ENOMEM;
	lists[list] = longer;
	memcpy(longer + first * bytes, records, count * bytes);
	n[list] += count;
	return (int64_t)first;
}

void tables_free(const struct tables_format *f, uint32_t *n, void **lists)
{
	for (uint32_t i = 0; i < f->nlists; i++) {
		free(lists[i]);
		lists[i] = NULL;
		n[i] = 0;
	}
}

uint64_t tables_bytes(const struct tables_format *f, const uint32_t *n)
{
	uint64_t bytes = sizeof(struct head) + f->tail_bytes + f->nlists * sizeof(struct row) +
			 sizeof(uint32_t);

	for (uint32_t i = 0; i < f->nlists; i++)
		bytes += (uint64_t)n[i] * f->record_bytes[i];
	return bytes;
}

int tables_pack(const struct tables_format *f, const void *tail, const uint32_t *n,
		void *const *lists, void **ret, size_t *ret_len)
{
	struct head head = {.magic = f->magic, .version = f->version, .nlists = f->nlists};
	uint64_t len = tables_bytes(f, n);
	uint32_t crc;
	char *file, *at;

	if (len > f->max_bytes)
		return -EFBIG;
	file = malloc(len);
	if (!file)
		return -ENOMEM;
	at = mempcpy(file, &head, sizeof(head));
	at = mempcpy(at, tail, f->tail_bytes);
	for (uint32_t i = 0; i < f->nlists; i++) {
		struct row row;

		row.word[!f->n_first] = n[i];
		row.word[f->n_first] = f->record_bytes[i];
		at = mempcpy(at, &row, sizeof(row));
	}
	for (uint32_t i = 0; i < f->nlists; i++)
		if (n[i])
			at = mempcpy(at, lists[i], (size_t)n[i] * f->record_bytes[i]);
	crc = crc32c(0, file, (size_t)(at - file));
	memcpy(at, &crc, sizeof(crc));
	*ret = file;
	*ret_len = len;
	return 0;
}

/* --- Back -------------------------------------------------------------------------------------- */

static int tables_refuse(const struct tables_format *f, struct damage *damage, int r, uint64_t at,
			 const char *why)
{
	return damage_say(damage, r, f->file, at, DAMAGE_NO_OBJECT, "%s", why);
}

/* A list of records that may be longer or shorter than ours. */
static int tables_take(const struct tables_format *f, uint32_t list, const char *from, uint32_t n,
		       uint32_t record_bytes, void **ret)
{
	size_t own = f->record_bytes[list], both = min_u64(own, record_bytes);
	char *to = calloc(n, own);

	if (!to)
		return -ENOMEM;
	for (uint32_t i = 0; i < n; i++)
		memcpy(to + i * own, from + (size_t)i * record_bytes, both);
	*ret = to;
	return 0;
}

/* Takes the lists of a file whose sum was checked; it has `nlists`, whose rows are at `rows`. */
static int tables_take_lists(const struct tables_format *f, const char *file, size_t len,
			     uint32_t nlists, uint32_t *n, void **lists, struct damage *damage)
{
	size_t rows = sizeof(struct head) + f->tail_bytes, at = rows + nlists * sizeof(struct row),
	       end = len - sizeof(uint32_t);
	int r = 0;

	for (uint32_t i = 0; i < nlists; i++) {
		struct row row;
		uint32_t count, bytes;

		memcpy(&row, file + rows + i * sizeof(row), sizeof(row));
		count = row.word[!f->n_first];
		bytes = row.word[f->n_first];
		if (count && (!bytes || count > (end - at) / bytes))
			return tables_refuse(f, damage, -ENODATA, at, "it ends too early");
		if (i < f->nlists && count) {
			n[i] = count;
			/* Records that are short in the file are not short here. */
			r = tables_bytes(f, n) > f->max_bytes
				    ? -EBADMSG
				    : tables_take(f, i, file + at, count, bytes, &lists[i]);
		}
		if (r < 0)
			return tables_refuse(f, damage, r, at,
					     r == -ENOMEM ? "no memory" : "it has too much in it");
		at += (size_t)count * bytes;
	}
	return at == end ? 0 : tables_refuse(f, damage, -EBADMSG, at, "it is too long");
}

/* Checks the head of the file, and returns how many lists it has. */
static int tables_begin(const struct tables_format *f, const char *file, size_t len,
			struct head *ret, struct damage *damage)
{
	size_t least = sizeof(*ret) + f->tail_bytes + sizeof(uint32_t);
	uint32_t crc;

	if (len > f->max_bytes)
		return tables_refuse(f, damage, -EBADMSG, DAMAGE_NOWHERE, "it is too long");
	if (len < least)
		return tables_refuse(f, damage, -ENODATA, len, "it ends too early");
	memcpy(ret, file, sizeof(*ret));
	if (ret->magic != f->magic)
		return damage_say(damage, -EBADMSG, f->file, 0, DAMAGE_NO_OBJECT, "it is no %s",
				  f->what);
	if (ret->version != f->version)
		return tables_refuse(f, damage, -EPROTONOSUPPORT, 8,
				     "it is of another version than this allot reads");
	memcpy(&crc, file + len - sizeof(crc), sizeof(crc));
	if (crc != crc32c(0, file, len - sizeof(crc)))
		return tables_refuse(f, damage, -EBADMSG, DAMAGE_NOWHERE,
				     "its sum is wrong: it was cut or changed");
	if (ret->nlists > LISTS_MAX || len < least + ret->nlists * sizeof(struct row))
		return tables_refuse(f, damage, -EBADMSG, 12,
				     "it has more lists than there is room for");
	return 0;
}

int tables_unpack(const struct tables_format *f, const void *file, size_t len, void *ret_tail,
		  uint32_t *n, void **lists, struct damage *damage)
{
	struct head head;
	int r = tables_begin(f, file, len, &head, damage);

	if (r == 0)
		r = tables_take_lists(f, file, len, head.nlists, n, lists, damage);
	if (r < 0)
		tables_free(f, n, lists);
	else
		memcpy(ret_tail, (const char *)file + sizeof(head), f->tail_bytes);
	return r;
}
