/* SPDX-License-Identifier: Apache-2.0 */
/* Objects seen from elsewhere: as a descriptor, by another process, by the CPU. */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "peer/backend.h"
#include "peer/complain.h"

/* Graphics drivers align their buffers to this, and an imported one may be theirs. */
#define IMPORT_ALIGNMENT (UINT64_C(256) << 10)

/*
 * Notes a descriptor's inode. Handles are numbers of one process or one file; the inode of a
 * dma-buf is the same everywhere. The inode of a device file is the device's, and tells nothing.
 */
static int content_note_inode(struct peer_object *object, int fd, const char *what)
{
	struct stat st;
	int r;

	if (fstat(fd, &st) < 0) {
		r = err_errno();
		return complain(r, "%s: descriptor %d: %s", what, fd, complain_words(r));
	}
	if (!S_ISCHR(st.st_mode)) {
		object->inode = st.st_ino;
		object->inode_device = st.st_dev;
	}
	return 0;
}

/* The object that has all of these bytes, and how far into it they begin. */
static int content_find_bytes(const struct allot_peer *peer, uint64_t address, uint64_t bytes,
			      const char *what, struct peer_object **ret_object,
			      uint64_t *ret_offset)
{
	struct peer_object *object = NULL;
	uint64_t offset;
	int r = peer_object_find(peer, address, what, &object);

	if (r < 0)
		return r;
	offset = address - object->range.first;
	if (bytes > object->bytes - offset)
		return complain(-ERANGE,
				"%s: %" PRIu64 " bytes from %#" PRIx64
				" on go beyond the end of their object, which has %" PRIu64
				" at %#" PRIx64,
				what, bytes, address, object->bytes, object->range.first);
	*ret_object = object;
	*ret_offset = offset;
	return 0;
}

int allot_peer_export(struct allot_peer *peer, uint64_t address, uint64_t bytes, int *ret_fd,
		      uint64_t *ret_offset)
{
	PEER_LOCKED locked = NULL;
	CLEANUP_CLOSE int fd = -EBADF;
	struct peer_object *object = NULL;
	uint64_t offset;
	int r = peer_lock(peer, &locked);

	if (r == 0)
		r = content_find_bytes(peer, address, bytes, "export", &object, &offset);
	if (r < 0)
		return r;
	if (object->kind == ALLOT_PEER_USER || object->kind == ALLOT_PEER_ADDRESS)
		return complain(-EINVAL,
				"export: the object at %#" PRIx64
				" is not memory that the driver has",
				object->range.first);
	r = peer->backend->export_fd(peer, object, &fd);
	if (r == 0)
		r = content_note_inode(object, fd, "export");
	if (r < 0)
		return r;
	*ret_fd = TAKE_FD(fd);
	*ret_offset = offset;
	return 0;
}

int allot_peer_import(struct allot_peer *peer, int fd, const struct allot_peer_request *as,
		      uint64_t *ret_address)
{
	PEER_LOCKED locked = NULL;
	CLEANUP_FREE struct peer_object *object = calloc(1, sizeof(*object));
	uint64_t alignment;
	int r = peer_lock(peer, &locked);

	if (r < 0)
		return r;
	if (!object)
		return complain(-ENOMEM, "import: out of memory");
	object->imported = true;
	r = peer->backend->inspect(peer, fd, as, object);
	if (r == 0)
		r = content_note_inode(object, fd, "import");
	if (r < 0)
		return r;
	alignment = as->alignment;
	if (!as->address && !alignment) {
		alignment = address_alignment(object->bytes, peer->page);
		if (alignment < IMPORT_ALIGNMENT)
			alignment = IMPORT_ALIGNMENT;
	}
	r = peer_object_place(peer, object, as->address, alignment);
	if (r < 0)
		return r;
	r = peer->backend->import(peer, fd, object);
	if (r < 0) {
		peer_object_displace(peer, object);
		return r;
	}
	*ret_address = object->range.first;
	object = NULL; /* the tree has it */
	return 0;
}

static int content_find(struct allot_peer *peer, uint64_t address, size_t bytes, const char *what,
			struct peer_object **ret_object, uint64_t *ret_offset)
{
	struct peer_object *object = NULL;
	int r = content_find_bytes(peer, address, bytes, what, &object, ret_offset);

	if (r < 0)
		return r;
	if (object->kind == ALLOT_PEER_ADDRESS)
		return complain(-EACCES,
				"%s: the object at %#" PRIx64 " is addresses without memory", what,
				object->range.first);
	if (object->kind == ALLOT_PEER_HANDLE)
		return complain(-EACCES,
				"%s: the object %#" PRIx64
				" has no address; export it, and import that",
				what, object->range.first);
	if (!(object->flags & ALLOT_PEER_HOST))
		return complain(-EACCES,
				"%s: the object at %#" PRIx64
				" is not for the CPU to look at; make it with ALLOT_PEER_HOST",
				what, object->range.first);
	*ret_object = object;
	return 0;
}

int allot_peer_read(struct allot_peer *peer, uint64_t address, void *to, size_t bytes)
{
	PEER_LOCKED locked = NULL;
	struct peer_object *object = NULL;
	uint64_t offset;
	int r = peer_lock(peer, &locked);

	if (r == 0)
		r = content_find(peer, address, bytes, "read", &object, &offset);
	if (r == 0 && bytes)
		r = peer->backend->read(peer, object, offset, to, bytes);
	return r;
}

int allot_peer_write(struct allot_peer *peer, uint64_t address, const void *from, size_t bytes)
{
	PEER_LOCKED locked = NULL;
	struct peer_object *object = NULL;
	uint64_t offset;
	int r = peer_lock(peer, &locked);

	if (r == 0)
		r = content_find(peer, address, bytes, "write", &object, &offset);
	if (r == 0 && bytes)
		r = peer->backend->write(peer, object, offset, from, bytes);
	return r;
}
