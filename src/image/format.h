/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/*
 * The file `objects` of an image, version 1. Integers are little-endian. It is a header and
 * records, each of 64 bytes, and behind a record its payload, with no padding:
 *
 *   header
 *   OBJECT      payload: its holders
 *     EXTENT    payload: content from `a` on, `b` bytes of it, as they are or compressed
 *     ...       in the order of their offsets; what none of them covers is zero
 *     END_OBJECT
 *   ...
 *   END         the last one. A file without it is no image
 *
 * No byte is outside of a CRC: the header's and the records' own, which is their last field, and
 * the payload's, in the record. Records are numbered, so that none is missing or comes twice, and
 * END has the size and CRC of manifest.json. A reader passes over records of a type that it does
 * not know if they say so (FORMAT_OPTIONAL), and refuses other versions.
 */
#ifndef ALLOT_IMAGE_FORMAT_H
#define ALLOT_IMAGE_FORMAT_H

#include <stddef.h>
#include <stdint.h>

#include "image/object.h"

#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "images are written as they lie in memory, little-endian"
#endif

#define FORMAT_MAGIC UINT64_C(0x474d49544f4c4c41) /* "ALLOTIMG" */
#define FORMAT_VERSION 1
#define FORMAT_RECORD UINT32_C(0x72424f61) /* "aOBr" */

enum format_type { FORMAT_OBJECT = 1, FORMAT_EXTENT, FORMAT_END_OBJECT, FORMAT_END };
enum format_flags { FORMAT_OPTIONAL = 1 << 0 };
enum format_packing { FORMAT_PLAIN, FORMAT_ZSTD };

struct format_header {
	uint64_t magic;
	uint32_t version;
	uint32_t record_bytes; /* 64 */
	uint8_t id[16];	       /* of the image: manifest.json has the same */
	uint32_t page_bytes;   /* OBJECT_PAGE */
	uint32_t extent_bytes; /* OBJECT_EXTENT: no extent has more content */
	uint32_t reserved[5];
	uint32_t crc; /* of the fields before it */
};

struct format_record {
	uint32_t magic;
	uint16_t type;
	uint16_t flags;
	uint64_t number; /* from 0 */
	uint64_t payload_bytes;
	uint32_t payload_crc;
	/*
	 *             OBJECT   EXTENT          END_OBJECT            END
	 * which       device   the object      the object            number of objects
	 * a           bytes    offset          bytes of content      bytes of content, of all
	 * b                    bytes           number of extents     bytes of manifest.json
	 * c           kind     CRC of content  CRC of all (a, b, c)  CRC of manifest.json
	 * packing              how             -                     -
	 */
	uint32_t which;
	uint64_t a, b;
	uint32_t c;
	uint32_t packing;
	uint32_t zero;
	uint32_t crc; /* of the fields before it */
};

/* The input of an END_OBJECT's CRC, for each extent. */
struct format_sum {
	uint64_t offset, bytes;
	uint32_t crc, zero;
};

_Static_assert(sizeof(struct format_header) == 64 && offsetof(struct format_header, crc) == 60,
	       "as written");
_Static_assert(sizeof(struct format_record) == 64 && offsetof(struct format_record, a) == 32,
	       "as written");
_Static_assert(offsetof(struct format_record, crc) == 60 && sizeof(struct format_sum) == 24,
	       "as written");
_Static_assert(sizeof(struct object_holder) == 48 && offsetof(struct object_holder, devices) == 40,
	       "a holder is written as it is");

#endif
