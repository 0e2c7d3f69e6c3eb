/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/kfd/handles.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "sim/mutex.h"
#include "sim/shared.h"

#define HANDLES	     65536
#define FIRST_RENDER 128 /* minors below are of display nodes */

struct handles {
	struct sim_mutex lock;
	uint64_t used; /* ever: scans end here */
	struct handle row[HANDLES];
};

static int handles_init(void *map)
{
	return sim_mutex_init(&((struct handles *)map)->lock);
}

/* Rows are whole after each store. */
static void handles_lock(struct handles *h)
{
	if (sim_mutex_lock(&h->lock) == EOWNERDEAD)
		sim_mutex_repaired(&h->lock);
}

static void handles_unlock(struct handles *h)
{
	sim_mutex_unlock(&h->lock);
}

int handles_open(const char *root, struct handles **ret)
{
	char path[PATH_MAX];
	void *map;
	int fd, r;

	if (snprintf(path, sizeof(path), "%s/memory/handles", root) >= (int)sizeof(path))
		return -ENAMETOOLONG;
	r = sim_shared_open(path, sizeof(struct handles), handles_init, &map, &fd);
	if (r < 0)
		return r;
	close(fd);
	*ret = map;
	return 0;
}

/* With the lock, as the next ones. */
static struct handle *handles_row_of(struct handles *h, uint64_t file, uint32_t handle)
{
	for (uint64_t i = 0; i < h->used; i++)
		if (h->row[i].key && h->row[i].file == file && h->row[i].handle == handle)
			return &h->row[i];
	return NULL;
}

static int handles_put(struct handles *h, const struct handle *handle)
{
	struct handle *row;
	uint64_t i = 0;

	while (i < h->used && h->row[i].key)
		i++;
	if (i == HANDLES)
		return -ENOMEM;
	row = &h->row[i];
	*row = (struct handle){0, handle->file, handle->minor, handle->handle};
	__atomic_store_n(&row->key, handle->key, __ATOMIC_RELEASE);
	if (i == h->used)
		h->used++;
	return 0;
}

/* The lowest that no row of the file has: at most one more than it has rows. */
static uint32_t handles_lowest(const struct handles *h, uint64_t file)
{
	uint64_t words[HANDLES / 64 + 1] = {1}; /* 0 is none */
	uint32_t handle = 0;

	for (uint64_t i = 0; i < h->used; i++)
		if (h->row[i].key && h->row[i].file == file && h->row[i].handle <= HANDLES)
			words[h->row[i].handle / 64] |= UINT64_C(1) << h->row[i].handle % 64;
	while (words[handle / 64] >> handle % 64 & 1)
		handle++;
	return handle;
}

int handles_add(struct handles *h, struct handle *handle)
{
	int r;

	handles_lock(h);
	handle->handle = handles_lowest(h, handle->file);
	r = handles_put(h, handle);
	handles_unlock(h);
	return r;
}

int handles_add_vm(struct handles *h, uint64_t file, int minor)
{
	const struct handle vm = {UINT64_MAX, file, minor, HANDLE_OF_VM};
	int r;

	handles_lock(h);
	r = handles_row_of(h, file, HANDLE_OF_VM) ? -EEXIST : handles_put(h, &vm);
	handles_unlock(h);
	return r;
}

bool handles_find(struct handles *h, uint64_t file, uint32_t handle, struct handle *ret)
{
	const struct handle *row;

	handles_lock(h);
	row = handle == HANDLE_OF_VM ? NULL : handles_row_of(h, file, handle);
	if (row)
		*ret = *row;
	handles_unlock(h);
	return row;
}

uint32_t handles_of_key(struct handles *h, uint64_t file, uint64_t key)
{
	uint32_t found = 0;

	handles_lock(h);
	for (uint64_t i = 0; i < h->used && !found; i++)
		if (h->row[i].key == key && (!file || h->row[i].file == file))
			found = h->row[i].handle;
	handles_unlock(h);
	return found;
}

void handles_drop(struct handles *h, const struct handle *handle)
{
	struct handle *row;

	handles_lock(h);
	row = handles_row_of(h, handle->file, handle->handle);
	if (row)
		__atomic_store_n(&row->key, 0, __ATOMIC_RELEASE);
	handles_unlock(h);
}

void handles_change(struct handles *h, const struct handle *handle, uint32_t to)
{
	struct handle *row;

	handles_lock(h);
	row = handles_row_of(h, handle->file, handle->handle);
	if (row)
		row->handle = to;
	handles_unlock(h);
}

bool handles_nth(struct handles *h, uint64_t file, uint32_t n, struct handle *ret)
{
	bool found = false;

	handles_lock(h);
	for (uint64_t i = 0; i < h->used && !found; i++) {
		const struct handle *row = &h->row[i];

		if (!row->key || row->handle == HANDLE_OF_VM || (file && row->file != file) || n--)
			continue;
		*ret = *row;
		found = true;
	}
	handles_unlock(h);
	return found;
}

/* True if anybody has the file; also where that cannot be told. */
static bool handles_file_lives(const char *root, const struct handle *row)
{
	char path[PATH_MAX];
	bool lives;
	int fd;

	snprintf(path, sizeof(path), "%.*s/dev/dri/%s%d", PATH_MAX - 32, root,
		 row->minor < FIRST_RENDER ? "card" : "renderD", row->minor);
	fd = (int)syscall(SYS_openat, AT_FDCWD, path, O_RDWR | O_CLOEXEC);
	if (fd < 0)
		return true;
	lives = sim_byte_locked(fd, (off_t)row->file);
	syscall(SYS_close, fd);
	return lives;
}

/* Those of one file mostly stand side by side: it is asked about once for all of them. */
void handles_reap(struct handles *h, const char *root)
{
	uint64_t asked = 0;
	bool lives = true;

	handles_lock(h);
	for (uint64_t i = 0; i < h->used; i++) {
		struct handle *row = &h->row[i];

		if (row->key && row->file != asked) {
			asked = row->file;
			lives = handles_file_lives(root, row);
		}
		if (row->key && !lives)
			__atomic_store_n(&row->key, 0, __ATOMIC_RELEASE);
	}
	while (h->used && !h->row[h->used - 1].key)
		h->used--;
	handles_unlock(h);
}
