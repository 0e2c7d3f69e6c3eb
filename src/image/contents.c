/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
#include "image/contents.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/dma-buf.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "base/fd.h"
#include "base/number.h"
#include "image/object_reader.h"
#include "image/object_writer.h"

int contents_save(const struct contents *c, int level)
{
	CLEANUP_FREE void *part = malloc(OBJECT_EXTENT);
	struct object_writer *writer = NULL;
	CLEANUP_CLOSE int fd = -EBADF;
	struct object object;
	int more = part ? c->next(c->arg, &object) : -ENOMEM, r;

	if (more <= 0)
		return more;
	fd = fd_openat(c->dir, c->name, O_WRONLY | O_CREAT | O_TRUNC, 0600);
	r = fd < 0 ? fd : object_writer_open(fd, c->id, &c->limits, level, &writer);
	for (; r == 0 && more; r = more < 0 ? more : 0) {
		r = object_writer_begin(writer, &object);
		for (uint64_t at = 0, n; r == 0 && at < object.bytes; at += n) {
			n = min_u64(object.bytes - at, OBJECT_EXTENT);
			r = c->copy(c->arg, at, part, n, false);
			if (r == 0)
				r = object_writer_content(writer, at, part, n);
		}
		if (r < 0)
			break;
		more = c->next(c->arg, &object);
	}
	if (r == 0)
		r = object_writer_finish(writer, c->seal.bytes, c->seal.crc);
	object_writer_close(writer);
	return r < 0 ? r : fsync(fd) < 0 ? err_errno() : 0;
}

/* --- Back -------------------------------------------------------------------------------------- */

static int contents_refuse(const struct contents *c, struct damage *damage)
{
	return damage_say(damage, -EBADMSG, c->name, DAMAGE_NOWHERE, DAMAGE_NO_OBJECT,
			  "it belongs to another image");
}

static int contents_fill(const struct contents *c, struct object_reader *reader, uint64_t bytes,
			 struct damage *damage)
{
	struct object_extent extent = {0};
	uint64_t at = 0;
	int r, more;

	do {
		more = object_reader_content(reader, &extent, damage);
		if (!more)
			extent.offset = bytes;
		r = more < 0 ? more : 0;
		if (r == 0 && extent.offset > at)
			r = c->copy(c->arg, at, NULL, extent.offset - at, true);
		if (r == 0 && more)
			r = c->copy(c->arg, extent.offset, (void *)extent.data, extent.bytes, true);
		at = extent.offset + extent.bytes;
	} while (r == 0 && more);
	return r;
}

static bool contents_is_same(const struct object *a, const struct object *b)
{
	return a->device == b->device && a->kind == b->kind && a->bytes == b->bytes &&
	       a->nholders == b->nholders &&
	       !memcmp(a->holders, b->holders, a->nholders * sizeof(*a->holders));
}

static int contents_read(const struct contents *c, struct object_reader *reader,
			 struct object *expected, struct damage *damage)
{
	struct object object;
	uint64_t bytes = 0;
	uint8_t id[16];
	uint32_t crc = 0;
	int r, more = 1;

	object_reader_id(reader, id);
	if (memcmp(id, c->id, sizeof(id)))
		return contents_refuse(c, damage);
	for (; more; more = c->next(c->arg, expected)) {
		r = more < 0 ? more : object_reader_next(reader, &object, damage);
		if (r < 0)
			return r;
		if (!r || !contents_is_same(&object, expected))
			return contents_refuse(c, damage);
		r = contents_fill(c, reader, object.bytes, damage);
		if (r < 0)
			return r;
	}
	r = object_reader_next(reader, &object, damage);
	if (r == 0)
		object_reader_manifest(reader, &bytes, &crc);
	return r > 0 || (r == 0 && c->seal.bytes && (bytes != c->seal.bytes || crc != c->seal.crc))
		       ? contents_refuse(c, damage)
		       : r;
}

int contents_load(const struct contents *c, struct damage *damage)
{
	struct object_reader *reader = NULL;
	CLEANUP_CLOSE int fd = -EBADF;
	struct object expected;
	int r = c->next(c->arg, &expected);

	if (r <= 0)
		return r;
	fd = fd_openat(c->dir, c->name, O_RDONLY, 0);
	r = fd < 0 ? fd : object_reader_open(fd, &c->limits, &reader, damage);
	if (r == 0)
		r = contents_read(c, reader, &expected, damage);
	object_reader_close(reader);
	return r;
}

/* --- Memory and files -------------------------------------------------------------------------- */

/* Flushes caches that devices do not see. A file that is no dma-buf does not know this ioctl. */
static void contents_sync(int fd, uint64_t flags)
{
	struct dma_buf_sync sync = {.flags = flags};

	while (ioctl(fd, DMA_BUF_IOCTL_SYNC, &sync) < 0 && errno == EINTR)
		;
}

static uint64_t contents_way(const struct contents_view *view)
{
	return view->out ? DMA_BUF_SYNC_WRITE : DMA_BUF_SYNC_READ;
}

int contents_view_open(struct contents_view *view, int fd, uint64_t map_offset, uint64_t bytes,
		       bool out)
{
	void *at = mmap(NULL, bytes, out ? PROT_READ | PROT_WRITE : PROT_READ, MAP_SHARED, fd,
			(off_t)map_offset);

	if (at == MAP_FAILED)
		return err_errno();
	*view = (struct contents_view){fd, at, bytes, out};
	contents_sync(fd, DMA_BUF_SYNC_START | contents_way(view));
	return 0;
}

void contents_view_close(struct contents_view *view)
{
	if (!view->at)
		return;
	contents_sync(view->fd, DMA_BUF_SYNC_END | contents_way(view));
	munmap(view->at, view->bytes);
	view->at = NULL;
}

void contents_view_copy(const struct contents_view *view, uint64_t offset, void *memory, size_t len)
{
	if (!view->out)
		memcpy(memory, view->at + offset, len);
	else if (memory)
		memcpy(view->at + offset, memory, len);
	else
		memset(view->at + offset, 0, len);
}

int contents_put_file(int dir, const char *name, const void *data, size_t len)
{
	CLEANUP_CLOSE int fd = fd_openat(dir, name, O_WRONLY | O_CREAT | O_TRUNC, 0600);
	int r = fd < 0 ? fd : fd_pwrite_all(fd, data, len, 0);

	return r < 0 ? r : fsync(fd) < 0 ? err_errno() : 0;
}

int contents_get_file(int dir, const char *name, size_t most, void **ret, size_t *ret_len)
{
	CLEANUP_CLOSE int fd = fd_openat(dir, name, O_RDONLY, 0);
	CLEANUP_FREE void *data = NULL;
	struct stat st;
	int r;

	if (fd < 0)
		return fd;
	if (fstat(fd, &st) < 0)
		return err_errno();
	if ((uint64_t)st.st_size > most)
		return -EFBIG;
	data = malloc((size_t)st.st_size + 1);
	r = data ? fd_pread_all(fd, data, (size_t)st.st_size, 0) : -ENOMEM;
	if (r < 0)
		return r;
	*ret = TAKE_PTR(data);
	*ret_len = (size_t)st.st_size;
	return 0;
}
