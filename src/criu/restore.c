/* SPDX-License-Identifier: GPL-2.0-only */
#include "criu/restore.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "criu/abi.h"
#include "criu/say.h"
#include "image/crc32c.h"

static int restore_read(struct restore *restore, struct damage *damage)
{
	CLEANUP_FREE void *text = NULL;
	size_t len;
	int r = contents_get_file(criu_get_image_dir(), CATALOG_FILE, CATALOG_MAX_BYTES, &text, &len);

	if (r == 0)
		r = catalog_unpack(text, len, &restore->catalog, damage);
	if (r == 0)
		restore->seal = (struct contents_seal){len, crc32c(0, text, len)};
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
	struct damage damage = {.text = CATALOG_FILE};
	int r = restore_read(restore, &damage);

	if (r == -ENOENT)
		return 0;
	restore->own = r < 0 ? NULL : calloc(restore->catalog.n[CATALOG_FILES] + 1, sizeof(bool));
	if (r == 0 && !restore->own)
		r = -ENOMEM;
	if (r == 0)
		r = restore_share(restore);
	if (r < 0)
		SAY_ERROR("%s: %s; the image cannot be restored", damage.text, strerror(-r));
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
