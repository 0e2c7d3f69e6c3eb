/* SPDX-License-Identifier: Apache-2.0 */
#include "node/amd_usage.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/now.h"
#include "base/number.h"
#include "guard/fdinfo.h"
#include "guard/kernel_usage.h"
#include "node/process/reading.h"

/*
 * The unit of the budget is bytes of mappings: the kernel takes 10 ms for 1 MiB of those, and 5 us
 * for most descriptors (Linux 6.18). For a descriptor of a render node it walks all of that file's
 * memory.
 */
#define DESCRIPTOR_COST 512
#define COST_OF_NS(ns)	((ns) / 10)

/* Open files that are told apart; of more one that is open twice counts twice. */
#define FILES 256

/* --- Files of render nodes --------------------------------------------------------------------- */

struct opened {
	size_t n;
	struct opened_file {
		int fd; /* the file's first descriptor; -EBADF: several files, not told apart */
		struct fdinfo info;
	} *file;
};

static struct opened_file *opened_find(const struct opened *opened, const struct fdinfo *info)
{
	for (size_t i = 0; i < opened->n; i++)
		if (opened->file[i].fd >= 0 ? opened->file[i].info.client == info->client
					    : opened->file[i].info.minor == info->minor &&
						      !strcmp(opened->file[i].info.pci, info->pci))
			return &opened->file[i];
	return NULL;
}

static void opened_add(int fd, const struct fdinfo *info, void *arg)
{
	struct opened *opened = arg;
	struct opened_file *file = opened_find(opened, info);

	if (file) {
		if (file->fd < 0)
			file->info.vram_bytes = sat_add_u64(file->info.vram_bytes, info->vram_bytes);
		return;
	}
	file = reallocarray(opened->file, opened->n + 1, sizeof(*file));
	if (!file)
		return;
	opened->file = file;
	opened->file[opened->n] = (struct opened_file){opened->n < FILES ? fd : -EBADF, *info};
	opened->n++;
}

static uint64_t opened_cost(uint64_t n, uint64_t begin_ns)
{
	return max_u64(n * DESCRIPTOR_COST, COST_OF_NS(now_thread_ns() - begin_ns));
}

/* A process that has none, or has ended, is read. */
static int opened_read_slice(pid_t pid, int *fd, void *begun, uint64_t *ret_cost)
{
	uint64_t begin_ns = now_thread_ns();
	int n;

	if (*fd < 0)
		*fd = fdinfo_open(pid);
	n = *fd < 0 ? *fd : fdinfo_add_some(*fd, opened_add, begun);
	*ret_cost = opened_cost(n > 0 ? (uint64_t)n : 1, begin_ns);
	if (n > 0)
		return 1;
	return n == -ENOENT || n == -ESRCH ? 0 : n;
}

static bool opened_is_any(const void *found)
{
	const struct opened *opened = found;

	return opened->n;
}

static void opened_free(void *found)
{
	struct opened *opened = found;

	free(opened->file);
}

static const struct reading_kind opened_kind = {
	.allowance = ALLOWANCE_DESCRIPTORS,
	.found_bytes = sizeof(struct opened),
	.read = opened_read_slice,
	.is_any = opened_is_any,
	.free = opened_free,
};

static struct reading_table kept = {.kind = &opened_kind, .lock = PTHREAD_MUTEX_INITIALIZER};

/* A closed file has nothing. Another one behind the same descriptor is found by a search. */
static void opened_refresh_file(int dir, struct opened_file *file)
{
	struct fdinfo info;

	if (fdinfo_read_one(dir, file->fd, &info) == 0 && info.client == file->info.client)
		file->info = info;
	else
		file->info.vram_bytes = 0;
}

/* Reads the known files again, as far as the user's budget goes. */
static void opened_refresh(const struct reading *k)
{
	struct opened *opened = k->found;
	CLEANUP_CLOSE int dir = opened && opened->n ? fdinfo_open(k->mark.pid) : -EBADF;

	for (size_t i = 0; dir >= 0 && i < opened->n; i++) {
		uint64_t begin_ns = now_thread_ns();

		if (opened->file[i].fd < 0 || !allowance_left(ALLOWANCE_DESCRIPTORS, k->uid, 0))
			continue;
		opened_refresh_file(dir, &opened->file[i]);
		allowance_spend(ALLOWANCE_DESCRIPTORS, k->uid, opened_cost(1, begin_ns));
	}
}

/* --- Figures ---------------------------------------------------------------------------------- */

static uint64_t opened_bytes(const struct opened *opened, const struct topology_node *gpu)
{
	uint64_t sum = 0;

	for (size_t i = 0; opened && i < opened->n; i++)
		if (fdinfo_is_of(&opened->file[i].info, gpu))
			sum = sat_add_u64(sum, opened->file[i].info.vram_bytes);
	return sum;
}

/* Counts the findings of an unfinished reading, too. `k` may be NULL. */
static uint64_t amd_usage_of_files(const struct reading *k, const struct topology_node *gpu)
{
	return k ? max_u64(opened_bytes(k->found, gpu), opened_bytes(k->begun, gpu)) : 0;
}

/* The larger of both figures. -ENOENT: neither is told; -errno: KFD's cannot be read. */
static int amd_usage_of_gpu(pid_t pid, bool shown, const struct reading *k,
			    const struct topology_node *gpu, uint64_t *ret_bytes)
{
	uint64_t of_kfd = 0, of_files = amd_usage_of_files(k, gpu);
	int r = shown ? kernel_usage_of_kfd(pid, gpu, &of_kfd) : -ENOENT;

	if (r < 0 && (r != -ENOENT || !of_files))
		return r;
	*ret_bytes = max_u64(of_kfd, of_files);
	return 0;
}

static void amd_usage_sum(const struct topology *topology, pid_t pid, const struct reading *k,
			  struct amd_usage *ret)
{
	bool shown = kernel_usage_is_shown(pid);

	ret->n = 0;
	for (uint32_t i = 0; i < topology->node_count && ret->n < POLICY_DEVICES; i++)
		if (topology->nodes[i].gpu_id && !amd_usage_of_gpu(pid, shown, k, &topology->nodes[i],
								   &ret->gpu[ret->n].bytes))
			ret->gpu[ret->n++].node = i;
}

/* Called with the lock. Returns 0, -EAGAIN or -errno; *ret: what is kept, or NULL. */
static int amd_usage_find(pid_t pid, bool search, struct reading **ret)
{
	struct reading *k = search ? NULL : reading_find(&kept, pid);
	int r;

	if (k && k->read_ns) {
		opened_refresh(k);
		r = k->error;
	} else {
		r = reading_know(&kept, pid, &k);
	}
	*ret = k;
	return r == -ETIME || (r == 0 && search && k->put_off) ? -EAGAIN : r;
}

static int amd_usage_tell(const struct topology *topology, pid_t pid, bool search,
			  struct amd_usage *ret)
{
	struct reading *k;
	int r;

	pthread_mutex_lock(&kept.lock);
	r = amd_usage_find(pid, search, &k);
	if (r == 0 || r == -EAGAIN)
		amd_usage_sum(topology, pid, k, ret);
	pthread_mutex_unlock(&kept.lock);
	return r;
}

int amd_usage_search(const struct topology *topology, pid_t pid, struct amd_usage *ret)
{
	return amd_usage_tell(topology, pid, true, ret);
}

int amd_usage_read(const struct topology *topology, pid_t pid, struct amd_usage *ret)
{
	return amd_usage_tell(topology, pid, false, ret);
}
