/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/*
 * Dump of a render node's file: its handles, where they are mapped, and which buffers they are.
 * Linux 6.18 lists handles and mappings. Before that handles are tried, and mappings are what a
 * tenant's process has noted (untold.h).
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "criu/contexts.h"
#include "criu/gpu/drm.h"
#include "criu/handles.h"
#include "criu/render.h"
#include "criu/say.h"
#include "criu/untold.h"
#include "criu/whose.h"

/*
 * The kernel gives out the lowest free handle, so a run of unused numbers is as long as the number
 * of closed handles below the highest.
 */
#define PROBE_RUN 16384

static int render_refuse(int fd, const char *what, int r)
{
	char whose[64];

	whose_name(fd, whose, sizeof(whose));
	SAY_ERROR("%s: %s: %s", whose, what, strerror(-r));
	return r;
}

/* --- Handles -------------------------------------------------------------------------------- */

/*
 * An import from another device is in the machine's memory, as far as this device is asked, and the
 * kernel refuses to place it in this one's. It refuses that, too, for a buffer that another GPU of the
 * hive maps, but for such a buffer it also refuses the place that the buffer has. A buffer that was
 * placed is put back.
 */
static bool render_is_imported(int fd, const struct drm_amdgpu_gem_list_handles_entry *entry)
{
	const uint64_t machines = AMDGPU_GEM_DOMAIN_GTT | AMDGPU_GEM_DOMAIN_CPU;
	uint64_t is = entry->preferred_domains;
	int r;

	if (is & ~machines)
		return false;
	r = drm_place(fd, entry->gem_handle, is | AMDGPU_GEM_DOMAIN_VRAM);
	if (r == 0 || r == -EINVAL)
		return drm_place(fd, entry->gem_handle, is) == 0 && r == -EINVAL;
	return false;
}

static int render_probe(int fd, struct drm_amdgpu_gem_list_handles_entry **ret, uint32_t *ret_n)
{
	struct drm_amdgpu_gem_list_handles_entry *list = NULL, *longer;
	uint32_t n = 0;
	int r;

	for (uint32_t handle = 1, misses = 0; misses < PROBE_RUN; handle++, misses++) {
		struct drm_amdgpu_gem_create_in info;

		r = drm_create_info(fd, handle, &info);
		if (r == -ENOENT)
			continue;
		longer = r < 0 ? NULL : reallocarray(list, n + 1, sizeof(*list));
		if (!longer) {
			free(list);
			return r < 0 ? r : -ENOMEM;
		}
		list = longer;
		list[n] = (struct drm_amdgpu_gem_list_handles_entry){
			.gem_handle = handle, .size = info.bo_size, .alignment = info.alignment,
			.preferred_domains = info.domains, .alloc_flags = info.domain_flags};
		list[n].flags = render_is_imported(fd, &list[n])
					? AMDGPU_GEM_LIST_HANDLES_FLAG_IS_IMPORT : 0;
		n++;
		misses = 0;
	}
	*ret = list;
	*ret_n = n;
	return 0;
}

/* --- Addresses ------------------------------------------------------------------------------ */

static int render_dump_mappings(struct dump *dump, int fd, uint32_t handle, uint32_t holder)
{
	CLEANUP_FREE struct drm_amdgpu_gem_vm_entry *list = NULL;
	uint32_t n;
	int r = drm_list_mappings(fd, handle, &list, &n);

	for (uint32_t i = 0; r == 0 && i < n; i++) {
		struct catalog_mapping mapping = {.holder = holder,
						  .flags = (uint32_t)list[i].flags,
						  .address = list[i].addr,
						  .offset = list[i].offset,
						  .bytes = list[i].size};

		r = catalog_add(&dump->catalog, CATALOG_MAPPINGS, &mapping);
		r = r < 0 ? r : 0;
	}
	return r;
}

/* --- Buffers -------------------------------------------------------------------------------- */

/* Opens where it can be found again: ret->place.fd is the caller's. */
static int render_locate(int fd, uint32_t handle, uint64_t mmap_offset, struct dump_buffer *ret)
{
	CLEANUP_CLOSE int place = drm_export(fd, handle, O_RDWR);
	struct stat st;

	*ret = (struct dump_buffer){0};
	if (place == -EPERM) { /* a buffer that may not leave its file is nobody else's */
		place = fcntl(fd, F_DUPFD_CLOEXEC, 0);
		ret->place.offset = mmap_offset;
	} else if (place >= 0 && fstat(place, &st) < 0) {
		return err_errno();
	} else if (place >= 0) {
		ret->inode = st.st_ino;
#ifdef ALLOT_CRIU_BY_HANDLE /* for the test of this case */
		ret->inode = handle;
#endif
	}
	if (place < 0)
		return place == -1 ? err_errno() : place;
	ret->place.is_dmabuf = ret->inode;
	ret->place.fd = TAKE_FD(place);
	return 0;
}

/* Saves the metadata of a buffer, if it has any. */
static int render_dump_metadata(struct dump *dump, int fd, uint32_t handle, uint32_t holder)
{
	struct drm_amdgpu_gem_metadata noted = {.handle = handle};
	struct catalog_metadata is = {.holder = holder};
	int r = drm_metadata(fd, AMDGPU_GEM_METADATA_OP_GET_METADATA, &noted);

	if (r < 0 || (!noted.data.tiling_info && !noted.data.data_size_bytes))
		return r;
	is.bytes = noted.data.data_size_bytes;
	is.flags = noted.data.flags;
	is.tiling = noted.data.tiling_info;
	memcpy(is.data, noted.data.data, sizeof(is.data));
	r = catalog_add(&dump->catalog, CATALOG_METADATA, &is);
	return r < 0 ? r : 0;
}

static int render_dump_buffer(struct dump *dump, int fd, uint64_t mmap_offset,
			      const struct drm_amdgpu_gem_list_handles_entry *entry)
{
	struct catalog_buffer buffer = {.bytes = entry->size, .alignment = entry->alignment,
					.domains = entry->preferred_domains,
					.flags = entry->alloc_flags, .exported = O_RDWR};
	struct dump_buffer is;
	int r = render_locate(fd, entry->gem_handle, mmap_offset, &is), known;

	if (r < 0)
		return r;
	known = is.inode ? dump_find(dump, is.inode) : -ENOENT;
	if (known >= 0) {
		/* An importer does not know how the buffer was created. */
		if (!(entry->flags & AMDGPU_GEM_LIST_HANDLES_FLAG_IS_IMPORT))
			dump->catalog.buffers[known] = buffer;
		close(is.place.fd);
		return known;
	}
	r = dump_add_buffer(dump, &buffer, &is);
	if (r < 0)
		close(is.place.fd);
	return r;
}

/* `untold`: NULL where the kernel tells mappings. */
static int render_dump_holder(struct dump *dump, int fd, uint32_t file, struct untold *untold,
			      const struct drm_amdgpu_gem_list_handles_entry *entry)
{
	struct catalog_holder holder = {.file = file, .handle = entry->gem_handle};
	int r = drm_mmap_offset(fd, holder.handle, &holder.mmap_offset), at;

	if (r < 0 && r != -EPERM)
		return r;
	r = render_dump_buffer(dump, fd, holder.mmap_offset, entry);
	if (r < 0)
		return r;
	holder.buffer = (uint32_t)r;
	at = dump_add_holder(dump, &holder, entry->flags & AMDGPU_GEM_LIST_HANDLES_FLAG_IS_IMPORT);
	if (at < 0)
		return at;
	r = render_dump_metadata(dump, fd, holder.handle, (uint32_t)at);
	if (r < 0)
		return r;
	return untold ? untold_take(dump, untold, (uint32_t)at, entry->size)
		      : render_dump_mappings(dump, fd, holder.handle, (uint32_t)at);
}

/*
 * A number that no restore could give it: it takes GEM_CHANGE_HANDLE, which does nothing when it is
 * asked for the number that there is.
 */
static bool render_is_too_high(int fd, uint32_t handle)
{
	return handle > HANDLES_OCCUPIED && drm_change_handle(fd, handle, handle) < 0;
}

/* Of all buffers that may not be exported, these alone were not created so. */
static bool render_is_users(int fd, const struct drm_amdgpu_gem_list_handles_entry *entry)
{
	CLEANUP_CLOSE int dmabuf = entry->alloc_flags & AMDGPU_GEM_CREATE_VM_ALWAYS_VALID
					   ? -EBADF
					   : drm_export(fd, entry->gem_handle, O_RDWR);

	return dmabuf == -EPERM;
}

/* Beside what is wrong with all of the file's buffers, says which of them cannot be saved and why. */
static int render_check(int fd, const struct drm_amdgpu_gem_list_handles_entry *entry)
{
	char what[128];

	if (render_is_too_high(fd, entry->gem_handle))
		return render_refuse(fd, "it has a handle above 65536, which takes a kernel with "
					 "GEM_CHANGE_HANDLE to bring back", -EFBIG);
	if (!render_is_users(fd, entry))
		return 0;
	snprintf(what, sizeof(what), "its buffer %u is memory of the process's own (GEM_USERPTR), which "
				     "is not saved", entry->gem_handle);
	return render_refuse(fd, what, -EPERM);
}

static int render_dump_contexts(struct dump *dump, int fd, uint32_t file)
{
	char what[CONTEXTS_WHAT_BYTES] = "its contexts cannot be looked at";
	int r = contexts_dump(&dump->catalog, fd, file, what);

	return r < 0 ? render_refuse(fd, what, r) : 0;
}

static int render_dump_all(struct dump *dump, int fd, const struct catalog_file *file,
			   struct untold *untold,
			   const struct drm_amdgpu_gem_list_handles_entry *list, uint32_t n)
{
	struct dump_file is = {.fd = fcntl(fd, F_DUPFD_CLOEXEC, 0),
			       .check = untold ? untold_check : NULL};
	int r = is.fd < 0 ? err_errno() : dump_add_file(dump, file, &is);
	uint32_t at;

	if (r < 0) {
		if (is.fd >= 0)
			close(is.fd);
		return render_refuse(fd, "cannot be noted", r);
	}
	at = (uint32_t)r;
	for (uint32_t i = 0; i < n; i++) {
		r = render_check(fd, &list[i]);
		if (r < 0)
			return r;
		r = render_dump_holder(dump, fd, at, untold, &list[i]);
		if (r < 0)
			return render_refuse(fd, "one of its buffers cannot be looked at", r);
	}
	if (untold && untold->left)
		return render_refuse(fd, UNTOLD_NONSENSE, -EPROTO);
	return render_dump_contexts(dump, fd, at);
}

int render_dump(struct dump *dump, int fd, uint32_t id)
{
	CLEANUP_FREE struct drm_amdgpu_gem_list_handles_entry *list = NULL;
	CLEANUP(untold_done) struct untold untold = {.n = 0};
	struct catalog_file file = {.id = id};
	bool lists = true;
	struct stat st;
	uint32_t n = 0;
	int r;

	if (fstat(fd, &st) < 0)
		return render_refuse(fd, "cannot be looked at", err_errno());
	file.minor = minor(st.st_rdev);
	r = drm_list_handles(fd, &list, &n);
	if (r == -EINVAL || r == -ENOTTY) {
		lists = false;
		r = untold_read(fd, &untold);
		if (r < 0)
			return render_refuse(fd, untold_words(r), r);
		r = render_probe(fd, &list, &n);
	}
	if (r < 0)
		return render_refuse(fd, "its buffers cannot be listed", r);
	return render_dump_all(dump, fd, &file, lists ? NULL : &untold, list, n);
}
