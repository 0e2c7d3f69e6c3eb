/* SPDX-License-Identifier: Apache-2.0 */
/* A file that has more than buffers: contexts, notes on a buffer, and objects that cannot come back. */
#include <stdint.h>
#include <string.h>
#include <unistd.h>

#include "criu/gpu/drm.h"
#include "criu/gpu/engine.h"
#include "holder.h"

static const struct drm_amdgpu_gem_metadata noted = {
	.data = {.flags = 5, .tiling_info = 7, .data_size_bytes = 8, .data = {0x1001, 0x2002}}};

static void make_contexts(int fd)
{
	uint32_t id;

	for (uint32_t i = 1; i <= 4; i++)
		if (drm_make_context(fd, &id) || id != i)
			wrong("contexts do not begin with 1");
	if (drm_free_context(fd, 2) || drm_free_context(fd, 4))
		wrong("contexts cannot be freed");
}

static void check_contexts(int fd)
{
	uint32_t id, flags;

	for (id = 1; id < 8; id++)
		if ((drm_context_state(fd, id, &flags) == 0) != (id == 1 || id == 3))
			wrong("context %u: %s", id, id & 1 ? "is not there" : "is there");
	if (drm_make_context(fd, &id) || id != 2)
		wrong("a new context has number %u", id);
}

static void note_of(int fd, uint32_t handle)
{
	struct drm_amdgpu_gem_metadata args = noted;

	args.handle = handle;
	if (drm_metadata(fd, AMDGPU_GEM_METADATA_OP_SET_METADATA, &args))
		wrong("GEM_METADATA");
}

static void check_note(int fd, uint32_t handle, bool is)
{
	static const struct drm_amdgpu_gem_metadata none;
	struct drm_amdgpu_gem_metadata args = {.handle = handle};

	if (drm_metadata(fd, AMDGPU_GEM_METADATA_OP_GET_METADATA, &args) ||
	    memcmp(&args.data, is ? &noted.data : &none.data, sizeof(args.data)))
		wrong("buffer %u: what was noted of it is not as it was", handle);
}

/* The second buffer is the first, of another file; and of the other GPU. */
void beside(void)
{
	int fd = node(0), same = node(0), other = node(1);
	uint32_t one = create(fd), two = create(fd), imported = import(other, export(fd, one));

	import(same, export(fd, one));
	note_of(fd, one);
	note_of(other, imported);
	make_contexts(fd);
	rest();
	check_note(fd, one, true);
	check_note(same, 1, true);
	check_note(other, imported, true);
	check_note(fd, two, false);
	check_contexts(fd);
}

/* Its work is done, and it may yet ask for it. */
void beside_worked(void)
{
	struct engine engine;
	static uint32_t words[BYTES / 4];
	int fd = node(0), dmabuf = export(fd, create(fd));

	copy_by_engine(&engine, dmabuf, words, true);
	close(dmabuf);
	rest();
}

void beside_syncobj(void)
{
	struct drm_syncobj_create args = {0};
	int fd = node(0);

	create(fd);
	if (CALL(fd, DRM_NR_SYNCOBJ_CREATE, &args) || args.handle != 1)
		wrong("SYNCOBJ_CREATE");
	rest();
}

void beside_users(void)
{
	static _Alignas(4096) char memory[BYTES];
	struct drm_amdgpu_gem_userptr args = {.addr = (uintptr_t)memory, .size = BYTES, .flags = 9};
	int fd = node(0);

	create(fd);
	if (CALL(fd, DRM_NR_AMDGPU_GEM_USERPTR, &args) || args.handle != 2)
		wrong("GEM_USERPTR");
	rest();
}
