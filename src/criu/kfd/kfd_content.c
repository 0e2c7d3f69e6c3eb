/* SPDX-License-Identifier: Apache-2.0 */
#include "criu/kfd/kfd_content.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "amd/abi/kfd.h"
#include "base/cleanup.h"
#include "base/fd.h"
#include "image/crc32c.h"
#include "image/object_reader.h"
#include "image/object_writer.h"

#define NAME_BYTES 48

/* --- Files -------------------------------------------------------------------------------------
 */

int kfd_content_put_file(int dir, const char *name, const void *data, size_t len,
			 char why[KFD_WHY_BYTES])
{
	CLEANUP_CLOSE int fd = fd_openat(dir, name, O_WRONLY | O_CREAT | O_TRUNC, 0600);
	int r = fd < 0 ? fd : fd_pwrite_all(fd, data, len, 0);

	return r < 0 ? kfd_say(why, r, "%s cannot be written", name) : 0;
}

int kfd_content_get_file(int dir, const char *name, size_t most, void **ret, size_t *ret_len,
			 char why[KFD_WHY_BYTES])
{
	CLEANUP_CLOSE int fd = fd_openat(dir, name, O_RDONLY, 0);
	CLEANUP_FREE char *data = NULL;
	struct stat st;
	int r = fd;

	if (r >= 0 && fstat(fd, &st) < 0)
		r = -errno;
	if (r >= 0 && (uint64_t)st.st_size > most)
		r = -EFBIG;
	if (r >= 0) {
		data = malloc((size_t)st.st_size + 1);
		r = data ? fd_pread_all(fd, data, (size_t)st.st_size, 0) : -ENOMEM;
	}
	if (r < 0)
		return kfd_say(why, r, "%s cannot be read", name);
	*ret = TAKE_PTR(data);
	*ret_len = (size_t)st.st_size;
	return 0;
}

static uint32_t content_count(const struct kfd_image *image, uint32_t process)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < image->n[KFD_IMAGE_BUFFERS]; i++)
		n += kfd_image_owns(image, process, i);
	return n;
}

/* --- Out ---------------------------------------------------------------------------------------
 */

/* All who have the buffer, malloc'ed: -ENOMEM. */
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

static int content_save_buffer(const struct kfd_calls *calls, const struct kfd_image *image,
			       uint32_t buffer, int dmabuf, void *part,
			       struct object_writer *writer)
{
	const struct kfd_image_buffer *b = &image->buffers[buffer];
	CLEANUP_FREE struct object_holder *holders = NULL;
	struct object object = {
		.device = b->gpu, .kind = image->holders[b->owner].flags, .bytes = b->bytes};
	int r = dmabuf < 0 ? dmabuf : content_holders(image, buffer, &holders, &object.nholders);

	if (r < 0)
		return r;
	object.holders = holders;
	r = object_writer_begin(writer, &object);
	for (uint64_t at = 0, n; r == 0 && at < b->bytes; at += n) {
		n = b->bytes - at < OBJECT_EXTENT ? b->bytes - at : OBJECT_EXTENT;
		r = calls->read(dmabuf, at, part, n);
		if (r == 0)
			r = object_writer_content(writer, at, part, n);
	}
	return r;
}

struct saving {
	const struct kfd_calls *calls;
	const struct kfd_image *image;
	kfd_dmabuf_fn *dmabuf;
	void *arg;
	void *part;
};

static int content_save_all(const struct saving *s, uint32_t process, struct object_writer *writer,
			    char why[KFD_WHY_BYTES])
{
	for (uint32_t i = 0; i < s->image->n[KFD_IMAGE_BUFFERS]; i++) {
		const struct kfd_image_holder *owner;
		int r;

		if (!kfd_image_owns(s->image, process, i))
			continue;
		owner = &s->image->holders[s->image->buffers[i].owner];
		r = content_save_buffer(s->calls, s->image, i, s->dmabuf(s->arg, i), s->part,
					writer);
		if (r < 0)
			return kfd_say(why, r,
				       "process %u: the content of its buffer %#x of GPU %u is not "
				       "saved",
				       s->image->processes[process].pid, owner->index,
				       owner->gpu_id);
	}
	return 0;
}

static int content_save_process(const struct saving *s, uint32_t process, int dir, int level,
				const void *image_file, size_t image_len, char why[KFD_WHY_BYTES])
{
	struct object_limits limits = kfd_image_limits(s->image);
	CLEANUP_CLOSE int fd = -EBADF;
	struct object_writer *writer;
	char name[NAME_BYTES];
	int r;

	snprintf(name, sizeof(name), KFD_IMAGE_OBJECTS, process);
	fd = fd_openat(dir, name, O_WRONLY | O_CREAT | O_TRUNC, 0600);
	r = fd < 0 ? fd : object_writer_open(fd, s->image->id, &limits, level, &writer);
	if (r < 0)
		return kfd_say(why, r, "%s cannot be written", name);
	r = content_save_all(s, process, writer, why);
	if (r == 0) {
		r = object_writer_finish(writer, image_len, crc32c(0, image_file, image_len));
		if (r < 0)
			kfd_say(why, r, "%s cannot be written", name);
	}
	object_writer_close(writer);
	return r;
}

int kfd_content_save(const struct kfd_calls *calls, const struct kfd_image *image,
		     kfd_dmabuf_fn *dmabuf, void *arg, int dir, int level, const void *image_file,
		     size_t image_len, char why[KFD_WHY_BYTES])
{
	CLEANUP_FREE void *part = malloc(OBJECT_EXTENT);
	const struct saving saving = {calls, image, dmabuf, arg, part};
	int r = part ? 0 : kfd_say(why, -ENOMEM, "no room for content");

	for (uint32_t i = 0; r == 0 && i < image->n[KFD_IMAGE_PROCESSES]; i++)
		if (content_count(image, i))
			r = content_save_process(&saving, i, dir, level, image_file, image_len,
						 why);
	return r;
}

/* --- Back --------------------------------------------------------------------------------------
 */

/* The buffer that an object is: by the handle of its owner. */
static int content_find(const struct kfd_image *image, uint32_t process,
			const struct object *object, uint32_t *ret)
{
	for (uint32_t i = 0; i < image->n[KFD_IMAGE_BUFFERS]; i++) {
		const struct kfd_image_buffer *b = &image->buffers[i];
		const struct kfd_image_holder *owner;

		if (!kfd_image_owns(image, process, i) || b->bytes != object->bytes)
			continue;
		owner = &image->holders[b->owner];
		for (uint32_t j = 0; j < object->nholders; j++)
			if (object->holders[j].flags & OBJECT_EXPORTS &&
			    object->holders[j].process == process &&
			    object->holders[j].handle ==
				    ((uint64_t)owner->gpu_id << 32 | owner->index)) {
				*ret = i;
				return 0;
			}
	}
	return -EBADMSG;
}

/* What no extent covers is zero, as is memory that the kernel has just given. */
static int content_load_all(const struct kfd_calls *calls, const struct kfd_image *image,
			    uint32_t process, kfd_dmabuf_fn *dmabuf, void *arg,
			    struct object_reader *reader, struct damage *damage)
{
	struct object_extent extent;
	struct object object;
	uint32_t buffer, n = 0;
	int r, fd;

	while ((r = object_reader_next(reader, &object, damage)) > 0) {
		r = content_find(image, process, &object, &buffer);
		fd = r < 0 ? r : dmabuf(arg, buffer);
		r = fd < 0 ? fd : 0;
		while (r == 0 && (r = object_reader_content(reader, &extent, damage)) > 0)
			r = calls->write(fd, extent.offset, extent.data, extent.bytes);
		if (r < 0)
			return r;
		n++;
	}
	return r == 0 && n != content_count(image, process) ? -ENODATA : r;
}

int kfd_content_load(const struct kfd_calls *calls, const struct kfd_image *image, uint32_t process,
		     kfd_dmabuf_fn *dmabuf, void *arg, int dir, char why[KFD_WHY_BYTES])
{
	struct object_limits limits = kfd_image_limits(image);
	struct damage damage = {.text = ""};
	struct object_reader *reader = NULL;
	CLEANUP_CLOSE int fd = -EBADF;
	char name[NAME_BYTES];
	uint8_t id[16];
	int r;

	if (!content_count(image, process))
		return 0;
	snprintf(name, sizeof(name), KFD_IMAGE_OBJECTS, process);
	fd = fd_openat(dir, name, O_RDONLY, 0);
	r = fd < 0 ? fd : object_reader_open(fd, &limits, &reader, &damage);
	if (r == 0) {
		object_reader_id(reader, id);
		r = memcmp(id, image->id, sizeof(id)) ? -EBADMSG : 0;
	}
	if (r == 0)
		r = content_load_all(calls, image, process, dmabuf, arg, reader, &damage);
	object_reader_close(reader);
	return r < 0 ? kfd_say(why, r, "content of process %u: %s%s%s",
			       image->processes[process].pid, name, *damage.text ? ": " : "",
			       damage.text)
		     : 0;
}
