/* SPDX-License-Identifier: Apache-2.0 */
#include "guest/amd/memory/lent.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/ioctl.h>
#include <sys/random.h>
#include <unistd.h>

#include "amd/abi/drm.h"
#include "amd/abi/kfd.h"
#include "base/cleanup.h"
#include "base/fd.h"
#include "base/word.h"
#include "guest/amd/ask.h"
#include "guest/amd/files.h"
#include "guest/lend/borrow.h"
#include "guest/lend/exporter.h"
#include "guest/lend/token.h"
#include "ledger/shared.h"
#include "ledger/swap.h"

/* --- Lending ---------------------------------------------------------------------------------- */

static bool amd_lent_find(struct guest *guest, const struct share_name *name, struct object *ret)
{
	return (name->offset == OBJECT_KFD || name->offset == OBJECT_GEM) && name->id &&
	       object_get(guest->objects, (enum object_kind)name->offset, name->object, ret) &&
	       ret->amd.lent == name->id && !(ret->flags & OBJECT_IMPORTED);
}

static bool amd_lent_knows(struct guest *guest, const struct share_name *name)
{
	struct object object;

	return amd_lent_find(guest, name, &object);
}

static int amd_lent_of_kfd(uint64_t handle)
{
	struct kfd_ioctl_export_dmabuf_args args = {.handle = handle, .flags = O_CLOEXEC};
	CLEANUP_CLOSE int kfd = fd_openat(AT_FDCWD, "/dev/kfd", O_RDWR, 0);
	int r = kfd < 0 ? kfd : amd_ask(kfd, _IOWR('K', KFD_NR_EXPORT_DMABUF, args), &args);

	return r < 0 ? r : (int)args.dmabuf_fd;
}

static int amd_lent_of_node(uint64_t key)
{
	struct drm_prime_handle args = {.handle = (uint32_t)key,
					.flags = O_CLOEXEC | O_RDWR,
					.fd = -1};
	CLEANUP_CLOSE int node = amd_files_dup(key);
	int r = node < 0 ? node
			 : amd_ask(node, _IOWR('d', DRM_NR_PRIME_HANDLE_TO_FD, args), &args);

	return r < 0 ? r : args.fd;
}

static int amd_lent_descriptor(struct guest *guest, const struct share_name *name, int *ret_fd)
{
	struct object object;
	int fd;

	if (!amd_lent_find(guest, name, &object))
		return -ENOENT;
	guest_depth++;
	fd = object.kind == OBJECT_KFD ? amd_lent_of_kfd(object.key) : amd_lent_of_node(object.key);
	guest_depth--;
	if (fd < 0)
		return -EIO;
	*ret_fd = fd;
	return 0;
}

static const struct exporter_kind amd_lent_kind = {
	.magic = SHARE_MAGIC_AMD,
	.knows = amd_lent_knows,
	.descriptor = amd_lent_descriptor,
};

/* Of two threads that name it at once the first one's name stays. */
static bool amd_lent_settle(struct object *object, void *arg)
{
	uint64_t *id = arg;

	if (!object->amd.lent)
		object->amd.lent = *id;
	*id = object->amd.lent;
	return true;
}

static bool amd_lent_begin(struct amd_call *call, const struct object *object,
			   struct share_name *ret)
{
	struct share_name name;

	if (!exporter_offer(call->guest, &amd_lent_kind, &name) ||
	    getrandom(&name.id, sizeof(name.id), 0) != (ssize_t)sizeof(name.id))
		return false;
	name.id |= 1;
	if (!object_change(call->guest->objects, object->kind, object->key, false, amd_lent_settle,
			   &name.id))
		return false;
	name.object = object->key;
	name.offset = object->kind;
	name.size = object->bytes;
	*ret = name;
	return true;
}

static struct share_name amd_lent_name_of(struct guest *guest, const struct object *borrowed)
{
	return (struct share_name){.magic = SHARE_MAGIC_AMD,
				   .tenant = exporter_tenant(guest),
				   .process = borrowed->import.process,
				   .object = borrowed->import.object,
				   .id = borrowed->import.id,
				   .size = borrowed->size,
				   .offset = (uint32_t)borrowed->import.at,
				   .slot = borrowed->import.slot,
				   .generation = borrowed->import.generation};
}

bool amd_lent_name(struct amd_call *call, const struct object *object, struct share_name *ret)
{
	struct object borrowed;

	if (!call->guest->swappable || object->flags & OBJECT_HOST ||
	    (object->kind == OBJECT_GEM && amd_files_is_shared(object->key)))
		return false;
	if (!(object->flags & OBJECT_IMPORTED))
		return amd_lent_begin(call, object, ret);
	if (!object->amd.lent || !object_get(call->guest->objects, OBJECT_BORROWED,
					     object->shared.word[0], &borrowed))
		return false;
	*ret = amd_lent_name_of(call->guest, &borrowed);
	return true;
}

/* --- Borrowing -------------------------------------------------------------------------------- */

bool amd_lent_is(struct guest *guest, int fd, struct share_name *ret)
{
	return guest->swappable && token_read(fd, SHARE_MAGIC_AMD, ret) &&
	       exporter_is_tenants(guest, ret);
}

static int amd_lent_ask(const struct borrow_patience *patience, const struct share_name *name)
{
	int fd = -EBADF, r;

	if (exporter_is_own(patience->guest, name))
		r = amd_lent_descriptor(patience->guest, name, &fd) ? -ESRCH : 0;
	else
		r = borrow(patience, name, SHARE_DESCRIPTOR, &fd);
	return r < 0 ? r : fd;
}

int amd_lent_fetch(struct guest *guest, const struct share_name *name)
{
	const struct borrow_patience patience = {.guest = guest,
						 .until_ns = now_monotonic_ns() + BORROW_CALL_NS};
	int fd;

	guest_depth++;
	fd = amd_lent_ask(&patience, name);
	guest_depth--;
	return fd < 0 ? -EINVAL : fd;
}

static bool amd_lent_note(struct object *borrowed, void *arg)
{
	*borrowed = *(const struct object *)arg;
	return true;
}

void amd_lent_borrow(struct guest *guest, const struct share_name *name, struct object *object)
{
	struct object borrowed = {.kind = OBJECT_BORROWED,
				  .key = share_key(name).word[0],
				  .shared = share_key(name),
				  .size = name->size,
				  .import = {.process = name->process,
					     .object = name->object,
					     .id = name->id,
					     .at = name->offset,
					     .slot = name->slot,
					     .generation = name->generation}};

	/* Without it nobody could bring it back: then it is any dma-buf's. */
	if (!(object->flags & OBJECT_SHARED))
		return;
	object_change(guest->objects, OBJECT_BORROWED, borrowed.key, true, amd_lent_note,
		      &borrowed);
	object->amd.lent = name->id;
}

void amd_lent_give_back(struct guest *guest, const struct object *object)
{
	struct object gone;

	if (object->amd.lent && object->flags & OBJECT_IMPORTED &&
	    !object_get(guest->objects, OBJECT_SHARE, object->shared.word[0], &gone))
		object_take(guest->objects, OBJECT_BORROWED, object->shared.word[0], &gone);
}

/* --- For who moves it ------------------------------------------------------------------------- */

static bool amd_lent_is_lost(struct guest *guest, const struct object *borrowed)
{
	const struct share_name name = amd_lent_name_of(guest, borrowed);

	if (exporter_is_own(guest, &name))
		return !amd_lent_knows(guest, &name);
	return !shared_covered(guest->ledger, borrowed->shared) || !borrow_lives(guest, &name);
}

uint64_t amd_lent_lost(struct guest *guest)
{
	struct object borrowed = {.key = 0};
	uint64_t n = 0;

	while (object_next(guest->objects, OBJECT_BORROWED, borrowed.key, &borrowed))
		n += amd_lent_is_lost(guest, &borrowed);
	return n;
}

bool amd_lent_any(struct guest *guest)
{
	return object_count(guest->objects, OBJECT_BORROWED);
}

static struct borrow_patience amd_lent_patience(struct guest *guest)
{
	return (struct borrow_patience){.guest = guest,
					.until_ns = UINT64_MAX,
					.request = word_acquire(swap_request(guest->policy_map))};
}

int amd_lent_await_copies(struct guest *guest)
{
	const struct borrow_patience patience = amd_lent_patience(guest);
	struct object borrowed = {.key = 0};
	int r = 0;

	while (!r && object_next(guest->objects, OBJECT_BORROWED, borrowed.key, &borrowed)) {
		const struct share_name name = amd_lent_name_of(guest, &borrowed);

		if (!exporter_is_own(guest, &name))
			r = borrow(&patience, &name, SHARE_COPIED, NULL);
	}
	return r;
}

int amd_lent_fetch_again(struct guest *guest, uint64_t key)
{
	const struct borrow_patience patience = amd_lent_patience(guest);
	struct object borrowed;
	struct share_name name;

	if (!object_get(guest->objects, OBJECT_BORROWED, key, &borrowed))
		return -ESRCH;
	name = amd_lent_name_of(guest, &borrowed);
	return amd_lent_ask(&patience, &name);
}
