/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Work that a render node takes for the kernel's own rings, as far as it is copies by SDMA, which are
 * done at once while they are submitted: nothing is ever to be waited for. It goes through the page tables of its file, and must name the buffers that it touches.
 */
#include <errno.h>
#include <string.h>

#include "amd/abi/drm.h"
#include "sim/kfd/gem.h"
#include "sim/kfd/user.h"

#define CHUNKS_MOST  8
#define HANDLES_MOST 64
#define WORDS_MOST   4096
#define COPY_LINEAR  1u
#define COPY_WORDS   7

struct work {
	uint64_t file;
	uint32_t handles[HANDLES_MOST], nhandles;
	struct drm_amdgpu_cs_chunk_ib commands; /* none: 0 bytes */
};

/* Up to where the mapping ends. -EFAULT: none is there, or not for that, or of another buffer. */
static int copies_reach(const struct work *w, uint64_t at, bool write, char **ret, uint64_t *bytes)
{
	uint32_t handle;
	int r = emu_gem_va_reach(w->file, at, write, &handle, ret, bytes);

	for (uint32_t i = 0; r == 0 && i < w->nhandles; i++)
		if (w->handles[i] == handle)
			return 0;
	return -EFAULT;
}

static int copies_copy(const struct work *w, uint64_t to, uint64_t from, uint64_t bytes)
{
	while (bytes) {
		uint64_t n = bytes;
		char *target, *source;

		if (copies_reach(w, from, false, &source, &n) < 0 ||
		    copies_reach(w, to, true, &target, &n) < 0)
			return -EFAULT;
		memmove(target, source, n);
		to += n;
		from += n;
		bytes -= n;
	}
	return 0;
}

static int copies_run(const struct work *w)
{
	uint64_t bytes = w->commands.ib_bytes, n = bytes / 4;
	char *commands;
	const uint32_t *words;
	int r;

	if (!bytes || bytes % 32 || n > WORDS_MOST || w->commands.ip_type != AMDGPU_HW_IP_DMA)
		return -EINVAL;
	r = copies_reach(w, w->commands.va_start, false, &commands, &bytes);
	if (r < 0 || bytes < w->commands.ib_bytes)
		return -EFAULT;
	words = (const void *)commands;
	for (uint64_t i = 0; r == 0 && i < n;) {
		const uint32_t *p = &words[i];

		if (!*p) {
			i++;
			continue;
		}
		if (*p != COPY_LINEAR || n - i < COPY_WORDS)
			return -EINVAL;
		r = copies_copy(w, p[5] | (uint64_t)p[6] << 32, p[3] | (uint64_t)p[4] << 32,
				p[1] + UINT64_C(1));
		i += COPY_WORDS;
	}
	return r;
}

static int copies_read_list(const struct emu_machine *m, struct work *w, uint64_t at)
{
	struct drm_amdgpu_bo_list_entry entry;
	struct drm_amdgpu_bo_list_in list;
	struct emu_buffer b;
	int r = user_copy_in(&list, at, sizeof(list));

	if (r == 0 && (list.bo_number > HANDLES_MOST || list.bo_info_size != sizeof(entry)))
		r = -EINVAL;
	for (uint32_t i = 0; r == 0 && i < list.bo_number; i++) {
		r = user_copy_in(&entry, list.bo_info_ptr + i * sizeof(entry), sizeof(entry));
		if (r == 0 && !emu_buffer(m, w->file, entry.bo_handle, &b))
			r = -ENOENT;
		w->handles[i] = entry.bo_handle;
		w->nhandles = i + 1;
	}
	return r;
}

static int copies_read_chunk(const struct emu_machine *m, struct work *w, uint64_t list, uint32_t i)
{
	struct drm_amdgpu_cs_chunk chunk;
	uint64_t at;
	int r = user_copy_in(&at, list + i * sizeof(at), sizeof(at));

	if (r == 0)
		r = user_copy_in(&chunk, at, sizeof(chunk));
	if (r < 0)
		return r;
	switch (chunk.chunk_id) {
	case AMDGPU_CHUNK_ID_BO_HANDLES:
		return copies_read_list(m, w, chunk.chunk_data);
	case AMDGPU_CHUNK_ID_IB:
		return user_copy_in(&w->commands, chunk.chunk_data, sizeof(w->commands));
	}
	return -EINVAL;
}

int emu_cs(struct emu_machine *m, struct emu_gpu *gpu, int fd, void *block)
{
	union drm_amdgpu_cs *a = block;
	struct work w = {.file = emu_file_of(fd)};
	int r = a->in.num_chunks > CHUNKS_MOST ? -EINVAL : 0;
	int64_t number;

	for (uint32_t i = 0; r == 0 && i < a->in.num_chunks; i++)
		r = copies_read_chunk(m, &w, a->in.chunks, i);
	if (r == 0)
		r = copies_run(&w);
	if (r < 0)
		return r;
	number = emu_context_submit(w.file, a->in.ctx_id, w.commands.ip_type, w.commands.ring);
	if (number < 0)
		return (int)number;
	a->out.handle = (uint64_t)number;
	return 0;
}
