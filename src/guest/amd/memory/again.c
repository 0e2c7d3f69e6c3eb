/* SPDX-License-Identifier: Apache-2.0 */
#include "guest/amd/memory/again.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "amd/abi/drm.h"
#include "amd/abi/kfd.h"
#include "amd/kfd_ioctl.h"
#include "base/fd.h"
#include "guest/amd/amd.h"
#include "guest/amd/ask.h"
#include "guest/amd/files.h"
#include "guest/amd/memory/dmabuf.h"
#include "guest/amd/memory/sweep.h"
#include "guest/core/object.h"
#include "guest/lend/entry.h"

uint64_t amd_again_obstacle(struct guest *guest)
{
	struct amd *amd = atomic_load(&guest->amd);
	struct object held = {.key = 0};
	uint64_t bytes = 0;

	if (!amd || amd->error)
		return 0;
	amd_sweep_dmabufs(guest, amd);
	while (object_next(guest->objects, OBJECT_DMABUF, held.key, &held))
		bytes += held.bytes;
	return bytes;
}

/* A descriptor of the dma-buf that the object's memory is now, or -errno. */
static int amd_again_export(const struct object *object, int kfd)
{
	struct kfd_ioctl_export_dmabuf_args memory = {.handle = object->key, .flags = O_CLOEXEC};
	struct drm_prime_handle buffer = {.handle = (uint32_t)object->key, .flags = O_CLOEXEC};
	int fd, r;

	if (object->kind == OBJECT_KFD) {
		r = amd_ask(kfd, _IOWR('K', KFD_NR_EXPORT_DMABUF, memory), &memory);
		return r < 0 ? r : (int)memory.dmabuf_fd;
	}
	fd = amd_files_dup(object->key);
	if (fd < 0)
		return fd;
	r = amd_ask(fd, _IOWR('d', DRM_NR_PRIME_HANDLE_TO_FD, buffer), &buffer);
	close(fd);
	return r < 0 ? r : buffer.fd;
}

static bool amd_again_change(struct object *object, void *arg)
{
	const struct object *is = arg;

	object->shared = is->shared;
	object->amd.inode = is->amd.inode;
	return true;
}

/*
 * The first of its holders that comes back gives it a new name. If none can be had, it keeps a name
 * that nothing else has: a later importer is then charged for it once more.
 */
static void amd_again_name(struct guest *guest, struct amd *amd, struct object *object, int kfd)
{
	struct shared_key key = shared_aged(object->shared);
	struct dmabuf_name name;
	int dmabuf = object->amd.inode ? amd_again_export(object, kfd) : -ENOENT;

	if (dmabuf >= 0 && !dmabuf_name(dmabuf, &name) &&
	    !shared_rename(amd->slot, key, name.key)) {
		key = name.key;
		object->amd.inode = name.inode;
	}
	if (dmabuf >= 0)
		close(dmabuf);
	/* Memory under a name of ours keeps it: the lender has it under that name, too. */
	if (object->amd.lent && !shared_rename(amd->slot, key, object->shared))
		key = object->shared;
	entry_rename(guest, key, object);
	object_change(guest->objects, (enum object_kind)object->kind, object->key, false,
		      amd_again_change, object);
}

static void amd_again_names(struct guest *guest, struct amd *amd, enum object_kind kind, int kfd)
{
	struct object object[OBJECT_BATCH];
	uint64_t above = 0;
	int n;

	do {
		n = object_list(guest->objects, kind, above, object, OBJECT_BATCH);
		for (int i = 0; i < n; i++) {
			above = object[i].key;
			if (object[i].flags & OBJECT_SHARED)
				amd_again_name(guest, amd, &object[i], kfd);
		}
	} while (n == OBJECT_BATCH);
}

void amd_again(struct guest *guest)
{
	struct amd *amd = atomic_load(&guest->amd);
	int kfd = -EBADF;

	if (!amd || amd->error)
		return;
	amd_forget_kfd();
	/* To open it is to be known to the driver, which who has nothing there may not want. */
	guest_depth++;
	if (object_count(guest->objects, OBJECT_KFD))
		kfd = fd_openat(AT_FDCWD, "/dev/kfd", O_RDWR, 0);
	guest_depth--;
	amd_again_names(guest, amd, OBJECT_KFD, kfd);
	amd_again_names(guest, amd, OBJECT_GEM, kfd);
	if (kfd >= 0)
		close(kfd);
}
