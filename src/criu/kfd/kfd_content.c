/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
#include "criu/kfd/kfd_content.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "amd/abi/kfd.h"
#include "base/cleanup.h"

/* The buffers that a process makes, one after the other. */
struct owned {
	const struct kfd_calls *calls;
	const struct kfd_image *image;
	uint32_t process, buffer, after;
	kfd_dmabuf_fn *dmabuf;
	void *arg;
	struct object_holder *holders; /* of the last one */
	char *why;
};

/* All holders of the buffer, malloc'ed: -ENOMEM. */
static int content_holders(const struct kfd_image *image, uint32_t buffer,
			   struct object_holder **ret, uint32_t *ret_n)
{
	struct object_holder *list = calloc(image->n[KFD_IMAGE_HOLDERS], sizeof(*list));
	uint32_t n = 0;

	if (!list)
		return -ENOMEM;
	for (uint32_t i = 0; i < image->n[KFD_IMAGE_HOLDERS]; i++) {
		const struct kfd_image_holder *h = &image->holders[i];

		if (h->buffer != buffer)
			continue;
		list[n++] = (struct object_holder){
			.process = h->process,
			.flags = OBJECT_READS |
				 (h->flags & KFD_IOC_ALLOC_MEM_FLAGS_WRITABLE ? OBJECT_WRITES : 0) |
				 (image->buffers[buffer].owner == i ? OBJECT_EXPORTS : 0),
			.handle = (uint64_t)h->gpu_id << 32 | h->index,
			.address = h->address,
			.bytes = h->address ? h->bytes : 0,
			.devices = h->mapped};
	}
	*ret = list;
	*ret_n = n;
	return 0;
}

static int content_next(void *arg, struct object *ret)
{
	struct owned *o = arg;
	const struct kfd_image_buffer *b;
	int r;

	while (o->after < o->image->n[KFD_IMAGE_BUFFERS] &&
	       !kfd_image_owns(o->image, o->process, o->after))
		o->after++;
	if (o->after == o->image->n[KFD_IMAGE_BUFFERS])
		return 0;
	o->buffer = o->after++;
	b = &o->image->buffers[o->buffer];
	free(o->holders);
	o->holders = NULL;
	*ret = (struct object){
		.device = b->gpu, .kind = o->image->holders[b->owner].flags, .bytes = b->bytes};
	r = content_holders(o->image, o->buffer, &o->holders, &ret->nholders);
	ret->holders = o->holders;
	return r < 0 ? r : 1;
}

static const char *content_reason(int error)
{
	switch (error) {
	case -EPERM:
		return ": the CPU does not reach it";
	case -ENODEV:
		return ": the CPU does not reach it, and the GPU's engine does not copy it";
	}
	return "";
}

static int content_copy(void *arg, uint64_t offset, void *memory, size_t len, bool out)
{
	const struct owned *o = arg;
	const struct kfd_image_holder *owner =
		&o->image->holders[o->image->buffers[o->buffer].owner];
	uint32_t minor;
	int dmabuf = o->dmabuf(o->arg, o->buffer, &minor), r = dmabuf;

	if (r >= 0 && out) /* zeros are there: it is memory that the kernel has just given */
		r = memory ? o->calls->write(minor, dmabuf, offset, memory, len) : 0;
	else if (r >= 0)
		r = o->calls->read(minor, dmabuf, offset, memory, len);
	return r < 0 ? kfd_say(o->why, r,
			       "process %u: the content of its buffer %#x of GPU %u is not %s%s",
			       o->image->processes[o->process].pid, owner->index, owner->gpu_id,
			       out ? "put back" : "saved", content_reason(r))
		     : 0;
}

/* Of one process. */
static int content_run(struct owned *o, int dir, int level, const struct contents_seal *seal,
		       bool out, char why[KFD_WHY_BYTES])
{
	struct damage damage = {.text = ""};
	char name[48];
	const struct contents contents = {dir,	 name,	       o->image->id, kfd_image_limits(o->image),
					  *seal, content_next, content_copy, o};
	int r;

	snprintf(name, sizeof(name), KFD_IMAGE_OBJECTS, o->process);
	o->why = why;
	*why = 0;
	r = out ? contents_load(&contents, &damage) : contents_save(&contents, level);
	free(o->holders);
	return r < 0 && !*why ? kfd_say(why, r, "content of process %u: %s%s%s",
					o->image->processes[o->process].pid, name,
					*damage.text ? ": " : "", damage.text)
			      : r;
}

int kfd_content_save(const struct kfd_calls *calls, const struct kfd_image *image,
		     kfd_dmabuf_fn *dmabuf, void *arg, int dir, int level,
		     const struct contents_seal *seal, char why[KFD_WHY_BYTES])
{
	int r = 0;

	for (uint32_t i = 0; r == 0 && i < image->n[KFD_IMAGE_PROCESSES]; i++) {
		struct owned owned = {calls, image, i, .dmabuf = dmabuf, .arg = arg};

		r = content_run(&owned, dir, level, seal, false, why);
	}
	return r;
}

int kfd_content_load(const struct kfd_calls *calls, const struct kfd_image *image, uint32_t process,
		     kfd_dmabuf_fn *dmabuf, void *arg, int dir, const struct contents_seal *seal,
		     char why[KFD_WHY_BYTES])
{
	struct owned owned = {calls, image, process, .dmabuf = dmabuf, .arg = arg};

	return content_run(&owned, dir, 0, seal, true, why);
}
