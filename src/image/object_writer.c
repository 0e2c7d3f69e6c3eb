/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
#include "image/object_writer.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "base/number.h"
#include "image/crc32c.h"
#include "image/format.h"
#include "image/packing.h"

struct object_writer {
	int fd, level;
	int error; /* the first one: later writes would make no image */
	bool open; /* an object was begun */
	struct object_limits limits;
	uint64_t number; /* of the next record */
	uint32_t objects;
	uint64_t content_bytes; /* given, and not zero */
	/* Of the object that was begun: */
	uint64_t bytes, end; /* its size, and up to where content was given */
	uint64_t object_content, nextents;
	uint32_t sum;
	void *packed; /* OBJECT_EXTENT bytes, where content is packed */
};

static int object_writer_put(struct object_writer *w, const void *head, size_t head_len,
			     const void *body, size_t body_len)
{
	struct iovec iov[2] = {{(void *)head, head_len}, {(void *)body, body_len}};
	int first = 0;

	while (!w->error && first < 2) {
		ssize_t n;

		if (!iov[first].iov_len) {
			first++;
			continue;
		}
		n = writev(w->fd, iov + first, 2 - first);
		if (n < 0 && errno != EINTR)
			w->error = err_errno();
		for (; n > 0; first += !iov[first].iov_len) {
			size_t part = (size_t)n < iov[first].iov_len ? (size_t)n
								     : iov[first].iov_len;

			iov[first].iov_base = (char *)iov[first].iov_base + part;
			iov[first].iov_len -= part;
			n -= (ssize_t)part;
		}
	}
	return w->error;
}

static int object_writer_record(struct object_writer *w, struct format_record *r,
				const void *payload, size_t len)
{
	r->magic = FORMAT_RECORD;
	r->number = w->number++;
	r->payload_bytes = len;
	r->payload_crc = crc32c(0, payload, len);
	r->crc = crc32c(0, r, offsetof(struct format_record, crc));
	return object_writer_put(w, r, sizeof(*r), payload, len);
}

int object_writer_open(int fd, const uint8_t id[16], const struct object_limits *limits, int level,
		       struct object_writer **ret)
{
	struct format_header header = {
		.magic = FORMAT_MAGIC,
		.version = FORMAT_VERSION,
		.record_bytes = sizeof(struct format_record),
		.page_bytes = OBJECT_PAGE,
		.extent_bytes = OBJECT_EXTENT,
	};
	struct object_writer *w;
	int r;

	if (level < 0 || level > 19)
		return -EINVAL;
	if (level && !packing_offered())
		return -ENOTSUP;
	w = calloc(1, sizeof(*w));
	if (!w)
		return -ENOMEM;
	*w = (struct object_writer){.fd = fd, .level = level, .limits = *limits};
	w->packed = level ? malloc(OBJECT_EXTENT) : NULL;
	memcpy(header.id, id, sizeof(header.id));
	header.crc = crc32c(0, &header, offsetof(struct format_header, crc));
	r = level && !w->packed ? -ENOMEM : object_writer_put(w, &header, sizeof(header), NULL, 0);
	if (r < 0) {
		object_writer_close(w);
		return r;
	}
	*ret = w;
	return 0;
}

void object_writer_close(struct object_writer *w)
{
	if (!w)
		return;
	free(w->packed);
	free(w);
}

static int object_writer_end(struct object_writer *w)
{
	struct format_record r = {
		.type = FORMAT_END_OBJECT,
		.which = w->objects - 1,
		.a = w->object_content,
		.b = w->nextents,
		.c = w->sum,
	};

	if (!w->open)
		return w->error;
	w->open = false;
	return object_writer_record(w, &r, NULL, 0);
}

int object_writer_begin(struct object_writer *w, const struct object *object)
{
	struct format_record r = {
		.type = FORMAT_OBJECT,
		.which = object->device,
		.a = object->bytes,
		.c = object->kind,
	};
	int error;

	if (object_wrong(object, &w->limits))
		return -EINVAL;
	error = object_writer_end(w);
	if (error < 0)
		return error;
	w->open = true;
	w->bytes = object->bytes;
	w->end = w->object_content = w->nextents = 0;
	w->sum = 0;
	w->objects++;
	return object_writer_record(w, &r, object->holders,
				    object->nholders * sizeof(*object->holders));
}

static int object_writer_extent(struct object_writer *w, uint64_t offset, const void *data,
				size_t len)
{
	struct format_sum sum = {.offset = offset, .bytes = len, .crc = crc32c(0, data, len)};
	struct format_record r = {
		.type = FORMAT_EXTENT,
		.which = w->objects - 1,
		.a = offset,
		.b = len,
		.c = sum.crc,
	};
	size_t packed = w->level ? packing_pack(w->packed, data, len, w->level) : 0;

	w->sum = crc32c(w->sum, &sum, sizeof(sum));
	w->nextents++;
	w->object_content += len;
	w->content_bytes += len;
	r.packing = packed ? FORMAT_ZSTD : FORMAT_PLAIN;
	return object_writer_record(w, &r, packed ? w->packed : data, packed ? packed : len);
}

static bool object_writer_is_zero(const uint8_t *page, size_t len)
{
	return !*page && !memcmp(page, page + 1, len - 1);
}

/* From the first page on that is not zero, as many as there are; 0 when all are zero. */
static size_t object_writer_run(const uint8_t *data, size_t len, size_t *at)
{
	size_t end;

	while (*at < len && object_writer_is_zero(data + *at, min_u64(OBJECT_PAGE, len - *at)))
		*at += min_u64(OBJECT_PAGE, len - *at);
	for (end = *at; end < len && end - *at < OBJECT_EXTENT;) {
		size_t page = min_u64(OBJECT_PAGE, len - end);

		if (object_writer_is_zero(data + end, page))
			break;
		end += page;
	}
	return end - *at;
}

int object_writer_content(struct object_writer *w, uint64_t offset, const void *data, size_t len)
{
	size_t at = 0, n;

	if (w->error)
		return w->error;
	if (!w->open || offset % OBJECT_PAGE || offset < w->end || offset > w->bytes ||
	    len > w->bytes - offset || (len % OBJECT_PAGE && offset + len != w->bytes))
		return -EINVAL;
	w->end = offset + len;
	while (!w->error && (n = object_writer_run(data, len, &at))) {
		object_writer_extent(w, offset + at, (const uint8_t *)data + at, n);
		at += n;
	}
	return w->error;
}

int object_writer_finish(struct object_writer *w, uint64_t manifest_bytes, uint32_t manifest_crc)
{
	struct format_record r = {.type = FORMAT_END};

	object_writer_end(w);
	r.which = w->objects;
	r.a = w->content_bytes;
	r.b = manifest_bytes;
	r.c = manifest_crc;
	return w->error ? w->error : object_writer_record(w, &r, NULL, 0);
}
