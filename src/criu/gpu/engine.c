/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
#include "criu/gpu/engine.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "base/number.h"
#include "criu/gpu/drm.h"

/* Families as the kernel numbers them: engines of older ones take other packets. */
#define FAMILY_CI 120 /* the first with this packet */
#define FAMILY_AI 141 /* the first that copies one byte more than it says */

/* header (operation 1, linear), bytes, 0, source, target */
#define COPY_HEADER 1u
#define COPY_WORDS  7
#define COPY_BYTES  UINT64_C(0x100000) /* of one packet: all of these engines can */

#define PAGE	       UINT64_C(4096)
#define STAGING_BYTES  (ENGINE_REQUESTS * ENGINE_PART)
#define COMMANDS_BYTES (ENGINE_REQUESTS * PAGE) /* a page for each request */
#define COMMANDS_ALIGN 8 /* in words, which zeros fill up */

/* From our first address of the GPU on: nothing else is in the address space of our file. */
#define STAGING_AT UINT64_C(0)
#define COMMANDS_AT (UINT64_C(64) << 20)
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

static uint32_t engine_put_copy(const struct engine *e, uint32_t *words, uint32_t n, uint64_t to,
				uint64_t from, uint64_t bytes)
{
	const uint32_t packet[COPY_WORDS] = {
		COPY_HEADER, (uint32_t)bytes - e->less, 0, (uint32_t)from, (uint32_t)(from >> 32),
		(uint32_t)to, (uint32_t)(to >> 32)};

	memcpy(&words[n], packet, sizeof(packet));
	return n + COPY_WORDS;
}

/* Request `i`, between addresses of ours. At most ENGINE_PART. */
static int engine_give(struct engine *e, uint32_t i, uint64_t to, uint64_t from, uint64_t bytes)
{
	const uint32_t handles[] = {e->commands, e->staging, e->buffer};
	uint32_t *words = e->words + i * (PAGE / sizeof(*words)), n = 0;

	for (uint64_t at = 0; at < bytes; at += COPY_BYTES)
		n = engine_put_copy(e, words, n, e->base + to + at, e->base + from + at,
				    min_u64(bytes - at, COPY_BYTES));
	for (; n % COMMANDS_ALIGN; n++)
		words[n] = 0;
	return drm_submit_copies(e->fd, e->context, handles, e->has_buffer ? 3 : 2,
				 e->base + COMMANDS_AT + i * PAGE, n * (uint32_t)sizeof(*words),
				 &e->fence[i]);
}

int engine_await(struct engine *e, uint32_t i)
{
	return drm_wait_copies(e->fd, e->context, e->fence[i], PATIENCE_NS);
}

/* Nearly a page that is known, to another place; with a byte behind it that must stay. */
static int engine_prove(struct engine *e)
{
	for (uint64_t i = 0; i < PAGE; i++)
		e->at[i] = (char)(i * 7 + i / 256 + 1);
	memset(e->at + PAGE, 0x55, 2 * PAGE);
	if (engine_give(e, 0, STAGING_AT + PAGE, STAGING_AT, PAGE - 4) < 0 || engine_await(e, 0) < 0)
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

int engine_open(struct engine *e, uint32_t minor)
{
	int fd = drm_open(minor), r;

	if (fd < 0)
		return fd;
	*e = (struct engine){.open = true, .fd = fd};
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

int engine_have(struct engine *e, int dmabuf)
{
	struct drm_amdgpu_gem_create_in info;
	int r;

	if (e->has_buffer) { /* with its addresses */
		e->has_buffer = false;
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
	e->has_buffer = true;
	e->buffer_bytes = info.bo_size;
	return 0;
}

char *engine_staging(const struct engine *e, uint32_t i)
{
	return e->at + i * ENGINE_PART;
}

int engine_submit(struct engine *e, uint32_t i, uint64_t offset, uint64_t bytes, bool out)
{
	uint64_t here = STAGING_AT + i * ENGINE_PART, there = BUFFER_AT + offset;

	if (bytes > ENGINE_PART || offset > e->buffer_bytes || bytes > e->buffer_bytes - offset)
		return -EINVAL;
	return out ? engine_give(e, i, there, here, bytes) : engine_give(e, i, here, there, bytes);
}
