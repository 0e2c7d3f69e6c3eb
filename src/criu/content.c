/* SPDX-License-Identifier: GPL-2.0-only */
#include "criu/content.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/dma-buf.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "base/number.h"
#include "criu/abi.h"
#include "criu/drm.h"
#include "criu/say.h"
#include "image/object_reader.h"
#include "image/object_writer.h"

static const struct object_limits limits = {.ndevices = 1, .nprocesses = 1};

static bool content_owns(const struct catalog *c, uint32_t file, uint32_t buffer)
{
	return c->holders[c->buffers[buffer].owner].file == file;
}

int content_is_owner(const struct catalog *c, uint32_t file)
{
	for (uint32_t i = 0; i < c->n[CATALOG_BUFFERS]; i++)
		if (content_owns(c, file, i))
			return true;
	return false;
}

static int content_open(const struct catalog *c, uint32_t file, int flags)
{
	char name[64];
	int fd;

	snprintf(name, sizeof(name), "allot-amdgpu-%u.objects", c->files[file].id);
	fd = openat(criu_get_image_dir(), name, flags | O_CLOEXEC, 0600);
	return fd < 0 ? err_errno() : fd;
}

/* --- Into the image ------------------------------------------------------------------------- */

/* Caches that devices do not see. What is no dma-buf does not know it. */
static void content_sync(int fd, uint64_t flags)
{
	struct dma_buf_sync sync = {.flags = flags};

	while (ioctl(fd, DMA_BUF_IOCTL_SYNC, &sync) < 0 && errno == EINTR)
		;
}

static int content_save_pages(struct object_writer *writer, const char *data, uint64_t bytes)
{
	int r = 0;

	for (uint64_t at = 0, n; r == 0 && at < bytes; at += n) {
		n = min_u64(bytes - at, OBJECT_EXTENT);
		r = object_writer_content(writer, at, data + at, n);
	}
	return r;
}

static int content_save_buffer(struct object_writer *writer, const struct catalog *c,
			       uint32_t buffer, const struct content_place *place)
{
	const struct catalog_holder *owner = &c->holders[c->buffers[buffer].owner];
	struct object_holder holder = {.flags = OBJECT_EXPORTS, .handle = owner->handle};
	struct object object = {.kind = (uint32_t)c->buffers[buffer].domains,
				.bytes = c->buffers[buffer].bytes, .nholders = 1, .holders = &holder};
	void *data = MAP_FAILED;
	int r = -EPERM;

	/* It is filled again by the same access. */
	if (owner->mmap_offset) {
		data = mmap(NULL, object.bytes, PROT_READ, MAP_SHARED, place->fd,
			    (off_t)place->offset);
		r = err_errno();
	}
	if (data == MAP_FAILED) {
		SAY_ERROR("buffer %u of render node %u cannot be read by the CPU: %s", owner->handle,
			  c->files[owner->file].minor, strerror(-r));
		return r;
	}
	content_sync(place->fd, DMA_BUF_SYNC_START | DMA_BUF_SYNC_READ);
	r = object_writer_begin(writer, &object);
	if (r == 0)
		r = content_save_pages(writer, data, object.bytes);
	content_sync(place->fd, DMA_BUF_SYNC_END | DMA_BUF_SYNC_READ);
	munmap(data, object.bytes);
	return r;
}

int content_save(const struct catalog *c, uint32_t file, const struct content_seal *seal,
		 const struct content_place *places)
{
	CLEANUP_CLOSE int fd = content_open(c, file, O_WRONLY | O_CREAT | O_TRUNC);
	struct object_writer *writer = NULL;
	int r = fd < 0 ? fd : object_writer_open(fd, c->id, &limits, 0, &writer);

	for (uint32_t i = 0; r == 0 && i < c->n[CATALOG_BUFFERS]; i++)
		if (content_owns(c, file, i))
			r = content_save_buffer(writer, c, i, &places[i]);
	if (r == 0)
		r = object_writer_finish(writer, seal->bytes, seal->crc);
	if (r == 0 && fsync(fd) < 0)
		r = err_errno();
	object_writer_close(writer);
	if (r < 0)
		SAY_ERROR("what render node %u holds cannot be written: %s", c->files[file].minor,
			  strerror(-r));
	return r;
}

/* --- Back ----------------------------------------------------------------------------------- */

/* What no extent covers is zero, which a new buffer need not be. */
static int content_fill_pages(struct object_reader *reader, char *data, uint64_t bytes,
			      struct damage *damage)
{
	struct object_extent extent;
	uint64_t at = 0;
	int r;

	while ((r = object_reader_content(reader, &extent, damage)) > 0) {
		memset(data + at, 0, extent.offset - at);
		memcpy(data + extent.offset, extent.data, extent.bytes);
		at = extent.offset + extent.bytes;
	}
	if (r == 0)
		memset(data + at, 0, bytes - at);
	return r;
}

static int content_fill_buffer(struct object_reader *reader, const struct catalog *c,
			       uint32_t buffer, int fd, struct damage *damage)
{
	uint32_t handle = c->holders[c->buffers[buffer].owner].handle;
	uint64_t bytes = c->buffers[buffer].bytes, offset;
	struct object object;
	void *data;
	int r = object_reader_next(reader, &object, damage);

	if (r < 0)
		return r;
	if (r == 0 || object.bytes != bytes || object.nholders != 1 ||
	    object.holders[0].handle != handle)
		return damage_say(damage, -EBADMSG, "objects", DAMAGE_NOWHERE, DAMAGE_NO_OBJECT,
				  "it has other buffers than the catalog");
	r = drm_mmap_offset(fd, handle, &offset);
	if (r < 0)
		return r;
	data = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, (off_t)offset);
	if (data == MAP_FAILED)
		return err_errno();
	r = content_fill_pages(reader, data, bytes, damage);
	munmap(data, bytes);
	return r;
}

/* The last record, and what it vouches for. */
static int content_end(struct object_reader *reader, const struct catalog *c,
		       const struct content_seal *seal, struct damage *damage)
{
	struct object object;
	uint8_t id[16];
	uint64_t bytes = 0;
	uint32_t crc = 0;
	int r = object_reader_next(reader, &object, damage);

	if (r < 0)
		return r;
	object_reader_id(reader, id);
	if (r == 0)
		object_reader_manifest(reader, &bytes, &crc);
	if (r > 0 || bytes != seal->bytes || crc != seal->crc || memcmp(id, c->id, sizeof(id)))
		return damage_say(damage, -EBADMSG, "objects", DAMAGE_NOWHERE, DAMAGE_NO_OBJECT,
				  "it is of another catalog");
	return 0;
}

int content_fill(const struct catalog *c, uint32_t file, const struct content_seal *seal, int fd)
{
	CLEANUP_CLOSE int image = content_open(c, file, O_RDONLY);
	struct damage damage = {.text = ""};
	struct object_reader *reader = NULL;
	int r = image < 0 ? image : object_reader_open(image, &limits, &reader, &damage);

	for (uint32_t i = 0; r == 0 && i < c->n[CATALOG_BUFFERS]; i++)
		if (content_owns(c, file, i))
			r = content_fill_buffer(reader, c, i, fd, &damage);
	if (r == 0)
		r = content_end(reader, c, seal, &damage);
	object_reader_close(reader);
	if (r < 0)
		SAY_ERROR("what file %u of render node %u held cannot be put back: %s",
			  c->files[file].id, c->files[file].minor,
			  *damage.text ? damage.text : strerror(-r));
	return r;
}
