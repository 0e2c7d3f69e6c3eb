/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
#include "criu/contexts.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "criu/gpu/drm.h"

/* Of one kind in a context; the kernel has at most this many (amdgpu_ctx_num_entities). */
#define RINGS 4

/* The numbers of objects for synchronization that are tried. The kernel gives out the lowest. */
#define SYNCOBJ_NUMBERS 4096

/* --- Dump ----------------------------------------------------------------------------------- */

/* Bit i: the GPU has rings of kind i. */
static uint32_t contexts_kinds(int fd)
{
	uint32_t kinds = 0;

	for (uint32_t ip = 0; ip < AMD_RING_KINDS; ip++)
		kinds |= (uint32_t)drm_has_rings(fd, ip) << ip;
	return kinds;
}

/* A number of work that was never submitted is refused. */
static bool contexts_has_worked(int fd, uint32_t id, uint32_t kinds)
{
	for (uint32_t ip = 0; ip < AMD_RING_KINDS; ip++)
		for (uint32_t ring = 0; kinds >> ip & 1 && ring < RINGS; ring++)
			if (drm_has_submitted(fd, id, ip, ring))
				return true;
	return false;
}

/*
 * True if a context of any process holds the clocks: then none of ours gets them. Clocks that an
 * administrator set nobody holds. True also where it cannot be asked.
 */
static bool contexts_clocks_are_held(int fd, uint32_t level)
{
	CLEANUP_CLOSE int own = -EBADF;
	struct stat st;
	uint32_t id;

	if (fstat(fd, &st) < 0)
		return true;
	own = drm_open(minor(st.st_rdev));
	if (own < 0 || drm_make_context(own, &id) < 0)
		return true;
	return drm_set_clocks(own, id, level) < 0; /* the context goes with its file */
}

/* The kernel tells the level, and not whose it is, but gives the holder alone the same again. */
static bool contexts_holds_clocks(int fd, uint32_t id)
{
	uint32_t level = drm_clocks(fd, id);

	return level && contexts_clocks_are_held(fd, level) && drm_set_clocks(fd, id, level) == 0;
}

/* Why it cannot come back, or NULL. */
static const char *contexts_obstacle(int fd, uint32_t id, uint32_t kinds, uint32_t flags)
{
	if (flags & (AMDGPU_CTX_QUERY2_FLAGS_RESET | AMDGPU_CTX_QUERY2_FLAGS_VRAMLOST |
		     AMDGPU_CTX_QUERY2_FLAGS_GUILTY))
		return "was lost in a reset of the GPU";
	if (contexts_holds_clocks(fd, id))
		return "holds the GPU's clocks (SET_STABLE_PSTATE)";
	if (contexts_has_worked(fd, id, kinds))
		return "has submitted work (AMDGPU_CS), whose numbers the kernel cannot give back";
	return NULL;
}

static int contexts_dump_one(struct catalog *c, int fd, const struct catalog_context *context,
			     uint32_t kinds, char ret_what[CONTEXTS_WHAT_BYTES])
{
	const char *why;
	uint32_t flags;
	int r = drm_context_state(fd, context->id, &flags);

	if (r < 0)
		return r == -EINVAL ? 0 : r;
	why = contexts_obstacle(fd, context->id, kinds, flags);
	if (why) {
		snprintf(ret_what, CONTEXTS_WHAT_BYTES, "its context %u %s", context->id, why);
		return -EBUSY;
	}
	r = catalog_add(c, CATALOG_CONTEXTS, context);
	return r < 0 ? r : 0;
}

static int contexts_check_syncobjs(int fd, char ret_what[CONTEXTS_WHAT_BYTES])
{
	for (uint32_t id = 1; id <= SYNCOBJ_NUMBERS; id++) {
		int r = drm_query_syncobj(fd, id);

		if (r == -ENOENT)
			continue;
		if (r < 0) /* the driver has none */
			return 0;
		snprintf(ret_what, CONTEXTS_WHAT_BYTES,
			 "its syncobj %u cannot be saved: the kernel does not tell which processes "
			 "share it", id);
		return -EBUSY;
	}
	return 0;
}

int contexts_dump(struct catalog *c, int fd, uint32_t file, char ret_what[CONTEXTS_WHAT_BYTES])
{
	uint32_t kinds = contexts_kinds(fd);
	int r = contexts_check_syncobjs(fd, ret_what);

	for (uint32_t id = 1; r == 0 && id < AMD_CONTEXT_NUMBERS; id++)
		r = contexts_dump_one(c, fd, &(struct catalog_context){file, id}, kinds, ret_what);
	return r;
}

/* --- Restore -------------------------------------------------------------------------------- */

static bool contexts_has(const struct catalog *c, uint32_t file, uint32_t id)
{
	for (uint32_t i = 0; i < c->n[CATALOG_CONTEXTS]; i++)
		if (c->contexts[i].file == file && c->contexts[i].id == id)
			return true;
	return false;
}

/* All numbers up to the highest, since the kernel gives out the lowest that is free. */
int contexts_restore(const struct catalog *c, int fd, uint32_t file)
{
	uint32_t highest = 0, made;
	int r = 0;

	for (uint32_t i = 0; i < c->n[CATALOG_CONTEXTS]; i++)
		if (c->contexts[i].file == file && c->contexts[i].id > highest)
			highest = c->contexts[i].id;
	for (uint32_t id = 1; r == 0 && id <= highest; id++) {
		r = drm_make_context(fd, &made);
		if (r == 0 && made != id)
			r = -EEXIST;
	}
	for (uint32_t id = 1; r == 0 && id < highest; id++)
		if (!contexts_has(c, file, id))
			r = drm_free_context(fd, id);
	return r;
}
