/* SPDX-License-Identifier: Apache-2.0 */
#include "guest/swap/amd/amd_pieces.h"

#include <errno.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "amd/abi/drm.h"
#include "amd/abi/kfd.h"
#include "amd/kfd_ioctl.h"
#include "base/pages.h"
#include "guest/amd/ask.h"
#include "guest/amd/memory/lent.h"
#include "guest/amd/queue/queues.h"
#include "guest/core/object.h"
#include "guest/lend/borrow.h"
#include "guest/swap/amd/amd_node.h"

#define FILLER_BYTES 4096

/* --- The list ------------------------------------------------------------------------------- */

static bool amd_pieces_is_one(const struct object *object)
{
	if ((object->kind != OBJECT_KFD && object->kind != OBJECT_GEM) ||
	    object->flags & OBJECT_HOST)
		return false;
	return object->flags & OBJECT_IMPORTED ? object->amd.lent : object->bytes;
}

static bool amd_pieces_count(const struct object *object, void *arg)
{
	*(uint64_t *)arg += amd_pieces_is_one(object);
	return false; /* it stays in the table */
}

static struct amd_piece amd_pieces_of_kfd(const struct object *object)
{
	return (struct amd_piece){.key = object->key,
				  .handle = object->key,
				  .va = object->amd.va,
				  .size = object->size,
				  .offset = object->amd.offset,
				  .mapped = object->amd.mapped,
				  .now = object->amd.mapped,
				  .flags = object->amd.flags,
				  .device = object->device,
				  .file = -1};
}

static bool amd_pieces_add(const struct object *object, void *arg)
{
	struct amd_pieces *pieces = arg;
	struct amd_piece *piece = &pieces->at[pieces->n];

	if (!amd_pieces_is_one(object) || pieces->n == pieces->room)
		return false;
	*piece = object->kind == OBJECT_KFD ? amd_pieces_of_kfd(object)
					    : (struct amd_piece){.key = object->key,
								 .handle = (uint32_t)object->key,
								 .device = object->device};
	piece->bytes = object->bytes;
	if (object->flags & OBJECT_IMPORTED) {
		piece->bytes = object->size;
		piece->borrowed = object->shared.word[0];
	}
	pieces->n++;
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

/* A handle of /dev/kfd is of the GPU that it names, whose-ever memory it holds. */
static void amd_pieces_find_importers(struct amd *amd, struct amd_pieces *pieces)
{
	for (uint64_t i = 0; i < pieces->n; i++) {
		struct amd_piece *piece = &pieces->at[i];
		const struct amd_device *device =
			piece->borrowed && piece->file < 0
				? amd_device(amd, (uint32_t)(piece->handle >> 32))
				: NULL;

		if (device)
			piece->device = (int)(device - amd->device);
	}
}

/* What queues are made of: the kernel keeps it mapped as long as they are there. */
static void amd_pieces_drop_needed(struct amd *amd, struct amd_pieces *pieces)
{
	struct queues *queues = queues_made(amd);
	uint64_t kept = 0;

	for (uint64_t i = 0; i < pieces->n; i++)
		if (pieces->at[i].file >= 0 || !queues ||
		    !queues_need(queues, pieces->at[i].va, pieces->at[i].size))
			pieces->at[kept++] = pieces->at[i];
	pieces->n = kept;
}

/* Numbers are counted for each file, and by /dev/kfd for each GPU. */
static bool amd_pieces_make_room(const struct amd *amd, struct amd_pieces *pieces)
{
	uint64_t numbers = (uint64_t)(uint32_t)pieces->at[pieces->n - 1].handle + 1;

	pieces->filler_room = numbers * ((uint64_t)pieces->nfiles + amd->ndevices);
	pieces->filler = pages_reserve(pieces->filler_room * sizeof(*pieces->filler));
	return pieces->filler;
}

static enum swap_why amd_pieces_describe(struct amd *amd, struct amd_pieces *pieces,
					 uint64_t *ret_amount)
{
	enum swap_why why = SWAP_FINE;

	pieces->metadata = pages_reserve(pieces->n * sizeof(*pieces->metadata));
	if (!pieces->metadata)
		return SWAP_HOST;
	for (uint64_t i = 0; !why && i < pieces->n; i++) {
		if (pieces->at[i].file >= 0)
			why = amd_node_describe(amd, pieces, i);
		*ret_amount = why ? pieces->at[i].bytes : 0;
	}
	return why;
}

enum swap_why amd_pieces_find(struct guest *guest, struct amd *amd, struct amd_pieces *ret,
			      uint64_t *ret_amount)
{
	struct amd_pieces *pieces = ret;
	enum swap_why why;
	struct object none;

	*pieces = (struct amd_pieces){.n = 0};
	object_sweep(guest->objects, amd_pieces_count, &pieces->room, &none, 1);
	if (!pieces->room)
		return SWAP_FINE;
	pieces->at = pages_reserve(pieces->room * sizeof(*pieces->at));
	if (!pieces->at)
		return SWAP_HOST;
	object_sweep(guest->objects, amd_pieces_add, pieces, &none, 1);
	amd_pieces_drop_needed(amd, pieces);
	amd_pieces_find_importers(amd, pieces);
	if (!pieces->n)
		return SWAP_FINE;
	amd_pieces_sort(pieces->at, pieces->n);
	why = amd_pieces_describe(amd, pieces, ret_amount);
	for (uint64_t i = 0; i < pieces->n; i++)
		pieces->bytes += amd_piece_content(&pieces->at[i]);
	if (!why && !amd_pieces_make_room(amd, pieces))
		why = SWAP_HOST;
	return why;
}

static void amd_pieces_unmap_pages(void *at, uint64_t bytes)
{
	if (at)
		munmap(at, bytes);
}

void amd_pieces_free(struct amd_pieces *pieces)
{
	for (int i = 0; i < pieces->nfiles; i++)
		close(pieces->file[i].fd);
	amd_pieces_unmap_pages(pieces->filler, pieces->filler_room * sizeof(*pieces->filler));
	amd_pieces_unmap_pages(pieces->maps, pieces->maps_room * sizeof(*pieces->maps));
	amd_pieces_unmap_pages(pieces->metadata, pieces->n * sizeof(*pieces->metadata));
	amd_pieces_unmap_pages(pieces->at, pieces->room * sizeof(*pieces->at));
	*pieces = (struct amd_pieces){.n = 0};
}

/* --- The kernel ----------------------------------------------------------------------------- */

static int amd_pieces_free_handle(int kfd, uint64_t handle)
{
	struct kfd_ioctl_free_memory_of_gpu_args args = {handle};

	return amd_ask(kfd, _IOW('K', KFD_NR_FREE_MEMORY_OF_GPU, args), &args);
}

int amd_pieces_map(int kfd, const struct amd *amd, struct amd_piece *piece, uint64_t gpus)
{
	return amd_piece_reach(kfd, amd, piece->handle, gpus, true, &piece->now);
}

int amd_pieces_unmap(int kfd, const struct amd *amd, struct amd_piece *piece, uint64_t gpus)
{
	return amd_piece_reach(kfd, amd, piece->handle, gpus, false, &piece->now);
}

void amd_pieces_leave(int kfd, const struct amd *amd, const struct amd_pieces *pieces,
		      struct amd_piece *piece)
{
	if (piece->file >= 0)
		piece->away = amd_node_leave(pieces, piece);
	else if (!amd_pieces_unmap(kfd, amd, piece, piece->now))
		piece->away = amd_pieces_free_handle(kfd, piece->handle) >= 0;
}

static enum swap_why amd_pieces_why(int error)
{
	return error == -ENOMEM ? SWAP_DEVICE : SWAP_DRIVER;
}

static int amd_pieces_fill(int kfd, const struct amd *amd, const struct amd_pieces *pieces,
			   const struct amd_piece *piece, uint64_t *ret_handle)
{
	struct kfd_ioctl_alloc_memory_of_gpu_args args = {
		.va_addr = piece->va,
		.size = FILLER_BYTES,
		.gpu_id = amd->device[piece->device].node->gpu_id,
		.flags = KFD_IOC_ALLOC_MEM_FLAGS_GTT | KFD_IOC_ALLOC_MEM_FLAGS_WRITABLE};
	int r;

	if (piece->file >= 0)
		return amd_node_fill(pieces, piece, ret_handle);
	r = amd_ask(kfd, _IOWR('K', KFD_NR_ALLOC_MEMORY_OF_GPU, args), &args);
	if (r < 0)
		return r;
	*ret_handle = args.handle;
	return 0;
}

static void amd_pieces_empty(int kfd, const struct amd_pieces *pieces,
			     const struct amd_filler *filler)
{
	if (filler->file >= 0)
		amd_node_close(pieces->file[filler->file].fd, filler->handle);
	else
		amd_pieces_free_handle(kfd, filler->handle);
}

/*
 * Gives the piece's own number free, if it was taken for one above it. Where numbers are the
 * process's it may have been taken for another GPU's.
 */
static void amd_pieces_vacate(int kfd, struct amd_pieces *pieces, const struct amd_piece *piece)
{
	struct amd_filler *found = NULL;

	for (uint64_t i = 0; i < pieces->nfillers; i++) {
		struct amd_filler *filler = &pieces->filler[i];

		if (filler->file == piece->file &&
		    (uint32_t)filler->handle == (uint32_t)piece->handle &&
		    (!found || filler->handle == piece->handle))
			found = filler;
	}
	if (!found)
		return;
	amd_pieces_empty(kfd, pieces, found);
	*found = pieces->filler[--pieces->nfillers];
}

/* Takes all numbers below the piece's: the next one that the kernel gives is that. */
static enum swap_why amd_pieces_fill_up(int kfd, const struct amd *amd, struct amd_pieces *pieces,
					const struct amd_piece *piece)
{
	const uint32_t wanted = (uint32_t)piece->handle;

	while (pieces->nfillers < pieces->filler_room) {
		struct amd_filler filler = {.file = piece->file};
		int r = amd_pieces_fill(kfd, amd, pieces, piece, &filler.handle);

		if (r < 0)
			return amd_pieces_why(r);
		if ((uint32_t)filler.handle >= wanted) {
			amd_pieces_empty(kfd, pieces, &filler);
			return (uint32_t)filler.handle == wanted ? SWAP_FINE : SWAP_DRIVER;
		}
		pieces->filler[pieces->nfillers++] = filler;
	}
	return SWAP_DRIVER;
}

static bool amd_pieces_note_offset(struct object *object, void *arg)
{
	object->amd.offset = *(const uint64_t *)arg;
	return true;
}

/* It has the handle again, and is to be reached as before. */
static enum swap_why amd_pieces_arrive_kfd(int kfd, struct amd *amd, struct amd_piece *piece,
					   uint64_t handle)
{
	int r;

	if (handle != piece->handle) {
		amd_pieces_free_handle(kfd, handle);
		return SWAP_DRIVER;
	}
	piece->away = false;
	piece->now = 0;
	r = amd_pieces_map(kfd, amd, piece, piece->mapped);
	return r ? amd_pieces_why(r) : SWAP_FINE;
}

static enum swap_why amd_pieces_return_kfd(int kfd, struct guest *guest, struct amd *amd,
					   struct amd_piece *piece)
{
	struct kfd_ioctl_alloc_memory_of_gpu_args args = {
		.va_addr = piece->va,
		.size = piece->size,
		.gpu_id = amd->device[piece->device].node->gpu_id,
		.flags = piece->flags};
	int r = amd_ask(kfd, _IOWR('K', KFD_NR_ALLOC_MEMORY_OF_GPU, args), &args);

	if (r < 0)
		return amd_pieces_why(r);
	piece->offset = args.mmap_offset;
	object_change(guest->objects, OBJECT_KFD, piece->key, false, amd_pieces_note_offset,
		      &piece->offset);
	return amd_pieces_arrive_kfd(kfd, amd, piece, args.handle);
}

enum swap_why amd_pieces_return(int kfd, struct guest *guest, struct amd *amd,
				struct amd_pieces *pieces, uint64_t i)
{
	struct amd_piece *piece = &pieces->at[i];
	enum swap_why why = amd_pieces_fill_up(kfd, amd, pieces, piece);

	if (why)
		return why;
	return piece->file >= 0 ? amd_node_return(pieces, i, -EBADF)
				: amd_pieces_return_kfd(kfd, guest, amd, piece);
}

static enum swap_why amd_pieces_import_kfd(int kfd, struct amd *amd, struct amd_piece *piece,
					   int dmabuf)
{
	struct kfd_ioctl_import_dmabuf_args args = {.va_addr = piece->va,
						    .gpu_id = (uint32_t)(piece->handle >> 32),
						    .dmabuf_fd = (uint32_t)dmabuf};
	int r = amd_ask(kfd, _IOWR('K', KFD_NR_IMPORT_DMABUF, args), &args);

	return r < 0 ? amd_pieces_why(r) : amd_pieces_arrive_kfd(kfd, amd, piece, args.handle);
}

static enum swap_why amd_pieces_import(int kfd, struct amd *amd, struct amd_pieces *pieces,
				       uint64_t i, int dmabuf)
{
	struct amd_piece *piece = &pieces->at[i];
	enum swap_why why;

	/* Who lends it may have other memory by now. */
	if (!piece->away)
		amd_pieces_leave(kfd, amd, pieces, piece);
	if (!piece->away)
		return SWAP_DRIVER;
	amd_pieces_vacate(kfd, pieces, piece);
	why = amd_pieces_fill_up(kfd, amd, pieces, piece);
	if (why)
		return why;
	return piece->file >= 0 ? amd_node_return(pieces, i, dmabuf)
				: amd_pieces_import_kfd(kfd, amd, piece, dmabuf);
}

enum swap_why amd_pieces_borrow(int kfd, struct guest *guest, struct amd *amd,
				struct amd_pieces *pieces, uint64_t i)
{
	int dmabuf = amd_lent_fetch_again(guest, pieces->at[i].borrowed);
	enum swap_why why;

	/*
	 * It was kept until it is known who has it. Nobody has, and nobody ran since: it is that.
	 */
	if (dmabuf == -ESRCH && !pieces->at[i].away)
		return SWAP_FINE;
	if (dmabuf < 0)
		return borrow_why(dmabuf);
	why = amd_pieces_import(kfd, amd, pieces, i, dmabuf);
	close(dmabuf);
	return why;
}

void amd_pieces_settle(int kfd, struct amd_pieces *pieces)
{
	while (pieces->nfillers)
		amd_pieces_empty(kfd, pieces, &pieces->filler[--pieces->nfillers]);
}
