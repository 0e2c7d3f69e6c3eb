/* SPDX-License-Identifier: Apache-2.0 */
#include "guest/swap/amd/amd_pieces.h"

#include <errno.h>
#include <sys/ioctl.h>
#include <sys/mman.h>

#include "amd/abi/kfd.h"
#include "amd/kfd_ioctl.h"
#include "guest/amd/ask.h"
#include "guest/amd/queue/queues.h"
#include "guest/core/object.h"

#define FILLER_BYTES 4096

/* --- The list ------------------------------------------------------------------------------- */

static bool amd_pieces_is_one(const struct object *object)
{
	return object->kind == OBJECT_KFD && !(object->flags & (OBJECT_HOST | OBJECT_IMPORTED)) &&
	       object->bytes;
}

static bool amd_pieces_count(const struct object *object, void *arg)
{
	*(uint64_t *)arg += amd_pieces_is_one(object);
	return false; /* it stays in the table */
}

static bool amd_pieces_add(const struct object *object, void *arg)
{
	struct amd_pieces *pieces = arg;

	if (amd_pieces_is_one(object) && pieces->n < pieces->room)
		pieces->at[pieces->n++] = (struct amd_piece){.handle = object->key,
							     .va = object->amd.va,
							     .size = object->size,
							     .bytes = object->bytes,
							     .offset = object->amd.offset,
							     .mapped = object->amd.mapped,
							     .now = object->amd.mapped,
							     .flags = object->amd.flags,
							     .device = object->device};
	return false;
}

/* By number, which some kernels count for each GPU, and others for the process. */
static bool amd_pieces_before(const struct amd_piece *a, const struct amd_piece *b)
{
	if ((uint32_t)a->handle != (uint32_t)b->handle)
		return (uint32_t)a->handle < (uint32_t)b->handle;
	return a->handle < b->handle;
}

static void amd_pieces_sink(struct amd_piece *at, uint64_t i, uint64_t n)
{
	for (uint64_t child; (child = 2 * i + 1) < n; i = child) {
		struct amd_piece piece = at[i];

		if (child + 1 < n && amd_pieces_before(&at[child], &at[child + 1]))
			child++;
		if (!amd_pieces_before(&piece, &at[child]))
			return;
		at[i] = at[child];
		at[child] = piece;
	}
}

/* A heap: qsort() may take memory of the program's. */
static void amd_pieces_sort(struct amd_piece *at, uint64_t n)
{
	for (uint64_t i = n / 2; i-- > 0;)
		amd_pieces_sink(at, i, n);
	while (n-- > 1) {
		struct amd_piece piece = at[0];

		at[0] = at[n];
		at[n] = piece;
		amd_pieces_sink(at, 0, n);
	}
}

static void *amd_pieces_map_pages(uint64_t bytes)
{
	void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
		       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	return p == MAP_FAILED ? NULL : p;
}

static uint64_t amd_pieces_filler_room(const struct amd_pieces *pieces)
{
	return (uint64_t)(uint32_t)pieces->at[pieces->n - 1].handle + 1;
}

/* What queues are made of: the kernel keeps it mapped as long as they are there. */
static void amd_pieces_drop_needed(struct amd *amd, struct amd_pieces *pieces)
{
	struct queues *queues = queues_made(amd);
	uint64_t kept = 0;

	for (uint64_t i = 0; i < pieces->n; i++)
		if (!queues || !queues_need(queues, pieces->at[i].va, pieces->at[i].size))
			pieces->at[kept++] = pieces->at[i];
	pieces->n = kept;
}

enum swap_why amd_pieces_find(struct guest *guest, struct amd *amd, struct amd_pieces *ret)
{
	struct amd_pieces pieces = {.n = 0};
	struct object none;

	object_sweep(guest->objects, amd_pieces_count, &pieces.room, &none, 1);
	if (!pieces.room)
		return SWAP_FINE;
	pieces.at = amd_pieces_map_pages(pieces.room * sizeof(*pieces.at));
	if (!pieces.at)
		return SWAP_HOST;
	object_sweep(guest->objects, amd_pieces_add, &pieces, &none, 1);
	amd_pieces_drop_needed(amd, &pieces);
	amd_pieces_sort(pieces.at, pieces.n);
	for (uint64_t i = 0; i < pieces.n; i++)
		pieces.bytes += pieces.at[i].bytes;
	if (pieces.n)
		pieces.fillers = amd_pieces_map_pages(amd_pieces_filler_room(&pieces) *
						      sizeof(*pieces.fillers));
	*ret = pieces;
	return pieces.n && !pieces.fillers ? SWAP_HOST : SWAP_FINE;
}

void amd_pieces_free(struct amd_pieces *pieces)
{
	if (pieces->fillers)
		munmap(pieces->fillers, amd_pieces_filler_room(pieces) * sizeof(*pieces->fillers));
	if (pieces->at)
		munmap(pieces->at, pieces->room * sizeof(*pieces->at));
	*pieces = (struct amd_pieces){.n = 0};
}

/* --- The kernel ----------------------------------------------------------------------------- */

static int amd_pieces_free_handle(int kfd, uint64_t handle)
{
	struct kfd_ioctl_free_memory_of_gpu_args args = {handle};

	return amd_ask(kfd, _IOW('K', KFD_NR_FREE_MEMORY_OF_GPU, args), &args);
}

/* One GPU after the other: after an error it is known which have it. */
static int amd_pieces_change_maps(int kfd, const struct amd *amd, struct amd_piece *piece,
				  uint64_t gpus, bool map)
{
	int r = 0;

	for (uint32_t i = 0; r >= 0 && i < amd->ndevices; i++) {
		uint32_t id = amd->device[i].node->gpu_id;
		struct kfd_ioctl_map_memory_to_gpu_args args = {piece->handle, (uintptr_t)&id, 1, 0};

		if (!(gpus >> i & 1))
			continue;
		r = amd_ask(kfd,
			    map ? _IOWR('K', KFD_NR_MAP_MEMORY_TO_GPU, args)
				: _IOWR('K', KFD_NR_UNMAP_MEMORY_FROM_GPU, args),
			    &args);
		if (r >= 0 && map)
			piece->now |= UINT64_C(1) << i;
		else if (r >= 0)
			piece->now &= ~(UINT64_C(1) << i);
	}
	return r < 0 ? r : 0;
}

int amd_pieces_map(int kfd, const struct amd *amd, struct amd_piece *piece, uint64_t gpus)
{
	return amd_pieces_change_maps(kfd, amd, piece, gpus, true);
}

int amd_pieces_unmap(int kfd, const struct amd *amd, struct amd_piece *piece, uint64_t gpus)
{
	return amd_pieces_change_maps(kfd, amd, piece, gpus, false);
}

void amd_pieces_leave(int kfd, const struct amd *amd, struct amd_piece *piece)
{
	if (!amd_pieces_unmap(kfd, amd, piece, piece->now))
		piece->away = amd_pieces_free_handle(kfd, piece->handle) >= 0;
}

static enum swap_why amd_pieces_why(int error)
{
	return error == -ENOMEM ? SWAP_DEVICE : SWAP_DRIVER;
}

/* Takes all numbers below the piece's: the next one that the kernel gives is that. */
static enum swap_why amd_pieces_fill_up(int kfd, const struct amd *amd, struct amd_pieces *pieces,
					const struct amd_piece *piece)
{
	const uint32_t wanted = (uint32_t)piece->handle;

	for (;;) {
		struct kfd_ioctl_alloc_memory_of_gpu_args args = {
			.va_addr = piece->va,
			.size = FILLER_BYTES,
			.gpu_id = amd->device[piece->device].node->gpu_id,
			.flags = KFD_IOC_ALLOC_MEM_FLAGS_GTT | KFD_IOC_ALLOC_MEM_FLAGS_WRITABLE};
		int r = amd_ask(kfd, _IOWR('K', KFD_NR_ALLOC_MEMORY_OF_GPU, args), &args);

		if (r < 0)
			return amd_pieces_why(r);
		if ((uint32_t)args.handle >= wanted) {
			amd_pieces_free_handle(kfd, args.handle);
			return (uint32_t)args.handle == wanted ? SWAP_FINE : SWAP_DRIVER;
		}
		pieces->fillers[pieces->nfillers++] = args.handle;
	}
}

static bool amd_pieces_note_offset(struct object *object, void *arg)
{
	object->amd.offset = *(const uint64_t *)arg;
	return true;
}

enum swap_why amd_pieces_return(int kfd, struct guest *guest, struct amd *amd,
				struct amd_pieces *pieces, struct amd_piece *piece)
{
	struct kfd_ioctl_alloc_memory_of_gpu_args args = {
		.va_addr = piece->va,
		.size = piece->size,
		.gpu_id = amd->device[piece->device].node->gpu_id,
		.flags = piece->flags};
	enum swap_why why = amd_pieces_fill_up(kfd, amd, pieces, piece);
	int r;

	if (why)
		return why;
	r = amd_ask(kfd, _IOWR('K', KFD_NR_ALLOC_MEMORY_OF_GPU, args), &args);
	if (r < 0)
		return amd_pieces_why(r);
	if (args.handle != piece->handle) {
		amd_pieces_free_handle(kfd, args.handle);
		return SWAP_DRIVER;
	}
	piece->away = false;
	piece->now = 0;
	piece->offset = args.mmap_offset;
	object_change(guest->objects, OBJECT_KFD, piece->handle, false, amd_pieces_note_offset,
		      &piece->offset);
	r = amd_pieces_map(kfd, amd, piece, piece->mapped);
	return r ? amd_pieces_why(r) : SWAP_FINE;
}

void amd_pieces_settle(int kfd, struct amd_pieces *pieces)
{
	while (pieces->nfillers)
		amd_pieces_free_handle(kfd, pieces->fillers[--pieces->nfillers]);
}
