/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
#include "criu/restore.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "amd/topology_read.h"
#include "base/cleanup.h"
#include "base/err.h"
#include "criu/abi.h"
#include "criu/kfd/kfd_image.h"
#include "criu/kfd_reach.h"
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

static const struct {
	const char *word;
	enum match_relax bit;
} relaxes[] = {
	{"memory", MATCH_SMALLER_MEMORY}, {"firmware", MATCH_OLDER_FIRMWARE},
	{"caches", MATCH_FEWER_CACHES},	  {"gws", MATCH_FEWER_GWS},
	{"capability", MATCH_OTHER_CAPABILITY},
};

static int restore_parse_relax(unsigned int *ret)
{
	const char *at = getenv("ALLOT_AMDGPU_RELAX");

	for (*ret = 0; at && *at; at += *at == ',') {
		size_t n = strcspn(at, ","), i = 0;

		while (i < 5 && (strlen(relaxes[i].word) != n || memcmp(relaxes[i].word, at, n)))
			i++;
		if (i == 5) {
			SAY_ERROR("ALLOT_AMDGPU_RELAX: %.*s is none of memory, firmware, caches, gws, "
				  "capability", (int)n, at);
			return -EINVAL;
		}
		*ret |= relaxes[i].bit;
		at += n;
	}
	return 0;
}

/* -ENOENT: nobody had /dev/kfd. Says what else is wrong. */
static int restore_read_kfd(struct restore *restore)
{
	struct topology_complaint complaint;
	struct topology *topology;
	char why[KFD_WHY_BYTES];
	unsigned int relax;
	int dir = criu_get_image_dir(), r;

	if (faccessat(dir, KFD_IMAGE_FILE, F_OK, 0) < 0)
		return err_errno();
	r = restore_parse_relax(&relax);
	if (r < 0)
		return r;
	r = topology_read(NULL, &topology, &complaint);
	if (r < 0) {
		SAY_ERROR("the GPUs cannot be looked at: %s", complaint.text);
		return r == -ENOENT ? -ENODEV : r;
	}
	r = kfd_restore_open(&kfd_reach, topology, dir, relax, &restore->kfd, why);
	if (r < 0)
		SAY_ERROR("%s", why);
	topology_free(topology);
	return r;
}

/* The catalog's entries of /dev/kfd's buffers must fit that image. */
static int restore_check_kfd(const struct restore *restore)
{
	uint32_t n = restore->kfd ? kfd_restore_buffers(restore->kfd) : 0;

	for (uint32_t i = 0; i < restore->catalog.n[CATALOG_BUFFERS]; i++)
		if (restore->catalog.buffers[i].kfd_plus_one > n) {
			SAY_ERROR("%s and %s are not of one dump", CATALOG_FILE, KFD_IMAGE_FILE);
			return -EBADMSG;
		}
	return 0;
}

/* All processes are forked from this one, and find it where it is. */
static int restore_share(struct restore *restore)
{
	const uint32_t *n = restore->catalog.n;
	uint32_t nkfds = restore->kfd ? kfd_restore_processes(restore->kfd) : 0,
		 nkfd_buffers = restore->kfd ? kfd_restore_buffers(restore->kfd) : 0;
	struct restore_shared *shared =
		mmap(NULL,
		     sizeof(*shared) + n[CATALOG_FILES] * sizeof(*shared->files) +
			     (n[CATALOG_BUFFERS] + nkfd_buffers) * sizeof(*shared->buffers) +
			     (n[CATALOG_DMABUFS] + nkfds) * sizeof(*shared->dmabufs),
		     PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	pthread_mutexattr_t attributes;

	if (shared == MAP_FAILED)
		return err_errno();
	pthread_mutexattr_init(&attributes);
	pthread_mutexattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED);
	pthread_mutex_init(&shared->first, &attributes);
	shared->files = (void *)(shared + 1);
	for (uint32_t i = 0; i < n[CATALOG_FILES]; i++)
		pthread_mutex_init(&shared->files[i].first, &attributes);
	pthread_mutexattr_destroy(&attributes);
	shared->buffers = (void *)(shared->files + n[CATALOG_FILES]);
	shared->kfd_buffers = shared->buffers + n[CATALOG_BUFFERS];
	shared->dmabufs = (void *)(shared->kfd_buffers + nkfd_buffers);
	shared->kfds = shared->dmabufs + n[CATALOG_DMABUFS];
	restore->shared = shared;
	return 0;
}

/* The files of CRIU's own plugin for these GPUs, of 3.17 to 4.2, in an image. */
void restore_name_upstreams(uint32_t id)
{
	static const char *const names[] = {"amdgpu-kfd-", "amdgpu-renderD-", "amdgpu-dmabuf_"};
	char name[32];

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		snprintf(name, sizeof(name), "%s%" PRIu32 ".img", names[i], id);
		if (faccessat(criu_get_image_dir(), name, F_OK, 0) == 0)
			SAY_ERROR("%s is of CRIU's own plugin for AMD GPUs, whose images this one does "
				  "not read: restore it with amdgpu_plugin.so, by criu restore -L "
				  "with the folder that has it and not this plugin",
				  name);
	}
}

int restore_open(struct restore *restore, bool retries)
{
	struct damage damage = {.text = CATALOG_FILE};
	int r = restore_read(restore, &damage), kfd;

	restore->retries = retries;
	if (r < 0 && r != -ENOENT) {
		SAY_ERROR("%s: %s; the image cannot be restored", damage.text, strerror(-r));
		return r;
	}
	kfd = restore_read_kfd(restore);
	if (kfd < 0 && kfd != -ENOENT)
		return kfd;
	if (r == -ENOENT && kfd == -ENOENT)
		return 0;
	r = restore_check_kfd(restore);
	if (r < 0)
		return r;
	restore->own = calloc(restore->catalog.n[CATALOG_FILES] + 1, sizeof(bool));
	r = restore->own ? restore_share(restore) : -ENOMEM;
	if (r < 0)
		SAY_ERROR("no room for a restore: %s", strerror(-r));
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

struct published *restore_buffer(const struct restore *restore, uint32_t buffer)
{
	uint32_t kfd = restore->catalog.buffers[buffer].kfd_plus_one;

	return kfd ? &restore->shared->kfd_buffers[kfd - 1] : &restore->shared->buffers[buffer];
}

bool restore_wants(const struct restore *restore, uint32_t kfd_buffer)
{
	for (uint32_t i = 0; i < restore->catalog.n[CATALOG_BUFFERS]; i++)
		if (restore->catalog.buffers[i].kfd_plus_one == kfd_buffer + 1)
			return true;
	return kfd_restore_is_shared(restore->kfd, kfd_buffer);
}

int restore_publish(struct restore *restore, struct published *published, int dmabuf)
{
	struct restore_shared *shared = restore->shared;
	int r = published_put(published, dmabuf);

	if (r < 0)
		return r;
	for (uint32_t i = 0; i < restore->catalog.n[CATALOG_FILES]; i++)
		waiter_wake(&shared->files[i].waiter);
	for (uint32_t i = 0; i < restore->catalog.n[CATALOG_DMABUFS]; i++)
		waiter_wake(&shared->dmabufs[i]);
	for (uint32_t i = 0; restore->kfd && i < kfd_restore_processes(restore->kfd); i++)
		waiter_wake(&shared->kfds[i]);
	return 0;
}
