/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
#include "criu/content.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "base/err.h"
#include "criu/abi.h"
#include "criu/gpu/drm.h"
#include "criu/gpu/mover.h"
#include "criu/say.h"

/* The buffers that a file owns, one after the other. */
struct owned {
	const struct catalog *catalog;
	const struct content_place *places; /* when they are saved, */
	int fd;				    /* and the file, when they are filled */
	uint32_t file, buffer, after;
	uint32_t minor; /* of the node that has them now */
	bool small;	/* the CPU does not reach all of its memory */
	struct object_holder holder; /* of the buffer; */
	struct contents_view view;   /* open when some of it was copied by the CPU, */
	int dmabuf;		     /* or this, to be moved */
	struct mover mover;
};

/* Returns an error of what was written last. */
static int content_leave_buffer(struct owned *o)
{
	int r = mover_flush(&o->mover);

	contents_view_close(&o->view);
	if (o->dmabuf >= 0)
		close(o->dmabuf);
	o->dmabuf = -EBADF;
	return r;
}

static int content_next(void *arg, struct object *ret)
{
	struct owned *o = arg;
	const struct catalog *c = o->catalog;

	int r = content_leave_buffer(o);

	if (r < 0)
		return r;
	for (; o->after < c->n[CATALOG_BUFFERS]; o->after++) {
		const struct catalog_buffer *b = &c->buffers[o->after];

		if (b->owner == CATALOG_NONE || c->holders[b->owner].file != o->file)
			continue;
		o->buffer = o->after++;
		o->holder = (struct object_holder){.flags = OBJECT_EXPORTS,
						   .handle = c->holders[b->owner].handle};
		*ret = (struct object){.kind = (uint32_t)b->domains, .bytes = b->bytes,
				       .nholders = 1, .holders = &o->holder};
		return 1;
	}
	return 0;
}

/*
 * False for a buffer that the kernel maps for nobody, and for one that the kernel would have to
 * move first: if there is no room, a process that touches it is killed.
 */
static bool content_is_reached(const struct owned *o)
{
	const struct catalog_buffer *b = &o->catalog->buffers[o->buffer];

	return o->catalog->holders[b->owner].mmap_offset &&
	       !(o->small && b->domains & AMDGPU_GEM_DOMAIN_VRAM);
}

static int content_view(struct owned *o, bool out)
{
	const struct catalog_buffer *b = &o->catalog->buffers[o->buffer];
	struct content_place place = {.fd = o->fd};
	int r = 0;

	if (out)
		r = drm_mmap_offset(place.fd, o->catalog->holders[b->owner].handle, &place.offset);
	else
		place = o->places[o->buffer];
	return r < 0 ? r : contents_view_open(&o->view, place.fd, place.offset, b->bytes, out);
}

/* Opens the buffer's dma-buf in our own file. A buffer that is never exported has none. */
static int content_dmabuf(struct owned *o, bool out)
{
	const struct catalog_buffer *b = &o->catalog->buffers[o->buffer];

	if (out)
		return drm_export(o->fd, o->catalog->holders[b->owner].handle, O_RDWR);
	return o->places[o->buffer].is_dmabuf
		       ? fcntl(o->places[o->buffer].fd, F_DUPFD_CLOEXEC, 0) : -EPERM;
}

static int content_refuse(const struct owned *o, bool out, bool reached, int r)
{
	uint32_t owner = o->catalog->buffers[o->buffer].owner;

	SAY_ERROR("buffer %u of render node %u cannot be %s%s: %s", o->catalog->holders[owner].handle,
		  o->catalog->files[o->file].minor, out ? "filled" : "read",
		  reached ? " by the CPU"
			  : ": the CPU does not reach it, and the GPU's engine does not copy it",
		  r == -ENODEV ? "it copies in a way that is not known, or not right" : strerror(-r));
	return r;
}

/*
 * A buffer in the GPU's memory is moved. A buffer that is never exported has no dma-buf for that, and the CPU
 * has to reach it.
 */
static int content_begin(struct owned *o, bool reached, bool out)
{
	const struct catalog_buffer *b = &o->catalog->buffers[o->buffer];

	if (o->view.at || o->dmabuf >= 0)
		return 0;
	if (b->domains & AMDGPU_GEM_DOMAIN_VRAM || !reached)
		o->dmabuf = content_dmabuf(o, out);
	if (o->dmabuf >= 0)
		return 0;
	return reached ? content_view(o, out) : o->dmabuf;
}

static int content_copy(void *arg, uint64_t offset, void *memory, size_t len, bool out)
{
	struct owned *o = arg;
	bool reached = content_is_reached(o);
	const struct catalog_buffer *b = &o->catalog->buffers[o->buffer];
	int r = content_begin(o, reached, out);
	const struct kfd_place place = {o->minor, o->dmabuf, b->bytes, true};

	if (r >= 0 && o->view.at)
		contents_view_copy(&o->view, offset, memory, len);
	else if (r >= 0)
		r = out ? mover_write(&o->mover, &place, offset, memory, len)
			: mover_read(&o->mover, &place, offset, memory, len);
	return r < 0 ? content_refuse(o, out, o->view.at, r) : 0;
}

static int content_run(struct owned *o, const struct contents_seal *seal, bool out)
{
	const struct catalog_file *file = &o->catalog->files[o->file];
	struct damage damage = {.text = ""};
	char name[64];
	const struct contents contents = {criu_get_image_dir(), name, o->catalog->id, {1, 1}, *seal,
					  content_next, content_copy, o};
	struct mover_count count;
	int r, left;

	snprintf(name, sizeof(name), "allot-amdgpu-%u.objects", file->id);
	o->dmabuf = -EBADF;
	o->small = !engine_is_needless(o->minor);
	r = out ? contents_load(&contents, &damage) : contents_save(&contents, 0);
	left = content_leave_buffer(o);
	r = r < 0 ? r : left;
	count = mover_close(&o->mover);
	if (count.engine_requests || count.cpu_requests)
		SAY_INFO("content of file %u: %" PRIu64 " bytes by the GPU's engine in %" PRIu64
			 " requests, %" PRIu64 " by threads of the CPU in %" PRIu64
			 ", at most %u under way",
			 file->id, count.engine_bytes, count.engine_requests, count.cpu_bytes,
			 count.cpu_requests, count.most);
	if (r < 0)
		SAY_ERROR("what file %u of render node %u holds cannot be %s: %s", file->id,
			  file->minor, out ? "put back" : "written",
			  *damage.text ? damage.text : strerror(-r));
	return r;
}

int content_save(const struct catalog *c, uint32_t file, const struct contents_seal *seal,
		 const struct content_place *places)
{
	struct owned owned = {.catalog = c, .places = places, .file = file,
			      .minor = c->files[file].minor};

	return content_run(&owned, seal, false);
}

int content_fill(const struct catalog *c, uint32_t file, const struct contents_seal *seal, int fd)
{
	struct owned owned = {.catalog = c, .fd = fd, .file = file};
	struct stat st;

	if (fstat(fd, &st) < 0)
		return err_errno();
	owned.minor = minor(st.st_rdev);
	return content_run(&owned, seal, true);
}
