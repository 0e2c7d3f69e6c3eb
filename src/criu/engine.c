/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
#include "criu/engine.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "base/number.h"
#include "criu/drm.h"

/* Families as the kernel numbers them: engines of older ones take other packets. */
#define FAMILY_CI 120 /* the first with this packet */
#define FAMILY_AI 141 /* the first that copies one byte more than it says */

/* header (operation 1, linear), bytes, 0, source, target */
#define COPY_HEADER 1u
#define COPY_WORDS  7
#define COPY_BYTES  UINT64_C(0x100000) /* of one packet: all of these engines can */

#define PAGE	       UINT64_C(4096)
#define STAGING_BYTES  (UINT64_C(4) << 20)
#define COMMANDS_BYTES PAGE
#define COMMANDS_ALIGN 8 /* in words, which zeros fill up */

/* From our first address of the GPU on: nothing else is in the address space of our file. */
#define STAGING_AT UINT64_C(0)
#define COMMANDS_AT (UINT64_C(16) << 20)
#define BUFFER_AT  (UINT64_C(1) << 30)
#define BASE_LEAST (UINT64_C(1) << 32)

#define PATIENCE_NS UINT64_C(60000000000)

bool engine_is_needless(uint32_t minor)
{
	CLEANUP_CLOSE int fd = drm_open(minor);
	uint64_t bytes, visible_bytes;

	return fd < 0 || drm_memory(fd, &bytes, &visible_bytes) < 0 || visible_bytes >= bytes;
}

/* --- Open -------------------------------------------------------------------------------------- */

static int engine_map(struct engine *e, uint32_t handle, uint64_t at, uint64_t bytes, uint32_t flags)
{
	return drm_va(e->fd, AMDGPU_VA_OP_MAP, handle,
		      AMDGPU_VM_PAGE_READABLE | AMDGPU_VM_PAGE_EXECUTABLE | flags, e->base + at, 0,
		      bytes);
}

/* Memory of the machine that the CPU has and the GPU at that address. */
static int engine_take(struct engine *e, uint64_t at, uint64_t bytes, uint32_t *ret_handle,
		       void **ret_at)
{
	uint64_t offset;
	void *mapped;
	int r = drm_create(e->fd, bytes, PAGE, AMDGPU_GEM_DOMAIN_GTT, 0, ret_handle);

	if (r == 0)
		r = drm_mmap_offset(e->fd, *ret_handle, &offset);
	if (r == 0)
		r = engine_map(e, *ret_handle, at, bytes, AMDGPU_VM_PAGE_WRITEABLE);
	if (r < 0)
		return r;
	mapped = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, e->fd, (off_t)offset);
	if (mapped == MAP_FAILED)
		return err_errno();
	*ret_at = mapped;
	return 0;
}

static uint32_t engine_put_copy(struct engine *e, uint32_t n, uint64_t to, uint64_t from,
				uint64_t bytes)
{
	const uint32_t words[COPY_WORDS] = {
		COPY_HEADER, (uint32_t)bytes - e->less, 0, (uint32_t)from, (uint32_t)(from >> 32),
		(uint32_t)to, (uint32_t)(to >> 32)};

	memcpy(&e->words[n], words, sizeof(words));
	return n + COPY_WORDS;
}

/* Addresses of ours. At most STAGING_BYTES. */
static int engine_run(struct engine *e, uint64_t to, uint64_t from, uint64_t bytes)
{
	const uint32_t handles[] = {e->commands, e->staging, e->buffer};
	uint64_t fence;
	uint32_t n = 0;
	int r;

	for (uint64_t at = 0; at < bytes; at += COPY_BYTES)
		n = engine_put_copy(e, n, e->base + to + at, e->base + from + at,
				    min_u64(bytes - at, COPY_BYTES));
	for (; n % COMMANDS_ALIGN; n++)
		e->words[n] = 0;
	r = drm_submit_copies(e->fd, e->context, handles, e->inode ? 3 : 2, e->base + COMMANDS_AT,
			      n * (uint32_t)sizeof(*e->words), &fence);
	return r < 0 ? r : drm_wait_copies(e->fd, e->context, fence, PATIENCE_NS);
}

/* Nearly a page that is known, to another place; with a byte behind it that must stay. */
static int engine_prove(struct engine *e)
{
	for (uint64_t i = 0; i < PAGE; i++)
		e->at[i] = (char)(i * 7 + i / 256 + 1);
	memset(e->at + PAGE, 0x55, 2 * PAGE);
	if (engine_run(e, STAGING_AT + PAGE, STAGING_AT, PAGE - 4) < 0)
		return -ENODEV;
	return memcmp(e->at, e->at + PAGE, PAGE - 4) || e->at[2 * PAGE - 4] != 0x55 ? -ENODEV : 0;
}

static int engine_start(struct engine *e)
{
	uint64_t range[2][2];
	uint32_t family;
	void *at;
	int r = drm_va_ranges(e->fd, range);

	if (r == 0)
		r = drm_family(e->fd, &family);
	if (r == 0 && family < FAMILY_CI)
		r = -ENODEV;
	if (r < 0)
		return r;
	e->less = family >= FAMILY_AI;
	e->base = range[0][0] > BASE_LEAST ? range[0][0] : BASE_LEAST;
	r = drm_make_context(e->fd, &e->context);
	if (r == 0)
		r = engine_take(e, STAGING_AT, STAGING_BYTES, &e->staging, &at);
	if (r < 0)
		return r;
	e->at = at;
	r = engine_take(e, COMMANDS_AT, COMMANDS_BYTES, &e->commands, &at);
	if (r < 0)
		return r;
	e->words = at;
	return engine_prove(e);
}

static int engine_open(struct engine *e, uint32_t minor)
{
	int fd = drm_open(minor), r;

	if (fd < 0)
		return fd;
	*e = (struct engine){.open = true, .fd = fd, .minor = minor};
	r = engine_start(e);
	if (r < 0)
		engine_close(e);
	return r;
}

/* Buffers and addresses go with the file. */
void engine_close(struct engine *e)
{
	if (!e->open)
		return;
	if (e->words)
		munmap(e->words, COMMANDS_BYTES);
	if (e->at)
		munmap(e->at, STAGING_BYTES);
	close(e->fd);
	*e = (struct engine){.open = false};
}

/* --- Content ----------------------------------------------------------------------------------- */

static int engine_have(struct engine *e, int dmabuf)
{
	struct drm_amdgpu_gem_create_in info;
	struct stat st;
	int r;

	if (fstat(dmabuf, &st) < 0)
		return err_errno();
	if (e->inode == st.st_ino)
		return 0;
	if (e->inode) { /* with its addresses */
		e->inode = 0;
		r = drm_close_handle(e->fd, e->buffer);
		if (r < 0)
			return r;
	}
	r = drm_import(e->fd, dmabuf, &e->buffer);
	if (r < 0)
		return r;
	r = drm_create_info(e->fd, e->buffer, &info);
	if (r == 0)
		r = engine_map(e, e->buffer, BUFFER_AT, info.bo_size, AMDGPU_VM_PAGE_WRITEABLE);
	if (r < 0) {
		drm_close_handle(e->fd, e->buffer);
		return r;
	}
	e->inode = st.st_ino;
	e->buffer_bytes = info.bo_size;
	return 0;
}

int engine_copy(struct engine *e, uint32_t minor, int dmabuf, uint64_t offset, void *memory,
		size_t len, bool out)
{
	int r = 0;

	if (e->open && e->minor != minor)
		engine_close(e);
	if (!e->open)
		r = engine_open(e, minor);
	if (r == 0)
		r = engine_have(e, dmabuf);
	if (r == 0 && (offset > e->buffer_bytes || len > e->buffer_bytes - offset))
		r = -EINVAL;
	for (uint64_t at = 0, n; r == 0 && at < len; at += n) {
		uint64_t there = BUFFER_AT + offset + at;

		n = min_u64(len - at, STAGING_BYTES);
		if (out && memory)
			memcpy(e->at, (char *)memory + at, n);
		else if (out)
			memset(e->at, 0, n);
		r = out ? engine_run(e, there, STAGING_AT, n) : engine_run(e, STAGING_AT, there, n);
		if (r == 0 && !out)
			memcpy((char *)memory + at, e->at, n);
	}
	return r;
}
