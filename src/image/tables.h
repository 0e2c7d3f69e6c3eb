/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/*
 * Files that are lists of records: a header, a row for each list (how many records, how long one
 * is), the lists, and a CRC-32C of all before it, little-endian.
 *
 *	u64 magic  u32 version  u32 number of lists  what else the format has in its header
 *	u32 u32    of each list: a row
 *	records
 *	u32 sum
 *
 * Fields are added at the end of records, and lists behind the last one: a reader takes what it
 * knows of each, and zeros for what the file does not have. It refuses other versions.
 *
 * In memory the lists are arrays, malloc'ed, NULL where they are empty, and `n` says how long each
 * is: `n` and `lists` are of as many elements as the format has lists.
 */
#ifndef ALLOT_IMAGE_TABLES_H
#define ALLOT_IMAGE_TABLES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "image/damage.h"

struct tables_format {
	uint64_t magic;
	const char *file; /* its name, for messages, */
	const char *what; /* and what it is: "no %s" */
	uint32_t version;
	uint32_t max_bytes;  /* of a file, and of its unpacked lists */
	uint32_t tail_bytes; /* of the header, behind the number of lists */
	uint32_t nlists;
	const uint32_t *record_bytes;
	bool n_first; /* a row has the number in front of the size */
};

/* Appends `count` records to a list. The first one's number, or -ENOMEM. */
int64_t tables_add(const struct tables_format *format, uint32_t *n, void **lists, uint32_t list,
		   const void *records, uint32_t count);

void tables_free(const struct tables_format *format, uint32_t *n, void **lists);

/* How long the file is. */
uint64_t tables_bytes(const struct tables_format *format, const uint32_t *n);

/* As the file's bytes, malloc'ed. -EFBIG for more than it may have, -ENOMEM. */
int tables_pack(const struct tables_format *format, const void *tail, const uint32_t *n,
		void *const *lists, void **ret, size_t *ret_len);

/*
 * Unpacks a file into empty lists; the caller checks the meaning of the numbers. -EBADMSG for a
 * damaged file, -ENODATA for one that ends too early, -EPROTONOSUPPORT for another version,
 * -ENOMEM; `damage`, which may be NULL, says why.
 */
int tables_unpack(const struct tables_format *format, const void *file, size_t len, void *ret_tail,
		  uint32_t *n, void **lists, struct damage *damage);

#endif
