/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/* Restore of render nodes' files: restore.h says in which steps. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "criu/contexts.h"
#include "criu/gpu/drm.h"
#include "criu/handles.h"
#include "criu/render.h"
#include "criu/say.h"

static int render_refuse(const struct restore *restore, uint32_t file, const char *what, int r)
{
	const struct catalog_file *is = &restore->catalog.files[file];

	SAY_ERROR("file %u of render node %u: %s: %s", is->id, is->minor, what, strerror(-r));
	return r;
}

static bool render_is_owner(const struct catalog *c, uint32_t holder)
{
	return c->buffers[c->holders[holder].buffer].owner == holder;
}

/* --- First step: the file's own buffers ------------------------------------------------------ */

/* The highest of the numbers that are occupied first. */
static uint32_t render_highest(const struct catalog *c, uint32_t file)
{
	uint32_t highest = 0;

	for (uint32_t i = 0; i < c->n[CATALOG_HOLDERS]; i++)
		if (c->holders[i].file == file && c->holders[i].handle > highest &&
		    c->holders[i].handle <= HANDLES_OCCUPIED)
			highest = c->holders[i].handle;
	return highest;
}

static int render_publish(struct restore *restore, int fd, uint32_t handle, uint32_t buffer)
{
	CLEANUP_CLOSE int dmabuf =
		drm_export(fd, handle, restore->catalog.buffers[buffer].exported);

	return dmabuf < 0 ? dmabuf
			  : restore_publish(restore, restore_buffer(restore, buffer), dmabuf);
}

static int render_create(struct restore *restore, int fd, uint32_t holder)
{
	const struct catalog *c = &restore->catalog;
	const struct catalog_holder *h = &c->holders[holder];
	const struct catalog_buffer *b = &c->buffers[h->buffer];
	uint32_t made;
	int r = handles_vacate(fd, h->handle);

	if (r == 0)
		r = drm_create(fd, b->bytes, b->alignment, b->domains, b->flags, &made);
	if (r == 0)
		r = handles_settle(fd, made, h->handle);
	if (r == 0 && catalog_is_shared(c, h->buffer))
		r = render_publish(restore, fd, h->handle, h->buffer);
	return r;
}

static int render_first_step(struct restore *restore, uint32_t file)
{
	const struct catalog *c = &restore->catalog;
	uint32_t minor = c->files[file].minor;
	CLEANUP_CLOSE int fd =
		drm_open(restore->kfd ? kfd_restore_minor(restore->kfd, minor) : minor);
	int r = fd < 0 ? fd : drm_is_amdgpu(fd) ? 0 : -ENODEV;

	if (r < 0)
		return render_refuse(restore, file, "cannot be opened", r);
	r = handles_occupy(fd, render_highest(c, file));
	for (uint32_t i = 0; r == 0 && i < c->n[CATALOG_HOLDERS]; i++)
		if (c->holders[i].file == file && render_is_owner(c, i))
			r = render_create(restore, fd, i);
	if (r == -EEXIST)
		return render_refuse(restore, file,
				     "this kernel does not give handles the numbers that they had", r);
	if (r == 0)
		r = published_put(&restore->shared->files[file].file, fd);
	return r < 0 ? render_refuse(restore, file, "its buffers cannot be created", r) : 0;
}

int render_begin(struct restore *restore, uint32_t file)
{
	struct restore_file *files = restore->shared->files;
	pthread_mutex_t *first = restore->retries ? &files[file].first : &restore->shared->first;
	int r = 0;

	pthread_mutex_lock(first);
	for (uint32_t i = 0; r == 0 && i < restore->catalog.n[CATALOG_FILES]; i++)
		if ((!restore->retries || i == file) && !published_is(&files[i].file))
			r = render_first_step(restore, i);
	pthread_mutex_unlock(first);
	return r;
}

/* --- Second step: imported buffers, and the rest --------------------------------------------- */

static bool render_has_all(const struct restore *restore, uint32_t file)
{
	const struct catalog *c = &restore->catalog;

	for (uint32_t i = 0; i < c->n[CATALOG_HOLDERS]; i++)
		if (c->holders[i].file == file && !render_is_owner(c, i) &&
		    !published_is(restore_buffer(restore, c->holders[i].buffer)))
			return false;
	return true;
}

static int render_import(struct restore *restore, int fd, uint32_t holder)
{
	const struct catalog_holder *h = &restore->catalog.holders[holder];
	CLEANUP_CLOSE int dmabuf = published_get(restore_buffer(restore, h->buffer));
	uint32_t made;
	int r = dmabuf < 0 ? dmabuf : handles_vacate(fd, h->handle);

	if (r == 0)
		r = drm_import(fd, dmabuf, &made);
	return r < 0 ? r : handles_settle(fd, made, h->handle);
}

static int render_set_metadata(const struct catalog *c, int fd, uint32_t file)
{
	int r = 0;

	for (uint32_t i = 0; r == 0 && i < c->n[CATALOG_METADATA]; i++) {
		const struct catalog_metadata *m = &c->metadata[i];
		struct drm_amdgpu_gem_metadata block = {.handle = c->holders[m->holder].handle};

		if (c->holders[m->holder].file != file)
			continue;
		block.data.flags = m->flags;
		block.data.tiling_info = m->tiling;
		block.data.data_size_bytes = m->bytes;
		memcpy(block.data.data, m->data, sizeof(m->data));
		r = drm_metadata(fd, AMDGPU_GEM_METADATA_OP_SET_METADATA, &block);
	}
	return r;
}

static int render_map_addresses(const struct catalog *c, int fd, uint32_t file)
{
	int r = 0;

	for (uint32_t i = 0; r == 0 && i < c->n[CATALOG_MAPPINGS]; i++) {
		const struct catalog_mapping *m = &c->mappings[i];

		if (c->holders[m->holder].file == file)
			r = drm_va(fd, AMDGPU_VA_OP_MAP, c->holders[m->holder].handle, m->flags,
				   m->address, m->offset, m->bytes);
	}
	return r;
}

/* Gives back the numbers that were only occupied. */
static int render_clear(const struct catalog *c, int fd, uint32_t file)
{
	uint32_t highest = render_highest(c, file);
	CLEANUP_FREE bool *wanted = NULL;
	int r = 0;

	wanted = calloc(highest + 1, sizeof(*wanted));
	if (!wanted)
		return -ENOMEM;
	for (uint32_t i = 0; i < c->n[CATALOG_HOLDERS]; i++)
		if (c->holders[i].file == file && c->holders[i].handle <= highest)
			wanted[c->holders[i].handle] = true;
	for (uint32_t handle = 1; r == 0 && handle <= highest; handle++)
		if (!wanted[handle])
			r = drm_close_handle(fd, handle);
	return r;
}

static int render_second_step(struct restore *restore, int fd, uint32_t file)
{
	const struct catalog *c = &restore->catalog;
	int r = 0;

	for (uint32_t i = 0; r == 0 && i < c->n[CATALOG_HOLDERS]; i++)
		if (c->holders[i].file == file && !render_is_owner(c, i))
			r = render_import(restore, fd, i);
	if (r < 0)
		return render_refuse(restore, file, "a shared buffer cannot be imported", r);
	r = render_clear(c, fd, file);
	if (r == 0)
		r = render_map_addresses(c, fd, file);
	if (r < 0)
		return render_refuse(restore, file, "its buffers cannot be mapped as they were", r);
	r = render_set_metadata(c, fd, file);
	if (r < 0)
		return render_refuse(restore, file, "what was noted of its buffers cannot be", r);
	r = contexts_restore(c, fd, file);
	if (r < 0)
		return render_refuse(restore, file, "its contexts cannot be made as they were", r);
	return content_fill(c, file, &restore->seal, fd);
}

int render_restore(struct restore *restore, uint32_t file)
{
	struct restore_file *is = &restore->shared->files[file];
	CLEANUP_CLOSE int fd = -EBADF;
	int r = render_begin(restore, file);

	if (r < 0)
		return r;
	waiter_register(&is->waiter);
	if (!render_has_all(restore, file))
		return -EAGAIN;
	waiter_done(&is->waiter);
	fd = published_get(&is->file);
	r = fd < 0 ? fd : render_second_step(restore, fd, file);
	if (r < 0)
		return r;
	restore->own[file] = true;
	return TAKE_FD(fd);
}

/* --- Mappings for the CPU ------------------------------------------------------------------- */

/*
 * A buffer that several files of one device hold has the same offset in all of them. A mapping
 * keeps its file open, so one of this process's own files is preferred.
 */
static const struct catalog_holder *render_mapped(const struct restore *restore, uint32_t minor,
						  uint64_t offset)
{
	const struct catalog *c = &restore->catalog;
	const struct catalog_holder *found = NULL;

	for (uint32_t i = 0; i < c->n[CATALOG_HOLDERS]; i++) {
		const struct catalog_holder *h = &c->holders[i];

		if (c->files[h->file].minor == minor && h->mmap_offset == offset &&
		    (!found || restore->own[h->file]))
			found = h;
	}
	return found;
}

int render_map(struct restore *restore, uint32_t minor, uint64_t offset, uint64_t *ret_offset,
	       int *ret_fd)
{
	const struct catalog_holder *holder = render_mapped(restore, minor, offset);
	CLEANUP_CLOSE int fd = -EBADF;
	int r;

	if (!holder)
		return -ENOENT;
	fd = published_get(&restore->shared->files[holder->file].file);
	r = fd < 0 ? fd : drm_mmap_offset(fd, holder->handle, ret_offset);
	if (r == 0)
		*ret_fd = TAKE_FD(fd);
	return r;
}
