/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Contexts of work, which are numbers of one open file, and how much work each has submitted to which
 * ring: as amdgpu_ctx.c has them. They are known to the process that made them.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "amd/abi/drm.h"
#include "sim/kfd/array.h"
#include "sim/kfd/gem.h"

/* One past the highest number: AMDGPU_VM_MAX_NUM_CTX. */
#define NUMBERS AMD_CONTEXT_NUMBERS

/* How many rings a context has of each kind: amdgpu_ctx_num_entities. */
static const uint32_t rings[AMD_RING_KINDS] = {1, 4, 2, 1, 1, 1, 1, 1, 1, 1};
#define RINGS_MOST 4

struct context {
	uint64_t file;
	uint32_t id; /* 0: free */
	uint64_t submitted[AMD_RING_KINDS][RINGS_MOST];
};

static struct context *contexts;
static uint32_t ncontexts, room;

void emu_contexts_forget(void)
{
	free(contexts);
	contexts = NULL;
	ncontexts = room = 0;
}

static struct context *contexts_find(uint64_t file, uint32_t id)
{
	for (uint32_t i = 0; id && i < ncontexts; i++)
		if (contexts[i].file == file && contexts[i].id == id)
			return &contexts[i];
	return NULL;
}

/* The lowest number that is free in the file. */
static int contexts_add(uint64_t file)
{
	struct context *grown;
	uint32_t id = 1, i = 0;

	while (contexts_find(file, id))
		id++;
	if (id >= NUMBERS)
		return -ENOSPC;
	while (i < ncontexts && contexts[i].id)
		i++;
	grown = array_grow(contexts, &room, i, sizeof(*grown));
	if (!grown)
		return -ENOMEM;
	contexts = grown;
	ncontexts = i == ncontexts ? i + 1 : ncontexts;
	contexts[i] = (struct context){.file = file, .id = id};
	return (int)id;
}

int emu_ctx(struct emu_machine *m, struct emu_gpu *gpu, int fd, void *block)
{
	union drm_amdgpu_ctx *a = block;
	struct context *c = contexts_find(emu_file_of(fd), a->in.ctx_id);
	int r;

	if (a->in.op == AMDGPU_CTX_OP_ALLOC_CTX) {
		r = a->in.flags ? -EINVAL : contexts_add(emu_file_of(fd));
		if (r > 0)
			a->out = (union drm_amdgpu_ctx_out){.alloc = {.ctx_id = (uint32_t)r}};
		return r < 0 ? r : 0;
	}
	if (!c || (a->in.flags && a->in.op != AMDGPU_CTX_OP_SET_STABLE_PSTATE))
		return -EINVAL;
	switch (a->in.op) {
	case AMDGPU_CTX_OP_FREE_CTX:
		c->id = 0;
		return 0;
	case AMDGPU_CTX_OP_QUERY_STATE:
	case AMDGPU_CTX_OP_QUERY_STATE2:
	case AMDGPU_CTX_OP_GET_STABLE_PSTATE:
		a->out = (union drm_amdgpu_ctx_out){.state = {.flags = 0}};
		return 0;
	}
	return -EINVAL;
}

int64_t emu_context_submit(uint64_t file, uint32_t id, uint32_t ip, uint32_t ring)
{
	struct context *c = contexts_find(file, id);

	if (!c || ip >= AMD_RING_KINDS || ring >= rings[ip])
		return -EINVAL;
	return (int64_t)++c->submitted[ip][ring];
}

/* All that was submitted is done. */
int emu_wait_cs(struct emu_machine *m, struct emu_gpu *gpu, int fd, void *block)
{
	union drm_amdgpu_wait_cs *a = block;
	const struct context *c = contexts_find(emu_file_of(fd), a->in.ctx_id);

	if (!c || a->in.ip_type >= AMD_RING_KINDS || a->in.ip_instance ||
	    a->in.ring >= rings[a->in.ip_type] ||
	    (a->in.handle > c->submitted[a->in.ip_type][a->in.ring] && a->in.handle != UINT64_MAX))
		return -EINVAL;
	a->out.status = 0;
	return 0;
}
