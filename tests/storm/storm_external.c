/* SPDX-License-Identifier: Apache-2.0 */
/* External memory: a descriptor's memory, in buffers that may outlive the object they came of. */
#include "storm_work.h"

static CUdeviceptr external_map(const struct block *b)
{
	CUDA_EXTERNAL_MEMORY_BUFFER_DESC desc = {.size = b->bytes};
	CUdeviceptr ptr;

	OK(cu.cuExternalMemoryGetMappedBuffer(&ptr, b->object, &desc));
	return ptr;
}

bool storm_import_external(struct worker *w, struct block *b, int fd)
{
	CUDA_EXTERNAL_MEMORY_HANDLE_DESC desc = {
		.type = CU_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_FD,
		.handle = {.fd = fd},
		.size = b->bytes};
	CUexternalMemory memory;

	/* A driver that takes other drivers' memory alone answers something else. */
	if (storm->options.simulated ? REFUSED(w, cu.cuImportExternalMemory(&memory, &desc))
				     : cu.cuImportExternalMemory(&memory, &desc)) {
		close(fd);
		return false;
	}
	b->object = memory; /* which has the descriptor now */
	if (pick(&w->seed, 4))
		b->ptr = external_map(b);
	if (storm_draws(DRAW_TWICE) && pick(&w->seed, 2))
		b->second = external_map(b);
	return true;
}

static bool external_take(struct worker *w, struct block *b)
{
	int fd;

	if (!storm_create_handle(w, b))
		return false;
	OK(cu.cuMemExportToShareableHandle(&fd, b->handle, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
					   0));
	if (!storm_import_external(w, b, fd)) {
		OK(cu.cuMemRelease(b->handle));
		return false;
	}
	return true;
}

static void external_free(CUdeviceptr *ptr)
{
	if (*ptr)
		OK(cu.cuMemFree_v2(*ptr));
	*ptr = 0;
}

/* The memory goes with the last of the object, its buffers and the handle it was exported by. */
void storm_give_external(struct worker *w, struct block *b)
{
	for (unsigned int i = 0, at = pick(&w->seed, 4); i < 4; i++, at = (at + 1) % 4)
		switch (at) {
		case 0: external_free(&b->ptr); break;
		case 1: OK(cu.cuDestroyExternalMemory(b->object)); break;
		case 2: external_free(&b->second); break;
		default:
			if (b->handle)
				OK(cu.cuMemRelease(b->handle));
		}
}

const struct family storm_external = {"external", external_take, storm_give_external, NULL, NULL};
