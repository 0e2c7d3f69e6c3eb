/* SPDX-License-Identifier: GPL-2.0-only */
#include "criu/restore.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "base/fd.h"
#include "criu/abi.h"
#include "criu/say.h"
#include "image/crc32c.h"

static int restore_read(struct restore *restore)
{
	CLEANUP_CLOSE int fd = openat(criu_get_image_dir(), CATALOG_FILE, O_RDONLY | O_CLOEXEC);
	CLEANUP_FREE void *text = NULL;
	struct stat st;
	size_t len;
	int r;

	if (fd < 0 || fstat(fd, &st) < 0)
		return err_errno();
	if (st.st_size > CATALOG_MAX_BYTES)
		return -EFBIG;
	len = (size_t)st.st_size;
	text = malloc(len + 1);
	r = text ? fd_pread_all(fd, text, len, 0) : -ENOMEM;
	if (r == 0)
		r = catalog_unpack(text, len, &restore->catalog);
	if (r == 0)
		restore->seal = (struct content_seal){len, crc32c(0, text, len)};
	return r;
}

/* All processes are forked from this one, and find it where it is. */
static int restore_share(struct restore *restore)
{
	const uint32_t *n = restore->catalog.n;
	size_t files = n[CATALOG_FILES] * sizeof(struct restore_file),
	       buffers = n[CATALOG_BUFFERS] * sizeof(struct published),
	       dmabufs = n[CATALOG_DMABUFS] * sizeof(struct waiter);
	struct restore_shared *shared = mmap(NULL, sizeof(*shared) + files + buffers + dmabufs,
					     PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	pthread_mutexattr_t attributes;

	if (shared == MAP_FAILED)
		return err_errno();
	pthread_mutexattr_init(&attributes);
	pthread_mutexattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED);
	pthread_mutex_init(&shared->first, &attributes);
	pthread_mutexattr_destroy(&attributes);
	shared->files = (void *)(shared + 1);
	shared->buffers = (void *)((char *)shared->files + files);
	shared->dmabufs = (void *)((char *)shared->buffers + buffers);
	restore->shared = shared;
	return 0;
}

int restore_open(struct restore *restore, bool retries)
{
	int r = restore_read(restore);

	if (r == -ENOENT)
		return 0;
	restore->own = r < 0 ? NULL : calloc(restore->catalog.n[CATALOG_FILES] + 1, sizeof(bool));
	if (r == 0 && !restore->own)
		r = -ENOMEM;
	if (r == 0)
		r = restore_share(restore);
	if (r == -EPROTONOSUPPORT)
		SAY_ERROR("%s is of a later version of allot, which is needed to restore it",
			  CATALOG_FILE);
	else if (r < 0)
		SAY_ERROR("%s: %s; the image is damaged or was never finished, and cannot be restored",
			  CATALOG_FILE, strerror(-r));
	restore->retries = retries;
	return r;
}

int restore_find_file(const struct restore *restore, uint32_t id)
{
	for (uint32_t i = 0; i < restore->catalog.n[CATALOG_FILES]; i++)
		if (restore->catalog.files[i].id == id)
			return (int)i;
	return -ENOENT;
}

int restore_find_dmabuf(const struct restore *restore, uint32_t id)
{
	for (uint32_t i = 0; i < restore->catalog.n[CATALOG_DMABUFS]; i++)
		if (restore->catalog.dmabufs[i].id == id)
			return (int)i;
	return -ENOENT;
}
