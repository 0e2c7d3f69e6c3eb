/* SPDX-License-Identifier: Apache-2.0 */
#include "ledger/residency_file.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/futex.h"
#include "base/word.h"
#include "ledger/shared_file.h"

/* No tenant can have this name. */
#define NAME	".residency"
#define BYTES	4096
#define LOCK_AT (INT64_C(1) << 40)

#define DEVICES	64

struct residency_promise {
	uint64_t uuid[2];
	uint64_t bytes;
};

struct residency_file {
	uint32_t bell;	 /* a futex */
	uint32_t comers; /* so often something has come or changed */
	uint32_t pad[14];
	struct residency_promise promise[DEVICES]; /* the role's; from the first one on */
	uint8_t reserved[BYTES - 64 - DEVICES * sizeof(struct residency_promise)];
};
_Static_assert(sizeof(struct residency_file) == BYTES, "layout");

static void *residency_file_map(int fd)
{
	void *map = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

	if (map == MAP_FAILED)
		return NULL;
	if (madvise(map, BYTES, MADV_DONTFORK) == 0)
		return map;
	munmap(map, BYTES);
	return NULL;
}

int residency_file_open(const char *runtime, struct residency_file **ret)
{
	CLEANUP_CLOSE int fd = shared_file_join(runtime, NAME, BYTES);

	if (fd < 0)
		return fd;
	*ret = residency_file_map(fd);
	return *ret ? 0 : -ENOMEM;
}

void residency_file_ring(struct residency_file *file)
{
	word_publish_add(&file->bell, 1);
	futex_wake_all(&file->bell);
}

void residency_file_come(struct residency_file *file)
{
	word_publish_add(&file->comers, 1);
	residency_file_ring(file);
}

uint32_t residency_file_comers(const struct residency_file *file)
{
	return word_read(&file->comers);
}

bool residency_file_exists(const char *runtime)
{
	CLEANUP_CLOSE int fd = shared_file_open(runtime, NAME, O_RDONLY, BYTES);

	return fd >= 0;
}

void residency_file_tell(const char *runtime)
{
	CLEANUP_CLOSE int fd = shared_file_open(runtime, NAME, O_RDWR, BYTES);
	struct residency_file *file = fd < 0 ? NULL : residency_file_map(fd);

	if (!file)
		return;
	residency_file_come(file);
	munmap(file, BYTES);
}

/* The bytes are another device's for a moment when an entry changes hands: a guess is made by them. */
void residency_file_promise(struct residency_file *file, int i, const uint8_t uuid[16],
			    uint64_t bytes)
{
	struct residency_promise *promise = &file->promise[i];
	uint64_t word[2];

	memcpy(word, uuid, sizeof(word));
	word_write(&promise->bytes, bytes);
	word_write(&promise->uuid[0], word[0]);
	word_write(&promise->uuid[1], word[1]);
}

uint64_t residency_file_promised(const struct residency_file *file, const uint8_t uuid[16])
{
	uint64_t word[2];

	memcpy(word, uuid, sizeof(word));
	for (int i = 0; i < DEVICES && word_read(&file->promise[i].uuid[0]); i++)
		if (word_read(&file->promise[i].uuid[0]) == word[0] &&
		    word_read(&file->promise[i].uuid[1]) == word[1])
			return word_read(&file->promise[i].bytes);
	return 0;
}

uint32_t *residency_file_bell(struct residency_file *file)
{
	return &file->bell;
}

/* As slots do: the mapping keeps the lock, and nothing inherits it. */
int residency_file_take(const char *runtime, void **ret_role)
{
	CLEANUP_CLOSE int fd = shared_file_join(runtime, NAME, BYTES);
	int r = fd < 0 ? fd : shared_file_lock(fd, LOCK_AT, 1);
	void *role;

	if (r)
		return r;
	role = residency_file_map(fd);
	if (!role)
		return -ENOMEM;
	*ret_role = role;
	return 0;
}

void residency_file_drop(void **role)
{
	if (*role)
		munmap(*role, BYTES);
	*role = NULL;
}

bool residency_file_is_taken(const char *runtime)
{
	CLEANUP_CLOSE int fd = shared_file_open(runtime, NAME, O_RDONLY, BYTES);

	return fd >= 0 && shared_file_locked(fd, LOCK_AT, 1) == 1;
}
