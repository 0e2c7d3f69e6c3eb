/* SPDX-License-Identifier: Apache-2.0 */
#include "guest/swap/amd/amd_views.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/userfaultfd.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/futex.h"
#include "base/now.h"
#include "base/pages.h"
#include "guest/amd/files.h"
#include "guest/process/thread.h"

#ifndef UFFD_USER_MODE_ONLY
#define UFFD_USER_MODE_ONLY 1
#endif

#define PAGE UINT64_C(4096)

/* How often it is tried to map what is back: the process may be at its limit of mappings. */
#define TRIES  50
#define NAP_NS 10000000

/* --- What is mapped --------------------------------------------------------------------------- */

struct mapping {
	uint64_t at, end, offset, inode;
	int access;
	bool is_shared;
	char path[40]; /* as far as it is of interest */
};

static bool amd_views_parse(const char *line, struct mapping *ret)
{
	char access[5];

	*ret = (struct mapping){.at = 0};
	if (sscanf(line, "%" SCNx64 "-%" SCNx64 " %4s %" SCNx64 " %*s %" SCNu64 " %39s", &ret->at,
		   &ret->end, access, &ret->offset, &ret->inode, ret->path) < 5)
		return false;
	ret->access = (access[0] == 'r' ? PROT_READ : 0) | (access[1] == 'w' ? PROT_WRITE : 0) |
		      (access[2] == 'x' ? PROT_EXEC : 0);
	ret->is_shared = access[3] == 's';
	return true;
}

/*
 * All mappings of the process, as text in memory of ours. The list is read in one go, as far as that
 * is possible: what changes meanwhile may be missed.
 */
struct list {
	char *text;
	size_t room, next;
};

static void amd_views_free_list(struct list *list)
{
	if (list->text)
		munmap(list->text, list->room);
	list->text = NULL;
}

static bool amd_views_read_into(int fd, struct list *list)
{
	size_t n = 0;
	ssize_t got;

	while (n < list->room - 1 && (got = read(fd, list->text + n, list->room - 1 - n)) > 0)
		n += (size_t)got;
	list->text[n] = 0;
	return n < list->room - 1;
}

static bool amd_views_list(struct list *ret)
{
	struct list list = {.text = NULL};
	bool whole = false;

	for (size_t room = 1 << 20; !whole && room <= (size_t)1 << 30; room *= 4) {
		int fd = open("/proc/thread-self/maps", O_RDONLY | O_CLOEXEC);

		amd_views_free_list(&list);
		list.room = room;
		list.text = pages_reserve(room);
		if (fd < 0 || !list.text) {
			amd_views_free_list(&list);
			if (fd >= 0)
				close(fd);
			return false;
		}
		whole = amd_views_read_into(fd, &list);
		close(fd);
	}
	*ret = list;
	return whole;
}

static bool amd_views_next(struct list *list, struct mapping *ret)
{
	while (list->text[list->next]) {
		char *line = list->text + list->next;
		size_t len = strcspn(line, "\n");

		list->next += len + (line[len] != 0);
		line[len] = 0;
		if (amd_views_parse(line, ret))
			return true;
	}
	return false;
}

/* The device of a node by its path, as a place in struct amd; -1. */
static int amd_views_device(struct amd *amd, const struct mapping *mapping)
{
	const struct amd_device *device;
	int minor;

	if (sscanf(mapping->path, "/dev/dri/renderD%d", &minor) != 1 &&
	    sscanf(mapping->path, "/dev/dri/card%d", &minor) != 1)
		return -1;
	device = amd_device_of_minor(amd, minor);
	return device ? (int)(device - amd->device) : -1;
}

static bool amd_views_find_piece(struct amd *amd, const struct amd_pieces *pieces,
				 const struct mapping *mapping, struct amd_view *ret)
{
	int device = amd_views_device(amd, mapping);

	for (uint64_t i = 0; device >= 0 && i < pieces->n; i++) {
		const struct amd_piece *piece = &pieces->at[i];

		/* /dev/kfd shows nothing of what it has imported. */
		if (piece->borrowed && piece->file < 0)
			continue;
		if (piece->device != device || mapping->offset - piece->offset >= piece->bytes)
			continue;
		*ret = (struct amd_view){.at = mapping->at,
					 .bytes = mapping->end - mapping->at,
					 .piece = i,
					 .within = mapping->offset - piece->offset,
					 .access = mapping->access,
					 .is_shared = mapping->is_shared};
		return true;
	}
	return false;
}

static bool amd_views_add(struct amd_views *views, const struct amd_view *view)
{
	uint64_t room = views->room ? 2 * views->room : 256;
	struct amd_view *grown;

	if (views->n == views->room) {
		grown = pages_map(room * sizeof(*grown));
		if (!grown)
			return false;
		if (views->n)
			memcpy(grown, views->at, views->n * sizeof(*grown));
		if (views->at)
			munmap(views->at, views->room * sizeof(*grown));
		views->at = grown;
		views->room = room;
	}
	views->at[views->n] = *view;
	views->at[views->n++].place = views->bytes;
	views->bytes += view->bytes;
	return true;
}

/* --- What makes others wait ------------------------------------------------------------------- */

static int amd_views_open_faults(int flags)
{
	/* Without the event a range that is moved is an ordinary one. */
	struct uffdio_api api = {.api = UFFD_API, .features = UFFD_FEATURE_EVENT_REMAP};
	int fd = (int)syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK | flags);

	if (fd < 0 || !ioctl(fd, UFFDIO_API, &api))
		return fd;
	close(fd);
	return -1;
}

/*
 * Without the right to it the kernel's own accesses, as in read(), would fail and not wait. That is
 * no loss where nobody has access.
 */
static bool amd_views_may_wait(struct amd_views *views)
{
	bool any = false;

	for (uint64_t i = 0; i < views->n; i++)
		any |= views->at[i].access != PROT_NONE;
	views->faults = amd_views_open_faults(0);
	if (views->faults < 0 && !any)
		views->faults = amd_views_open_faults(UFFD_USER_MODE_ONLY);
	return views->faults >= 0;
}

/* By which each can be mapped again. */
static bool amd_views_open_nodes(struct amd *amd, const struct amd_pieces *pieces,
				 struct amd_views *views)
{
	for (uint64_t i = 0; i < views->n; i++) {
		int device = pieces->at[views->at[i].piece].device;

		if (pieces->at[views->at[i].piece].file >= 0)
			continue; /* the list has it open */
		if (views->node[device] < 0)
			views->node[device] =
				amd_files_dup(atomic_load(&amd->device[device].vm_file));
		if (views->node[device] < 0)
			return false;
	}
	return true;
}

enum swap_why amd_views_find(struct amd *amd, const struct amd_pieces *pieces,
			     struct amd_views *views, uint64_t *ret_amount)
{
	struct mapping mapping;
	struct amd_view view;
	struct list list;
	bool good = true;

	*views = (struct amd_views){.faults = -1, .file = -1, .found = true};
	for (int i = 0; i < GUEST_DEVICES; i++)
		views->node[i] = -1;
	if (!pieces->n)
		return SWAP_FINE;
	if (!amd_views_list(&list))
		return SWAP_HOST;
	while (good && amd_views_next(&list, &mapping))
		if (amd_views_find_piece(amd, pieces, &mapping, &view))
			good = amd_views_add(views, &view);
	amd_views_free_list(&list);
	if (!good)
		return SWAP_HOST;
	if (!views->n || (amd_views_may_wait(views) && amd_views_open_nodes(amd, pieces, views)))
		return SWAP_FINE;
	*ret_amount = views->bytes;
	return SWAP_VIEWS;
}

/* --- Taking ----------------------------------------------------------------------------------- */

/* Whoever moves a range waits until this thread has heard of it. */
struct listener {
	int faults;
	_Atomic uint32_t ending, ended;
	_Atomic bool awaited; /* somebody touches what is taken, and is not heard of again */
};

static void *amd_views_listen(void *arg)
{
	struct listener *listener = arg;
	struct uffd_msg message;

	prctl(PR_SET_NAME, "allot-views");
	while (!atomic_load(&listener->ending)) {
		struct pollfd events = {.fd = listener->faults, .events = POLLIN};

		if (poll(&events, 1, 1) > 0)
			while (read(listener->faults, &message, sizeof(message)) > 0)
				if (message.event == UFFD_EVENT_PAGEFAULT)
					atomic_store(&listener->awaited, true);
	}
	atomic_store(&listener->ended, 1);
	futex_wake_all(&listener->ended);
	return NULL;
}

static bool amd_views_take_one(const struct amd_views *views, const struct amd_view *view)
{
	void *ours = mmap(NULL, view->bytes, view->access, MAP_SHARED | MAP_NORESERVE, views->file,
			  (off_t)view->place);
	struct uffdio_register range = {.range = {(uintptr_t)ours, view->bytes},
					.mode = UFFDIO_REGISTER_MODE_MISSING};

	if (ours == MAP_FAILED)
		return false;
	madvise(ours, view->bytes, MADV_DONTFORK);
	if (!ioctl(views->faults, UFFDIO_REGISTER, &range) &&
	    mremap(ours, view->bytes, view->bytes, MREMAP_MAYMOVE | MREMAP_FIXED,
		   (void *)(uintptr_t)view->at) != MAP_FAILED)
		return true;
	munmap(ours, view->bytes);
	return false;
}

static bool amd_views_open_file(struct amd_views *views)
{
	struct stat st;

	views->file = memfd_create("allot-away", MFD_CLOEXEC);
	if (views->file < 0 || ftruncate(views->file, (off_t)views->bytes) ||
	    fstat(views->file, &st))
		return false;
	views->inode = st.st_ino;
	return true;
}

enum swap_why amd_views_take(struct amd_views *views)
{
	struct listener listener = {.faults = views->faults};
	bool good = true;

	if (!views->n || views->file >= 0)
		return SWAP_FINE;
	if (!amd_views_open_file(views) || thread_start(amd_views_listen, &listener))
		return SWAP_DRIVER;
	for (uint64_t i = 0; good && i < views->n; i++)
		good = amd_views_take_one(views, &views->at[i]);
	atomic_store(&listener.ending, 1);
	while (!atomic_load(&listener.ended))
		futex_wait(&listener.ended, 0);
	views->awaited |= atomic_load(&listener.awaited);
	return good ? SWAP_FINE : SWAP_DRIVER;
}

bool amd_views_are_awaited(const struct amd_views *views)
{
	struct pollfd events = {.fd = views->faults, .events = POLLIN};

	return views->awaited || (views->n && poll(&events, 1, 0) > 0);
}

/* --- Giving back ------------------------------------------------------------------------------ */

static const struct amd_view *amd_views_at_place(const struct amd_views *views, uint64_t place)
{
	for (uint64_t i = 0; i < views->n; i++)
		if (place - views->at[i].place < views->at[i].bytes)
			return &views->at[i];
	return NULL;
}

/*
 * A part of one view. A node's memory is mapped from its beginning only, so what lies before that part
 * is unmapped again.
 */
static bool amd_views_give_part(const struct amd_views *views, const struct amd_view *view,
				const struct amd_pieces *pieces, const struct mapping *mapping)
{
	const struct amd_piece *piece = &pieces->at[view->piece];
	uint64_t bytes = mapping->end - mapping->at;
	uint64_t before = view->within + (mapping->offset - view->place);
	char *there;

	there = mmap(NULL, before + bytes, mapping->access,
		     view->is_shared ? MAP_SHARED : MAP_PRIVATE,
		     piece->file >= 0 ? pieces->file[piece->file].fd : views->node[piece->device],
		     (off_t)piece->offset);
	if (there == MAP_FAILED)
		return false;
	/* As the kernel's driver has it, of /dev/kfd's. */
	if (piece->file < 0)
		madvise(there, before + bytes, MADV_DONTFORK);
	if (before)
		munmap(there, before);
	if (mremap(there + before, bytes, bytes, MREMAP_MAYMOVE | MREMAP_FIXED,
		   (void *)(uintptr_t)mapping->at) != MAP_FAILED)
		return true;
	munmap(there + before, bytes);
	return false;
}

/* The kernel makes one mapping of views whose addresses and places follow each other. */
static bool amd_views_give_one(const struct amd_views *views, const struct amd_pieces *pieces,
			       const struct mapping *mapping)
{
	struct mapping part = *mapping;
	const struct amd_view *view;
	uint64_t left;
	bool good = true;

	while (part.at < mapping->end && (view = amd_views_at_place(views, part.offset))) {
		left = view->place + view->bytes - part.offset;
		part.end = left < mapping->end - part.at ? part.at + left : mapping->end;
		good &= amd_views_give_part(views, view, pieces, &part);
		part.offset += part.end - part.at;
		part.at = part.end;
	}
	return good;
}

/* What of ours is still where it was put, or where the program has moved it. */
static bool amd_views_give_all(const struct amd_views *views, const struct amd_pieces *pieces)
{
	struct mapping mapping;
	struct list list;
	bool good = true;

	if (!amd_views_list(&list))
		return false;
	while (amd_views_next(&list, &mapping))
		if (mapping.inode == views->inode && !strncmp(mapping.path, "/memfd:allot-away", 17))
			good &= amd_views_give_one(views, pieces, &mapping);
	amd_views_free_list(&list);
	return good;
}

void amd_views_give(struct amd_views *views, const struct amd_pieces *pieces)
{
	bool given = views->file < 0;

	if (!views->found)
		return;
	for (int i = 0; !given && i < TRIES; i++) {
		given = amd_views_give_all(views, pieces);
		if (!given)
			nap_ns(NAP_NS);
	}
	/* Who waits is woken; but it waits for ever where there is nothing to go on with. */
	if (views->faults >= 0 && given)
		close(views->faults);
	if (views->file >= 0)
		close(views->file);
	for (int i = 0; i < GUEST_DEVICES; i++)
		if (views->node[i] >= 0)
			close(views->node[i]);
	if (views->at)
		munmap(views->at, views->room * sizeof(*views->at));
	*views = (struct amd_views){.found = false};
}
