/* SPDX-License-Identifier: Apache-2.0 */
#include "image/image.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "base/fault.h"
#include "base/fd.h"
#include "image/crc32c.h"
#include "image/format.h"

#define OBJECTS IMAGE_OBJECTS
#define MANIFEST IMAGE_MANIFEST
#define PARTIAL ".partial"

struct image_draft {
	int dir, objects;
	struct manifest *manifest;
	struct object_writer *writer;
};

static bool image_there(int dir, const char *name)
{
	return faccessat(dir, name, F_OK, AT_SYMLINK_NOFOLLOW) == 0;
}

/* A file of ours, empty and locked: -EBUSY where another writer has it. */
static int image_open_partial(int dir, int *ret_fd)
{
	CLEANUP_CLOSE int fd = fd_openat(dir, OBJECTS PARTIAL, O_RDWR | O_CREAT, 0600);
	struct stat own, named;

	if (fd < 0)
		return fd;
	if (flock(fd, LOCK_EX | LOCK_NB) < 0)
		return errno == EWOULDBLOCK ? -EBUSY : err_errno();
	/* A file that was renamed between our opening and our lock is somebody's image. */
	if (fstat(fd, &own) < 0 ||
	    fstatat(dir, OBJECTS PARTIAL, &named, AT_SYMLINK_NOFOLLOW) < 0 ||
	    !fd_is_same(&own, &named))
		return -EBUSY;
	if (image_there(dir, MANIFEST))
		return -EEXIST;
	if (ftruncate(fd, 0) < 0)
		return err_errno();
	*ret_fd = TAKE_FD(fd);
	return 0;
}

int image_create(const char *dir, struct manifest *manifest, int level, struct image_draft **ret)
{
	CLEANUP_CLOSE int at = -EBADF, objects = -EBADF;
	struct object_limits limits = {.ndevices = manifest->ndevices,
				       .nprocesses = MANIFEST_PROCESSES};
	struct image_draft *draft;
	int r;

	if (getrandom(manifest->id, sizeof(manifest->id), 0) != sizeof(manifest->id))
		return err_errno();
	if (mkdir(dir, 0700) < 0 && errno != EEXIST)
		return err_errno();
	at = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (at < 0)
		return err_errno();
	if (image_there(at, MANIFEST))
		return -EEXIST;
	r = image_open_partial(at, &objects);
	if (r < 0)
		return r;
	draft = calloc(1, sizeof(*draft));
	if (!draft)
		return -ENOMEM;
	r = object_writer_open(objects, manifest->id, &limits, level, &draft->writer);
	if (r < 0) {
		free(draft);
		return r;
	}
	draft->manifest = manifest;
	draft->dir = TAKE_FD(at);
	draft->objects = TAKE_FD(objects);
	*ret = draft;
	return 0;
}

struct object_writer *image_writer(struct image_draft *draft)
{
	return draft->writer;
}

static int image_write_manifest(int dir, const char *text, size_t len)
{
	CLEANUP_CLOSE int fd = fd_openat(dir, MANIFEST PARTIAL, O_WRONLY | O_CREAT | O_TRUNC, 0600);
	int r;

	if (fd < 0)
		return fd;
	r = fd_pwrite_all(fd, text, len, 0);
	return r < 0 ? r : fsync(fd) < 0 ? err_errno() : 0;
}

static int image_publish(const struct image_draft *draft)
{
	CLEANUP_FREE char *text = NULL;
	size_t len;
	int r = manifest_write(draft->manifest, &text, &len);

	if (r < 0)
		return r;
	r = object_writer_finish(draft->writer, len, crc32c(0, text, len));
	if (r < 0)
		return r;
	if (fsync(draft->objects) < 0)
		return err_errno();
	FAULT_POINT(IMAGE_OBJECTS_WRITTEN);
	r = image_write_manifest(draft->dir, text, len);
	if (r < 0)
		return r;
	FAULT_POINT(IMAGE_MANIFEST_WRITTEN);
	if (renameat(draft->dir, OBJECTS PARTIAL, draft->dir, OBJECTS) < 0)
		return err_errno();
	FAULT_POINT(IMAGE_HALF_NAMED);
	if (renameat(draft->dir, MANIFEST PARTIAL, draft->dir, MANIFEST) < 0 ||
	    fsync(draft->dir) < 0)
		return err_errno();
	FAULT_POINT(IMAGE_NAMED);
	return 0;
}

static void image_end_draft(struct image_draft *draft)
{
	object_writer_close(draft->writer);
	close(draft->objects);
	close(draft->dir);
	free(draft);
}

int image_commit(struct image_draft *draft)
{
	int r = image_publish(draft);

	if (r < 0) {
		/* The manifest first: without it there is no image. */
		unlinkat(draft->dir, MANIFEST, 0);
		unlinkat(draft->dir, OBJECTS, 0);
		image_abort(draft);
	} else {
		image_end_draft(draft);
	}
	return r;
}

void image_abort(struct image_draft *draft)
{
	if (!draft)
		return;
	unlinkat(draft->dir, MANIFEST PARTIAL, 0);
	unlinkat(draft->dir, OBJECTS PARTIAL, 0);
	image_end_draft(draft);
}

/* ---- Reading ---- */

struct image {
	int dir, objects;
	bool guarded;
	uint32_t manifest_crc;
	uint64_t manifest_bytes;
	struct manifest manifest;
	struct object_reader *reader;
};

static int image_fail(struct damage *damage, int r, const char *file, const char *why)
{
	return damage_say(damage, r, file, DAMAGE_NOWHERE, DAMAGE_NO_OBJECT, "%s", why);
}

static int image_check_guarded(const struct image *image, int fd, const char *name,
			       struct damage *damage)
{
	struct stat st;

	if (!image->guarded || (!fstat(fd, &st) && fd_is_guarded(&st)))
		return 0;
	return image_fail(damage, -EPERM, name, "it is for others to write; chown root and chmod "
						"go-w it, if you know what is in it");
}

static int image_open_file(const struct image *image, const char *name, struct damage *damage)
{
	/* Not to block: it may be a FIFO. */
	CLEANUP_CLOSE int fd = fd_openat(image->dir, name, O_RDONLY | O_NONBLOCK, 0);
	int r;

	if (fd == -ENOENT && (image_there(image->dir, OBJECTS PARTIAL) || image_there(image->dir, OBJECTS)))
		return image_fail(damage, fd, name, "there is none: the image was never finished");
	if (fd < 0)
		return image_fail(damage, fd, name, strerror(-fd));
	r = image_check_guarded(image, fd, name, damage);
	return r < 0 ? r : TAKE_FD(fd);
}

static int image_read_manifest(struct image *image, struct damage *damage)
{
	CLEANUP_CLOSE int fd = image_open_file(image, MANIFEST, damage);
	CLEANUP_FREE char *text = NULL;
	struct stat st;
	int r;

	if (fd < 0)
		return fd;
	if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode))
		return image_fail(damage, -EBADMSG, MANIFEST, "it is no file");
	if (st.st_size > MANIFEST_MAX_BYTES)
		return image_fail(damage, -EBADMSG, MANIFEST, "it is too long for a manifest");
	image->manifest_bytes = (uint64_t)st.st_size;
	text = malloc(image->manifest_bytes + 1);
	if (!text)
		return image_fail(damage, -ENOMEM, MANIFEST, "no memory");
	r = fd_pread_all(fd, text, image->manifest_bytes, 0);
	if (r < 0)
		return image_fail(damage, r, MANIFEST, strerror(-r));
	image->manifest_crc = crc32c(0, text, image->manifest_bytes);
	return manifest_read(text, image->manifest_bytes, &image->manifest, damage);
}

static int image_compare_manifest(const struct image *image, uint64_t bytes, uint32_t crc,
				  struct damage *damage)
{
	if (bytes == image->manifest_bytes && crc == image->manifest_crc)
		return 0;
	return image_fail(damage, -EBADMSG, MANIFEST,
			  "it is not as it was written: damaged, changed, or another image's");
}

/* Checks the last record, before anything else of perhaps a hundred GiB is read. */
static int image_check_end(struct image *image, struct damage *damage)
{
	struct format_record record;
	uint64_t at = 0;
	struct stat st;
	int r;

	if (fstat(image->objects, &st) < 0 || !S_ISREG(st.st_mode))
		return image_fail(damage, -EBADMSG, OBJECTS, "it is no file");
	if ((uint64_t)st.st_size >= sizeof(struct format_header) + sizeof(record))
		at = (uint64_t)st.st_size - sizeof(record);
	r = at ? fd_pread_all(image->objects, &record, sizeof(record), at) : -ENODATA;
	if (r < 0 && r != -ENODATA)
		return image_fail(damage, r, OBJECTS, strerror(-r));
	if (r < 0 || record.magic != FORMAT_RECORD || record.type != FORMAT_END ||
	    crc32c(0, &record, offsetof(struct format_record, crc)) != record.crc)
		return damage_say(damage, -ENODATA, OBJECTS, (uint64_t)st.st_size, DAMAGE_NO_OBJECT,
				  "the last record is not there: cut off, damaged, or never "
				  "finished");
	return image_compare_manifest(image, record.b, (uint32_t)record.c, damage);
}

static int image_open_reader(struct image *image, struct damage *damage)
{
	struct object_limits limits = manifest_limits(&image->manifest);
	uint8_t id[16];
	int r = object_reader_open(image->objects, &limits, &image->reader, damage);

	if (r < 0)
		return r;
	object_reader_id(image->reader, id);
	if (memcmp(id, image->manifest.id, sizeof(id)))
		return image_fail(damage, -EBADMSG, OBJECTS,
				  "it is of another image than manifest.json");
	return 0;
}

int image_open(const char *dir, bool guarded, struct image **ret, struct damage *damage)
{
	struct image *image = calloc(1, sizeof(*image));
	int r;

	if (!image)
		return image_fail(damage, -ENOMEM, NULL, "no memory");
	image->objects = -EBADF;
	image->guarded = guarded;
	image->dir = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	r = image->dir < 0 ? image_fail(damage, err_errno(), NULL, strerror(errno))
			   : image_check_guarded(image, image->dir, ".", damage);
	if (!r)
		r = image_read_manifest(image, damage);
	if (!r)
		r = image->objects = image_open_file(image, OBJECTS, damage);
	if (r >= 0)
		r = image_check_end(image, damage);
	if (!r)
		r = image_open_reader(image, damage);
	if (r < 0)
		image_close(image);
	else
		*ret = image;
	return r;
}

void image_close(struct image *image)
{
	if (!image)
		return;
	object_reader_close(image->reader);
	manifest_done(&image->manifest);
	if (image->objects >= 0)
		close(image->objects);
	if (image->dir >= 0)
		close(image->dir);
	free(image);
}

const struct manifest *image_manifest(const struct image *image)
{
	return &image->manifest;
}

struct object_reader *image_reader(struct image *image)
{
	return image->reader;
}

int image_verify(struct image *image, image_tell_fn *tell, void *arg, struct damage *damage)
{
	struct object_extent extent;
	struct object object;
	uint64_t bytes;
	uint32_t crc;
	int r;

	while ((r = object_reader_next(image->reader, &object, damage)) > 0) {
		uint64_t content = 0;

		while ((r = object_reader_content(image->reader, &extent, damage)) > 0)
			content += extent.bytes;
		if (r < 0)
			return r;
		if (tell)
			tell(&object, content, arg);
	}
	if (r < 0)
		return r;
	object_reader_manifest(image->reader, &bytes, &crc);
	return image_compare_manifest(image, bytes, crc, damage);
}
