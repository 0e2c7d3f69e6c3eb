/* SPDX-License-Identifier: Apache-2.0 */
#include "criu/kfd/kfd_image.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "amd/abi/kfd_criu.h"
#include "image/crc32c.h"

#define MAGIC	  UINT64_C(0x44464b544f4c4c41) /* "ALLOTKFD" */
#define VERSION	  1
#define LISTS_MAX 64

#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "images are written as they lie in memory, little-endian"
#endif

struct header {
	uint64_t magic;
	uint32_t version;
	uint32_t nlists;
	uint8_t id[16];
};

struct row {
	uint32_t record_bytes, n;
};

_Static_assert(sizeof(struct header) == 32 && sizeof(struct row) == 8, "as written");
_Static_assert(sizeof(struct match_gpu) == 120 && sizeof(struct match_link) == 12, "as written");
_Static_assert(sizeof(struct kfd_image_process) == 40, "as written");
_Static_assert(sizeof(struct kfd_image_name) == 8, "as written");
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

void kfd_image_done(struct kfd_image *image)
{
	for (int i = 0; i < KFD_IMAGE_LISTS; i++)
		free(image->list[i]);
	*image = (struct kfd_image){.n = {0}};
}

int64_t kfd_image_add(struct kfd_image *image, enum kfd_image_list list, const void *records,
		      uint32_t n)
{
	uint32_t first = image->n[list];
	char *grown;

	if (n > KFD_IMAGE_MAX_BYTES - first)
		return -ENOMEM;
	grown = reallocarray(image->list[list], (size_t)first + n + 1, record_bytes[list]);
	if (!grown)
		return -ENOMEM;
	image->list[list] = grown;
	memcpy(grown + (size_t)first * record_bytes[list], records, (size_t)n * record_bytes[list]);
	image->n[list] += n;
	return first;
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

bool kfd_image_owns(const struct kfd_image *image, uint32_t process, uint32_t buffer)
{
	uint32_t owner = image->buffers[buffer].owner;

	return owner != KFD_IMAGE_NONE && image->holders[owner].process == process;
}

/* --- What must be so: NULL, or what is not ------------------------------------------------------
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
	size_t len = sizeof(struct header) + KFD_IMAGE_LISTS * sizeof(struct row) + 4, at;
	struct header header = {.magic = MAGIC, .version = VERSION, .nlists = KFD_IMAGE_LISTS};
	uint32_t crc;
	char *file;

	for (int i = 0; i < KFD_IMAGE_LISTS; i++)
		len += (size_t)image->n[i] * record_bytes[i];
	if (image_wrong(image) || len > KFD_IMAGE_MAX_BYTES)
		return -EINVAL;
	file = malloc(len);
	if (!file)
		return -ENOMEM;
	memcpy(header.id, image->id, sizeof(header.id));
	memcpy(file, &header, sizeof(header));
	at = sizeof(header);
	for (int i = 0; i < KFD_IMAGE_LISTS; i++, at += sizeof(struct row))
		memcpy(file + at, &(struct row){record_bytes[i], image->n[i]}, sizeof(struct row));
	for (int i = 0; i < KFD_IMAGE_LISTS; i++) {
		size_t bytes = (size_t)image->n[i] * record_bytes[i];

		if (bytes)
			memcpy(file + at, image->list[i], bytes);
		at += bytes;
	}
	crc = crc32c(0, file, at);
	memcpy(file + at, &crc, sizeof(crc));
	*ret = file;
	*ret_len = len;
	return 0;
}

static int image_refuse(struct damage *damage, int r, size_t at, const char *why)
{
	return damage_say(damage, r, KFD_IMAGE_FILE, at, DAMAGE_NO_OBJECT, "%s", why);
}

/* A list of the file as we know it: what later versions added to its records is passed over. */
static int image_take_list(struct kfd_image *image, int list, const struct row *row,
			   const char *from)
{
	size_t ours = record_bytes[list];
	char *to;

	if (!row->n)
		return 0;
	to = calloc(row->n, ours);
	if (!to)
		return -ENOMEM;
	for (uint32_t i = 0; i < row->n; i++)
		memcpy(to + i * ours, from + (size_t)i * row->record_bytes, ours);
	image->list[list] = to;
	image->n[list] = row->n;
	return 0;
}

/* The lists, of a file that ends with the sum; the rows are behind the header. */
static int image_take_lists(struct kfd_image *image, const char *file, size_t len, uint32_t nlists,
			    struct damage *damage)
{
	size_t at = sizeof(struct header) + nlists * sizeof(struct row), end = len - 4;
	int r = 0;

	for (uint32_t i = 0; r == 0 && i < nlists; i++) {
		struct row row;
		uint64_t bytes;

		memcpy(&row, file + sizeof(struct header) + i * sizeof(row), sizeof(row));
		bytes = (uint64_t)row.record_bytes * row.n;
		if (bytes > end - at || (row.n && !row.record_bytes))
			return image_refuse(damage, -ENODATA, at, "it ends too early");
		if (i < KFD_IMAGE_LISTS && row.n && row.record_bytes < record_bytes[i])
			return image_refuse(damage, -EBADMSG, at, "its records are too short");
		if (i < KFD_IMAGE_LISTS)
			r = image_take_list(image, (int)i, &row, file + at);
		at += bytes;
	}
	return r == 0 && at != end ? image_refuse(damage, -EBADMSG, at, "it is too long") : r;
}

/* Whether it is one, and how many lists it has. */
static int image_begin(const char *file, size_t len, struct header *ret, struct damage *damage)
{
	uint32_t crc;

	if (len < sizeof(*ret) + sizeof(crc))
		return image_refuse(damage, -ENODATA, len, "it ends too early");
	memcpy(ret, file, sizeof(*ret));
	if (ret->magic != MAGIC)
		return image_refuse(damage, -EBADMSG, 0, "it is no image of /dev/kfd");
	if (ret->version != VERSION)
		return image_refuse(damage, -EPROTONOSUPPORT, 8,
				    "it is of another version than this allot reads");
	memcpy(&crc, file + len - sizeof(crc), sizeof(crc));
	if (crc != crc32c(0, file, len - sizeof(crc)))
		return image_refuse(damage, -EBADMSG, DAMAGE_NOWHERE,
				    "its sum is wrong: it was cut or changed");
	if (ret->nlists > LISTS_MAX ||
	    len < sizeof(*ret) + ret->nlists * sizeof(struct row) + sizeof(crc))
		return image_refuse(damage, -EBADMSG, 12,
				    "it has more lists than there is room for");
	return 0;
}

int kfd_image_unpack(const void *file, size_t len, struct kfd_image *ret, struct damage *damage)
{
	struct kfd_image image = {.n = {0}};
	struct header header;
	const char *wrong;
	int r = len > KFD_IMAGE_MAX_BYTES
			? image_refuse(damage, -EBADMSG, DAMAGE_NOWHERE, "it is too long")
			: image_begin(file, len, &header, damage);

	if (r < 0)
		return r;
	r = image_take_lists(&image, file, len, header.nlists, damage);
	if (r == -ENOMEM)
		image_refuse(damage, r, DAMAGE_NOWHERE, "no memory");
	wrong = r == 0 ? image_wrong(&image) : NULL;
	if (wrong)
		r = image_refuse(damage, -EBADMSG, DAMAGE_NOWHERE, wrong);
	if (r < 0) {
		kfd_image_done(&image);
		return r;
	}
	memcpy(image.id, header.id, sizeof(image.id));
	*ret = image;
	return 0;
}
