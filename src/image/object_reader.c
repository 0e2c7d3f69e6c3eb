/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
#include "image/object_reader.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/err.h"
#include "image/crc32c.h"
#include "image/format.h"
#include "image/packing.h"

#define FILE_NAME "objects"
#define SKIPPED_MOST (UINT64_C(1) << 40) /* a record of an unknown type: bytes of its payload */

enum state { AT_OBJECT, IN_OBJECT, AT_END };

struct object_reader {
	int fd;
	int error; /* the first one */
	enum state state;
	struct object_limits limits;
	struct damage damage;
	uint8_t id[16];
	uint64_t at;	 /* the next byte of the file */
	uint64_t record; /* where the record began that is being read */
	uint64_t number; /* of the next record */
	uint32_t objects;
	uint64_t content_bytes; /* of all objects */
	uint64_t manifest_bytes;
	uint32_t manifest_crc;
	/* Of the object that was read last: */
	uint64_t bytes, end, object_content, nextents;
	uint32_t sum;
	/* Made as large as they have to be. */
	struct buffer {
		void *data;
		size_t room;
	} holders, payload, unpacked;
};

/* Remembers the first error, and its words. */
#define READER_FAIL(reader, r, ...)                                                             \
	((reader)->error = damage_say(&(reader)->damage, (r), FILE_NAME, (reader)->record,      \
				      (reader)->state == IN_OBJECT ? (reader)->objects - 1     \
								   : DAMAGE_NO_OBJECT,         \
				      __VA_ARGS__))

static int object_reader_answer(const struct object_reader *reader, struct damage *ret)
{
	if (reader->error && ret)
		*ret = reader->damage;
	return reader->error;
}

/* Exactly `len` bytes. */
static int object_reader_take(struct object_reader *reader, void *buf, size_t len)
{
	char *to = buf;

	while (len) {
		ssize_t n = read(reader->fd, to, len);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return READER_FAIL(reader, err_errno(), "it cannot be read: %s",
					   strerror(errno));
		if (!n)
			return READER_FAIL(reader, -ENODATA,
					   "the file ends at byte %" PRIu64
					   ", %zu bytes too early: it was cut off, or never "
					   "finished",
					   reader->at, len);
		to += n;
		len -= (size_t)n;
		reader->at += (uint64_t)n;
	}
	return 0;
}

static int object_reader_room(struct object_reader *reader, struct buffer *buf, size_t len)
{
	void *more;

	if (len <= buf->room)
		return 0;
	more = realloc(buf->data, len);
	if (!more)
		return READER_FAIL(reader, -ENOMEM, "no memory for %zu bytes", len);
	*buf = (struct buffer){more, len};
	return 0;
}

static int object_reader_header(struct object_reader *reader)
{
	struct format_header h;

	if (object_reader_take(reader, &h, sizeof(h)))
		return reader->error;
	if (h.magic != FORMAT_MAGIC)
		return READER_FAIL(reader, -EBADMSG, "it does not begin as an image of allot");
	if (crc32c(0, &h, offsetof(struct format_header, crc)) != h.crc)
		return READER_FAIL(reader, -EBADMSG, "the header is damaged (CRC)");
	if (h.version != FORMAT_VERSION)
		return READER_FAIL(reader, -EPROTONOSUPPORT,
				   "it is of version %u; this allot reads version %u", h.version,
				   FORMAT_VERSION);
	if (h.record_bytes != sizeof(struct format_record) || h.page_bytes != OBJECT_PAGE ||
	    h.extent_bytes != OBJECT_EXTENT)
		return READER_FAIL(reader, -EBADMSG, "the header's sizes are not version %u's",
				   FORMAT_VERSION);
	memcpy(reader->id, h.id, sizeof(reader->id));
	return 0;
}

int object_reader_open(int fd, const struct object_limits *limits, struct object_reader **ret,
		       struct damage *damage)
{
	struct object_reader *reader = calloc(1, sizeof(*reader));
	int r;

	if (!reader)
		return damage_say(damage, -ENOMEM, FILE_NAME, DAMAGE_NOWHERE, DAMAGE_NO_OBJECT,
				  "no memory");
	reader->fd = fd;
	reader->limits = *limits;
	object_reader_header(reader);
	r = object_reader_answer(reader, damage);
	if (r < 0)
		object_reader_close(reader);
	else
		*ret = reader;
	return r;
}

void object_reader_close(struct object_reader *reader)
{
	if (!reader)
		return;
	free(reader->holders.data);
	free(reader->payload.data);
	free(reader->unpacked.data);
	free(reader);
}

void object_reader_id(const struct object_reader *reader, uint8_t ret[16])
{
	memcpy(ret, reader->id, sizeof(reader->id));
}

/* The payload of a record of known type, which must not be longer than `most`. */
static int object_reader_payload(struct object_reader *reader, const struct format_record *r,
				 uint64_t most, struct buffer *to)
{
	if (r->payload_bytes > most)
		return READER_FAIL(reader, -EBADMSG, "its payload is of %" PRIu64 " bytes, and may "
				   "be of %" PRIu64, r->payload_bytes, most);
	if (object_reader_room(reader, to, (size_t)r->payload_bytes) ||
	    object_reader_take(reader, to->data, (size_t)r->payload_bytes))
		return reader->error;
	if (crc32c(0, to->data, (size_t)r->payload_bytes) != r->payload_crc)
		return READER_FAIL(reader, -EBADMSG, "its payload is damaged (CRC)");
	return 0;
}

/* A record that a later version may have added. */
static int object_reader_skip(struct object_reader *reader, const struct format_record *r)
{
	uint64_t left = r->payload_bytes;
	uint32_t crc = 0;
	char buf[4096];

	if (left > SKIPPED_MOST)
		return READER_FAIL(reader, -EBADMSG, "its payload is of %" PRIu64 " bytes", left);
	while (left) {
		size_t part = left < sizeof(buf) ? (size_t)left : sizeof(buf);

		if (object_reader_take(reader, buf, part))
			return reader->error;
		crc = crc32c(crc, buf, part);
		left -= part;
	}
	if (crc != r->payload_crc)
		return READER_FAIL(reader, -EBADMSG, "its payload is damaged (CRC)");
	return 0;
}

/* The next record of a known type; its payload is still to be read. */
static int object_reader_record(struct object_reader *reader, struct format_record *r)
{
	for (;;) {
		reader->record = reader->at;
		if (object_reader_take(reader, r, sizeof(*r)))
			return reader->error;
		if (r->magic != FORMAT_RECORD)
			return READER_FAIL(reader, -EBADMSG, "there is no record");
		if (crc32c(0, r, offsetof(struct format_record, crc)) != r->crc)
			return READER_FAIL(reader, -EBADMSG, "the record is damaged (CRC)");
		if (r->number != reader->number)
			return READER_FAIL(reader, -EBADMSG,
					   "it is record %" PRIu64 ", and should be %" PRIu64,
					   r->number, reader->number);
		reader->number++;
		if (r->type >= FORMAT_OBJECT && r->type <= FORMAT_END)
			return 0;
		if (!(r->flags & FORMAT_OPTIONAL))
			return READER_FAIL(reader, -EPROTONOSUPPORT,
					   "records of type %u are not known to this allot",
					   r->type);
		if (object_reader_skip(reader, r))
			return reader->error;
	}
}

static int object_reader_object(struct object_reader *reader, const struct format_record *r,
				struct object *ret)
{
	struct object object = {
		.device = r->which,
		.kind = r->c,
		.bytes = r->a,
		.nholders = (uint32_t)(r->payload_bytes / sizeof(struct object_holder)),
	};
	const char *wrong;

	reader->state = IN_OBJECT;
	reader->objects++;
	if (r->payload_bytes % sizeof(struct object_holder))
		return READER_FAIL(reader, -EBADMSG, "its holders are cut off");
	if (object_reader_payload(reader, r, OBJECT_MAX_HOLDERS * sizeof(struct object_holder),
				  &reader->holders))
		return reader->error;
	object.holders = reader->holders.data;
	wrong = object_wrong(&object, &reader->limits);
	if (wrong)
		return READER_FAIL(reader, -EBADMSG, "%s", wrong);
	reader->bytes = object.bytes;
	reader->end = reader->object_content = reader->nextents = 0;
	reader->sum = 0;
	*ret = object;
	return 1;
}

static int object_reader_finish(struct object_reader *reader, const struct format_record *r)
{
	char more;
	ssize_t n;

	if (r->payload_bytes || r->which != reader->objects || r->a != reader->content_bytes)
		return READER_FAIL(reader, -EBADMSG,
				   "the last record tells of %u objects with %" PRIu64
				   " bytes; there are %u with %" PRIu64,
				   r->which, r->a, reader->objects, reader->content_bytes);
	do
		n = read(reader->fd, &more, 1);
	while (n < 0 && errno == EINTR);
	reader->record = reader->at;
	if (n < 0)
		return READER_FAIL(reader, err_errno(), "it cannot be read: %s", strerror(errno));
	if (n)
		return READER_FAIL(reader, -EBADMSG, "there is something behind the last record");
	reader->manifest_bytes = r->b;
	reader->manifest_crc = r->c;
	reader->state = AT_END;
	return 0;
}

int object_reader_next(struct object_reader *reader, struct object *ret, struct damage *damage)
{
	struct object_extent extent;
	struct format_record record;
	int r;

	while (reader->state == IN_OBJECT && object_reader_content(reader, &extent, damage) > 0)
		;
	if (reader->error || reader->state == AT_END || object_reader_record(reader, &record))
		return object_reader_answer(reader, damage);
	if (record.type == FORMAT_OBJECT)
		r = object_reader_object(reader, &record, ret);
	else if (record.type == FORMAT_END)
		r = object_reader_finish(reader, &record);
	else
		r = READER_FAIL(reader, -EBADMSG, "content without an object");
	return reader->error ? object_reader_answer(reader, damage) : r;
}

static int object_reader_end(struct object_reader *reader, const struct format_record *r)
{
	if (r->payload_bytes || r->which != reader->objects - 1 || r->a != reader->object_content ||
	    r->b != reader->nextents || r->c != reader->sum)
		return READER_FAIL(reader, -EBADMSG, "its content is not what was written");
	reader->state = AT_OBJECT;
	return 0;
}

static int object_reader_unpack(struct object_reader *reader, const struct format_record *r)
{
	int error;

	if (object_reader_room(reader, &reader->unpacked, OBJECT_EXTENT))
		return reader->error;
	error = packing_unpack(reader->unpacked.data, (size_t)r->b, reader->payload.data,
			       (size_t)r->payload_bytes);
	if (error == -ENOTSUP)
		return READER_FAIL(reader, -EPROTONOSUPPORT,
				   "its content is compressed by zstd; this allot was built "
				   "without it");
	return error ? READER_FAIL(reader, -EBADMSG, "its content cannot be unpacked") : 0;
}

static int object_reader_extent(struct object_reader *reader, const struct format_record *r,
				struct object_extent *ret)
{
	struct format_sum sum = {.offset = r->a, .bytes = r->b, .crc = r->c};
	const void *data;

	if (r->which != reader->objects - 1 || r->a % OBJECT_PAGE || r->a < reader->end || !r->b ||
	    r->b > OBJECT_EXTENT || r->a >= reader->bytes || r->b > reader->bytes - r->a ||
	    (r->b % OBJECT_PAGE && r->a + r->b != reader->bytes))
		return READER_FAIL(reader, -EBADMSG,
				   "content of %" PRIu64 " bytes at %" PRIu64
				   " is not where it may be",
				   r->b, r->a);
	if (r->packing > FORMAT_ZSTD)
		return READER_FAIL(reader, -EPROTONOSUPPORT,
				   "its content is compressed in a way that this allot does not "
				   "know (%u)",
				   r->packing);
	if (r->packing == FORMAT_PLAIN ? r->payload_bytes != r->b : r->payload_bytes >= r->b)
		return READER_FAIL(reader, -EBADMSG, "its payload is of %" PRIu64 " bytes",
				   r->payload_bytes);
	if (object_reader_payload(reader, r, OBJECT_EXTENT, &reader->payload))
		return reader->error;
	if (r->packing != FORMAT_PLAIN && object_reader_unpack(reader, r))
		return reader->error;
	data = r->packing == FORMAT_PLAIN ? reader->payload.data : reader->unpacked.data;
	if (r->packing == FORMAT_PLAIN ? r->payload_crc != r->c
				       : crc32c(0, data, (size_t)r->b) != r->c)
		return READER_FAIL(reader, -EBADMSG, "its content is damaged (CRC)");
	reader->sum = crc32c(reader->sum, &sum, sizeof(sum));
	reader->end = r->a + r->b;
	reader->object_content += r->b;
	reader->content_bytes += r->b;
	reader->nextents++;
	*ret = (struct object_extent){.offset = r->a, .bytes = (size_t)r->b, .data = data};
	return 1;
}

int object_reader_content(struct object_reader *reader, struct object_extent *ret,
			  struct damage *damage)
{
	struct format_record record;
	int r;

	if (reader->error || reader->state != IN_OBJECT || object_reader_record(reader, &record))
		return object_reader_answer(reader, damage);
	if (record.type == FORMAT_EXTENT)
		r = object_reader_extent(reader, &record, ret);
	else if (record.type == FORMAT_END_OBJECT)
		r = object_reader_end(reader, &record);
	else
		r = READER_FAIL(reader, -EBADMSG, "the object does not end");
	return reader->error ? object_reader_answer(reader, damage) : r;
}

void object_reader_manifest(const struct object_reader *reader, uint64_t *ret_bytes,
			    uint32_t *ret_crc)
{
	*ret_bytes = reader->manifest_bytes;
	*ret_crc = reader->manifest_crc;
}
