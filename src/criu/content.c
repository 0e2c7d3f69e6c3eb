/* SPDX-License-Identifier: GPL-2.0-only */
#include "criu/content.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "criu/abi.h"
#include "criu/drm.h"
#include "criu/say.h"

/* The buffers that a file owns, one after the other. */
struct owned {
	const struct catalog *catalog;
	const struct content_place *places; /* when they are saved, */
	int fd;				    /* and the file, when they are filled */
	uint32_t file, buffer, after;
	struct object_holder holder; /* of the buffer; */
	struct contents_view view;   /* open when some of it was copied */
};

static int content_next(void *arg, struct object *ret)
{
	struct owned *o = arg;
	const struct catalog *c = o->catalog;

	contents_view_close(&o->view);
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

static int content_view(struct owned *o, bool out)
{
	const struct catalog_buffer *b = &o->catalog->buffers[o->buffer];
	const struct catalog_holder *owner = &o->catalog->holders[b->owner];
	struct content_place place = {.fd = o->fd};
	int r = owner->mmap_offset ? 0 : -EPERM; /* it is filled by the same access */

	if (r == 0 && out)
		r = drm_mmap_offset(place.fd, owner->handle, &place.offset);
	else if (r == 0)
		place = o->places[o->buffer];
	if (r == 0)
		r = contents_view_open(&o->view, place.fd, place.offset, b->bytes, out);
	if (r < 0)
		SAY_ERROR("buffer %u of render node %u cannot be %s by the CPU: %s", owner->handle,
			  o->catalog->files[o->file].minor, out ? "filled" : "read", strerror(-r));
	return r;
}

static int content_copy(void *arg, uint64_t offset, void *memory, size_t len, bool out)
{
	struct owned *o = arg;
	int r = o->view.at ? 0 : content_view(o, out);

	if (r == 0)
		contents_view_copy(&o->view, offset, memory, len);
	return r;
}

static int content_run(struct owned *o, const struct contents_seal *seal, bool out)
{
	const struct catalog_file *file = &o->catalog->files[o->file];
	struct damage damage = {.text = ""};
	char name[64];
	const struct contents contents = {criu_get_image_dir(), name, o->catalog->id, {1, 1}, *seal,
					  content_next, content_copy, o};
	int r;

	snprintf(name, sizeof(name), "allot-amdgpu-%u.objects", file->id);
	r = out ? contents_load(&contents, &damage) : contents_save(&contents, 0);
	contents_view_close(&o->view);
	if (r < 0)
		SAY_ERROR("what file %u of render node %u holds cannot be %s: %s", file->id,
			  file->minor, out ? "put back" : "written",
			  *damage.text ? damage.text : strerror(-r));
	return r;
}

int content_save(const struct catalog *c, uint32_t file, const struct contents_seal *seal,
		 const struct content_place *places)
{
	struct owned owned = {.catalog = c, .places = places, .file = file};

	return content_run(&owned, seal, false);
}

int content_fill(const struct catalog *c, uint32_t file, const struct contents_seal *seal, int fd)
{
	struct owned owned = {.catalog = c, .fd = fd, .file = file};

	return content_run(&owned, seal, true);
}
