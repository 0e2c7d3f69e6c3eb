/* SPDX-License-Identifier: Apache-2.0 */
#include "ledger/role/role_file.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <sys/mman.h>

#include "base/cleanup.h"
#include "base/futex.h"
#include "base/word.h"
#include "ledger/shared_file.h"

#define LOCK_AT (INT64_C(1) << 40)

/* Words that are where other versions of allot have them. */
#define LAYOUT(type, word, at)                                            \
	_Static_assert(sizeof(struct type) == ROLE_FILE_BYTES, "layout"); \
	_Static_assert(offsetof(struct type, word) == (at), "layout")

LAYOUT(arbiter_file, comers, 4);
LAYOUT(arbiter_file, term, 12);
LAYOUT(arbiter_file, due_ns, 16);
LAYOUT(residency_file, comers, 4);
LAYOUT(residency_file, term, 8);
LAYOUT(residency_file, full_ns, 24);
LAYOUT(residency_file, claims, 36);
LAYOUT(residency_file, promise, 64);
LAYOUT(units_file, looked_ns, 8);

const struct role_file role_file_arbiter = {
	.name = ".arbiter",
	.claims = offsetof(struct arbiter_file, claims),
	.term = offsetof(struct arbiter_file, term),
	.due_ns = offsetof(struct arbiter_file, due_ns),
	.lock = LOCK_AT,
	.lock_behind = LOCK_AT + 1,
	.claim = LOCK_AT + 1,
};

const struct role_file role_file_residency = {
	.name = ".residency",
	.term = offsetof(struct residency_file, term),
	.claims = offsetof(struct residency_file, claims),
	.beats = offsetof(struct residency_file, beats),
	.lock = LOCK_AT,
	.lock_behind = LOCK_AT,
	.claim = LOCK_AT - 2,
	.use = LOCK_AT - 1,
};

const struct role_file role_file_units = {
	.name = ".units",
	.lock = LOCK_AT,
};

int role_file_join(const struct role_file *file, const char *runtime)
{
	return shared_file_join(runtime, file->name, ROLE_FILE_BYTES);
}

int role_file_open(const struct role_file *file, const char *runtime, int flags)
{
	return shared_file_open(runtime, file->name, flags, ROLE_FILE_BYTES);
}

int role_file_path(const struct role_file *file, const char *runtime, char ret[static PATH_MAX])
{
	int n = snprintf(ret, PATH_MAX, "%s/%s", runtime, file->name);

	return n < PATH_MAX ? 0 : -ENAMETOOLONG;
}

void *role_file_map(int fd)
{
	void *map = mmap(NULL, ROLE_FILE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

	if (map == MAP_FAILED)
		return NULL;
	if (madvise(map, ROLE_FILE_BYTES, MADV_DONTFORK) == 0)
		return map;
	munmap(map, ROLE_FILE_BYTES);
	return NULL;
}

void role_file_unmap(void *map)
{
	if (map)
		munmap(map, ROLE_FILE_BYTES);
}

void role_file_ring(void *map)
{
	word_publish_add(role_file_bell(map), 1);
	futex_wake_all(role_file_bell(map));
}

void role_file_come(void *map)
{
	word_publish_add(role_file_comers(map), 1);
	role_file_ring(map);
}

void role_file_tell(const struct role_file *file, const char *runtime)
{
	CLEANUP_CLOSE int fd = role_file_open(file, runtime, O_RDWR);
	void *map = fd < 0 ? NULL : role_file_map(fd);

	if (!map)
		return;
	role_file_come(map);
	role_file_unmap(map);
}
