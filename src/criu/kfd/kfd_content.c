/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
#include "criu/kfd/kfd_content.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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
	const struct kfd_image_buffer *buffer = &o->image->buffers[o->buffer];
	const struct kfd_image_holder *owner = &o->image->holders[buffer->owner];
	struct kfd_place place = {.bytes = buffer->bytes,
				  .vram = owner->flags & KFD_IOC_ALLOC_MEM_FLAGS_VRAM};
	int r = place.dmabuf = o->dmabuf(o->arg, o->buffer, &place.minor);

	if (r >= 0 && out) /* zeros are there: it is memory that the kernel has just given */
		r = memory ? o->calls->write(&place, offset, memory, len) : 0;
	else if (r >= 0)
		r = o->calls->read(&place, offset, memory, len);
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
	int r, done;

	snprintf(name, sizeof(name), KFD_IMAGE_OBJECTS, o->process);
	o->why = why;
	*why = 0;
	r = out ? contents_load(&contents, &damage) : contents_save(&contents, level);
	done = o->calls->done ? o->calls->done() : 0;
	r = r < 0 ? r : done;
	free(o->holders);
	return r < 0 && !*why ? kfd_say(why, r, "content of process %u: %s%s%s",
					o->image->processes[o->process].pid, name,
					*damage.text ? ": " : "", damage.text)
			      : r;
}

/* The processes' files are written by threads, as many at once as there are GPUs. */
struct saving {
	const struct kfd_calls *calls;
	const struct kfd_image *image;
	kfd_dmabuf_fn *dmabuf;
	void *arg;
	int dir, level;
	const struct contents_seal *seal;
	pthread_mutex_t lock;
	uint32_t next; /* process */
	int r;	       /* of the first that failed, with its reason */
	char *why;
};

static bool saving_next(struct saving *s, uint32_t *ret)
{
	bool more;

	pthread_mutex_lock(&s->lock);
	more = s->r == 0 && s->next < s->image->n[KFD_IMAGE_PROCESSES];
	if (more)
		*ret = s->next++;
	pthread_mutex_unlock(&s->lock);
	return more;
}

static void saving_fail(struct saving *s, int r, const char *why)
{
	pthread_mutex_lock(&s->lock);
	if (s->r == 0) {
		s->r = r;
		memcpy(s->why, why, KFD_WHY_BYTES);
	}
	pthread_mutex_unlock(&s->lock);
}

static void *saving_work(void *arg)
{
	char why[KFD_WHY_BYTES] = "";
	struct saving *s = arg;
	uint32_t process;

	while (saving_next(s, &process)) {
		struct owned owned = {s->calls, s->image, process, .dmabuf = s->dmabuf, .arg = s->arg};
		int r = content_run(&owned, s->dir, s->level, s->seal, false, why);

		if (r < 0)
			saving_fail(s, r, why);
	}
	return NULL;
}

/* The signals of the process that we are in are not for these threads. */
static void saving_run(struct saving *s, uint32_t threads)
{
	pthread_t *thread = calloc(threads, sizeof(*thread));
	sigset_t all, before;
	uint32_t n = 0;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	while (thread && n < threads && !pthread_create(&thread[n], NULL, saving_work, s))
		n++;
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	saving_work(s);
	while (n > 0)
		pthread_join(thread[--n], NULL);
	free(thread);
}

int kfd_content_save(const struct kfd_calls *calls, const struct kfd_image *image,
		     kfd_dmabuf_fn *dmabuf, void *arg, int dir, int level,
		     const struct contents_seal *seal, char why[KFD_WHY_BYTES])
{
	struct saving s = {calls, image, dmabuf, arg, dir, level, seal,
			   .lock = PTHREAD_MUTEX_INITIALIZER, .why = why};
	uint32_t processes = image->n[KFD_IMAGE_PROCESSES], gpus = image->n[KFD_IMAGE_GPUS];
	uint32_t threads = processes < gpus ? processes : gpus;

	saving_run(&s, threads ? threads - 1 : 0);
	return s.r;
}

int kfd_content_load(const struct kfd_calls *calls, const struct kfd_image *image, uint32_t process,
		     kfd_dmabuf_fn *dmabuf, void *arg, int dir, const struct contents_seal *seal,
		     char why[KFD_WHY_BYTES])
{
	struct owned owned = {calls, image, process, .dmabuf = dmabuf, .arg = arg};

	return content_run(&owned, dir, 0, seal, true, why);
}
