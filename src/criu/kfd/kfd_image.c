/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
#include "criu/kfd/kfd_image.h"

#include <errno.h>

#include "amd/abi/kfd_criu.h"
#include "image/tables.h"

_Static_assert(sizeof(struct match_gpu) == 120 && sizeof(struct match_link) == 12, "as written");
_Static_assert(sizeof(struct kfd_image_process) == 40, "as written");
_Static_assert(sizeof(struct kfd_image_name) == 12, "as written");
_Static_assert(sizeof(struct kfd_image_buffer) == 16, "as written");
_Static_assert(sizeof(struct kfd_image_holder) == 56, "as written");

static const uint32_t record_bytes[KFD_IMAGE_LISTS] = {
	[KFD_IMAGE_GPUS] = sizeof(struct match_gpu),
	[KFD_IMAGE_LINKS] = sizeof(struct match_link),
	[KFD_IMAGE_PROCESSES] = sizeof(struct kfd_image_process),
	[KFD_IMAGE_NAMES] = sizeof(struct kfd_image_name),
	[KFD_IMAGE_BUFFERS] = sizeof(struct kfd_image_buffer),
	[KFD_IMAGE_HOLDERS] = sizeof(struct kfd_image_holder),
	[KFD_IMAGE_BYTES] = 1,
};

static const struct tables_format format = {
	.magic = UINT64_C(0x44464b544f4c4c41), /* "ALLOTKFD" */
	.file = KFD_IMAGE_FILE,
	.what = "image of /dev/kfd",
	.version = 1,
	.max_bytes = KFD_IMAGE_MAX_BYTES,
	.tail_bytes = sizeof(((struct kfd_image *)0)->id),
	.nlists = KFD_IMAGE_LISTS,
	.record_bytes = record_bytes,
};

void kfd_image_done(struct kfd_image *image)
{
	tables_free(&format, image->n, image->list);
}

int64_t kfd_image_add(struct kfd_image *image, enum kfd_image_list list, const void *records,
		      uint32_t n)
{
	return tables_add(&format, image->n, image->list, list, records, n);
}

struct object_limits kfd_image_limits(const struct kfd_image *image)
{
	return (struct object_limits){.ndevices = image->n[KFD_IMAGE_GPUS],
				      .nprocesses = image->n[KFD_IMAGE_PROCESSES]};
}

int kfd_image_gpu(const struct kfd_image *image, const struct kfd_image_process *process,
		  uint32_t gpu_id)
{
	for (uint32_t i = 0; i < process->ndevices; i++)
		if (image->names[process->first_device + i].gpu_id == gpu_id)
			return (int)image->names[process->first_device + i].gpu;
	return -1;
}

bool kfd_image_is_shared(const struct kfd_image *image, uint32_t buffer)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < image->n[KFD_IMAGE_HOLDERS]; i++)
		n += image->holders[i].buffer == buffer;
	return n > 1;
}

uint32_t kfd_image_times(const struct kfd_image_holder *h)
{
	return h->flags & KFD_IOC_ALLOC_MEM_FLAGS_AQL_QUEUE_MEM ? 2 : 1;
}

bool kfd_image_owns(const struct kfd_image *image, uint32_t process, uint32_t buffer)
{
	uint32_t owner = image->buffers[buffer].owner;

	return owner != KFD_IMAGE_NONE && image->holders[owner].process == process;
}

/*
 * --- Conditions: NULL, or the one that is not met -----------------------------------------------
 */

/* Names and holders of a process follow those of the one before: none is left over, or two's. */
struct so_far {
	uint64_t names, holders;
};

static const char *image_names_wrong(const struct kfd_image *image,
				     const struct kfd_image_process *p)
{
	const struct kfd_image_name *names = image->names + p->first_device;

	for (uint32_t i = 0; i < p->ndevices; i++) {
		if (!names[i].gpu_id || names[i].gpu >= image->n[KFD_IMAGE_GPUS])
			return "a name is of no GPU";
		for (uint32_t j = 0; j < i; j++)
			if (names[i].gpu_id == names[j].gpu_id || names[i].gpu == names[j].gpu)
				return "a process calls two GPUs alike";
	}
	return NULL;
}

static const char *image_process_wrong(const struct kfd_image *image, uint32_t process,
				       struct so_far *so_far)
{
	const struct kfd_image_process *p = &image->processes[process];
	uint64_t least = sizeof(struct kfd_criu_process_priv) +
			 (uint64_t)p->ndevices * sizeof(struct kfd_criu_device_priv) +
			 (uint64_t)p->nholders * sizeof(struct kfd_criu_bo_priv);

	if (p->ndevices != image->n[KFD_IMAGE_GPUS] || p->first_device != so_far->names ||
	    p->ndevices > image->n[KFD_IMAGE_NAMES] - so_far->names)
		return "a process's GPUs are not those of the image";
	if (p->first_holder != so_far->holders ||
	    p->nholders > image->n[KFD_IMAGE_HOLDERS] - so_far->holders)
		return "a process's buffers are none";
	if (p->priv_bytes < least || p->priv_at > image->n[KFD_IMAGE_BYTES] ||
	    p->priv_bytes > image->n[KFD_IMAGE_BYTES] - p->priv_at)
		return "the kernel's data of a process are not there";
	for (uint32_t i = 0; i < p->nholders; i++)
		if (image->holders[p->first_holder + i].process != process)
			return "a buffer is another process's";
	so_far->names += p->ndevices;
	so_far->holders += p->nholders;
	return image_names_wrong(image, p);
}

static const char *image_holder_wrong(const struct kfd_image *image,
				      const struct kfd_image_holder *h)
{
	int gpu = kfd_image_gpu(image, &image->processes[h->process], h->gpu_id);

	if (gpu < 0)
		return "a buffer is of no GPU";
	if (h->buffer != KFD_IMAGE_NONE && (h->buffer >= image->n[KFD_IMAGE_BUFFERS] ||
					    image->buffers[h->buffer].bytes != h->bytes))
		return "a buffer's content is none";
	if (!h->bytes || h->bytes > OBJECT_MAX_BYTES || h->bytes % OBJECT_PAGE)
		return "a buffer's size is none";
	if (h->index > KFD_IMAGE_INDEX_MAX)
		return "a buffer's handle is none";
	return NULL;
}

static const char *image_buffer_wrong(const struct kfd_image *image, uint32_t buffer)
{
	const struct kfd_image_buffer *b = &image->buffers[buffer];

	if (b->gpu >= image->n[KFD_IMAGE_GPUS])
		return "content is of no GPU";
	if (b->owner != KFD_IMAGE_NONE &&
	    (b->owner >= image->n[KFD_IMAGE_HOLDERS] || image->holders[b->owner].buffer != buffer))
		return "content has no owner";
	return NULL;
}

static const char *image_wrong(const struct kfd_image *image)
{
	struct so_far so_far = {0};
	const char *wrong = NULL;

	if (image->n[KFD_IMAGE_GPUS] > MATCH_GPUS)
		return "it has too many GPUs";
	for (uint32_t i = 0; i < image->n[KFD_IMAGE_LINKS]; i++)
		if (image->links[i].from >= image->n[KFD_IMAGE_GPUS] ||
		    image->links[i].to >= image->n[KFD_IMAGE_GPUS])
			return "a link is between no GPUs";
	for (uint32_t i = 0; i < image->n[KFD_IMAGE_PROCESSES] && !wrong; i++)
		wrong = image_process_wrong(image, i, &so_far);
	if (!wrong && (so_far.names != image->n[KFD_IMAGE_NAMES] ||
		       so_far.holders != image->n[KFD_IMAGE_HOLDERS]))
		wrong = "names or buffers are no process's";
	for (uint32_t i = 0; i < image->n[KFD_IMAGE_HOLDERS] && !wrong; i++)
		wrong = image_holder_wrong(image, &image->holders[i]);
	for (uint32_t i = 0; i < image->n[KFD_IMAGE_BUFFERS] && !wrong; i++)
		wrong = image_buffer_wrong(image, i);
	return wrong;
}

/* --- Out, and back ------------------------------------------------------------------------------
 */

int kfd_image_pack(const struct kfd_image *image, void **ret, size_t *ret_len)
{
	return image_wrong(image)
		       ? -EINVAL
		       : tables_pack(&format, image->id, image->n, image->list, ret, ret_len);
}

int kfd_image_unpack(const void *file, size_t len, struct kfd_image *ret, struct damage *damage)
{
	struct kfd_image image = {.n = {0}};
	int r = tables_unpack(&format, file, len, image.id, image.n, image.list, damage);
	const char *wrong = r == 0 ? image_wrong(&image) : NULL;

	if (wrong) {
		kfd_image_done(&image);
		return damage_say(damage, -EBADMSG, KFD_IMAGE_FILE, DAMAGE_NOWHERE,
				  DAMAGE_NO_OBJECT, "%s", wrong);
	}
	if (r == 0)
		*ret = image;
	return r;
}
