/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/cuda/pool.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "sim/cuda/api.h"
#include "sim/cuda/stream.h"

#define STEP (32ull << 20)
#define ALIGN 512u

enum piece_state {
	PIECE_FREE,
	PIECE_USED,
	PIECE_FREEING, /* free for its stream, for others when that gets there */
};

/* Pieces cover their segment without gaps, in the order of addresses. */
struct piece {
	struct piece *prev, *next;
	uint64_t base, bytes;
	enum piece_state state;
	struct sim_stream *stream;
	uint64_t ticket;
};

struct segment {
	struct segment *next;
	struct sim_pool *pool;
	struct sim_block *block;
	uint64_t base;
	struct piece *first;
	unsigned int tickets; /* frees that are on their way */
};

/* A segment of another process's pool, of which an imported pool has had a pointer. */
struct kept {
	struct kept *next;
	struct sim_block *block; /* by a hidden reference */
};

struct sim_pool {
	struct sim_pool *next;
	struct sim_device *device;
	CUmemPoolProps props;
	bool imported;
	bool exported;	       /* a descriptor of it was made */
	struct kept *kept;     /* of an imported pool */
	unsigned int pointers; /* that were imported and are there */
	unsigned int parting;  /* of these, freed in a stream that is not there yet */
	bool unheard;	       /* one was freed so since a call last waited for the device's work */
	bool leaks;	       /* it was destroyed then */
	bool destroyed; /* stays until nothing of it is in use */
	struct segment *segments;
	uint64_t threshold;
	uint64_t reserved, reserved_high, used, used_high;
	int reuse[3];
	uint32_t access; /* bit per other ordinal */
};

struct sim_pool_ticket {
	struct segment *segment;
	uint64_t number;
};

static struct sim_pool *all;
static uint64_t next_ticket = 1;
static bool (*also_trim)(struct sim_device *device);

struct sim_pool *sim_pool_find(CUmemoryPool handle)
{
	struct sim_pool *pool;

	for (pool = all; pool && pool != (struct sim_pool *)handle; pool = pool->next)
		;
	return pool && !pool->destroyed ? pool : NULL;
}

struct sim_pool *sim_pool_new(const CUmemPoolProps *props, struct sim_device *device, bool imported)
{
	struct sim_pool *pool = calloc(1, sizeof(*pool));

	if (!pool)
		return NULL;
	pool->device = device;
	pool->props = *props;
	pool->imported = imported;
	for (int i = 0; i < 3; i++)
		pool->reuse[i] = 1;
	pool->next = all;
	all = pool;
	return pool;
}

bool sim_pool_imported(const struct sim_pool *pool)
{
	return pool->imported;
}

void sim_pool_set_exported(struct sim_pool *pool)
{
	pool->exported = true;
}

bool sim_pool_exported(const struct sim_range *range)
{
	return ((const struct sim_pool *)range->owner)->exported;
}

bool sim_pool_managed(const struct sim_pool *pool)
{
	return pool->props.allocType == CU_MEM_ALLOCATION_TYPE_MANAGED;
}

/* The pool's reserve changes, and with it the managed memory that the figure leaves out. */
static void pool_reserve(struct sim_pool *pool, int64_t bytes)
{
	pool->reserved += (uint64_t)bytes;
	if (pool->reserved > pool->reserved_high)
		pool->reserved_high = pool->reserved;
	if (pool->device && sim_pool_managed(pool))
		sim.region->row[sim.row].use[pool->device->index].managed_bytes += (uint64_t)bytes;
}

const CUmemPoolProps *sim_pool_props(const struct sim_pool *pool)
{
	return &pool->props;
}

unsigned int sim_pool_handle_types(const struct sim_range *range)
{
	const struct sim_pool *pool = range->owner;

	return pool->props.handleTypes;
}

struct sim_pool *sim_pool_of_device(struct sim_device *device, bool current)
{
	if (!device->default_pool) {
		CUmemPoolProps props = {
			.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
			.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = device->ordinal},
		};

		device->default_pool = sim_pool_new(&props, device, false);
	}
	return current && device->current_pool ? device->current_pool : device->default_pool;
}

bool sim_pool_holds(uint64_t base, uint64_t bytes)
{
	for (struct sim_pool *pool = all; pool; pool = pool->next)
		for (struct segment *s = pool->segments; s; s = s->next)
			if (base >= s->base && bytes <= s->block->bytes &&
			    base - s->base <= s->block->bytes - bytes)
				return true;
	return false;
}

static bool pool_usable(const struct piece *p, uint64_t bytes, const struct sim_stream *stream)
{
	return p->bytes >= bytes && (p->state == PIECE_FREE ||
				     (p->state == PIECE_FREEING && p->stream == stream));
}

static struct piece *pool_find_piece(struct sim_pool *pool, uint64_t bytes,
				     struct sim_stream *stream)
{
	for (struct segment *s = pool->segments; s; s = s->next)
		for (struct piece *p = s->first; p; p = p->next)
			if (pool_usable(p, bytes, stream))
				return p;
	return NULL;
}

static CUresult pool_grow(struct sim_pool *pool, uint64_t bytes)
{
	struct segment *s = calloc(1, sizeof(*s));
	struct piece *p = calloc(1, sizeof(*p));
	void *address;
	CUresult r = CUDA_ERROR_OUT_OF_MEMORY;

	bytes = sim_round(bytes, STEP);
	if (!s || !p || !bytes)
		goto fail;
	if (pool->props.maxSize && bytes > sim_round(pool->props.maxSize, STEP) - pool->reserved)
		goto fail;
	r = sim_pools_block_create(pool->device, bytes, pool->props.handleTypes, &s->block);
	if (r)
		goto fail;
	r = sim_block_map(s->block, 0, bytes, NULL, SIM_GRANULE, PROT_READ | PROT_WRITE, &address);
	if (r) {
		sim_block_unref(s->block);
		goto fail;
	}
	s->pool = pool;
	s->base = p->base = (uint64_t)address;
	p->bytes = bytes;
	s->first = p;
	s->next = pool->segments;
	pool->segments = s;
	pool_reserve(pool, (int64_t)bytes);
	return CUDA_SUCCESS;
fail:
	free(s);
	free(p);
	return r;
}

/* Cut the piece to `bytes`; what is left keeps its state. */
static bool pool_split(struct piece *p, uint64_t bytes)
{
	struct piece *rest;

	if (p->bytes == bytes)
		return true;
	rest = malloc(sizeof(*rest));
	if (!rest)
		return false;
	*rest = *p;
	rest->base += bytes;
	rest->bytes -= bytes;
	rest->prev = p;
	if (rest->next)
		rest->next->prev = rest;
	p->next = rest;
	p->bytes = bytes;
	return true;
}

static void pool_merge_free(struct segment *s)
{
	for (struct piece *p = s->first; p;) {
		struct piece *next = p->next;

		if (!next || p->state != PIECE_FREE || next->state != PIECE_FREE) {
			p = next;
			continue;
		}
		p->bytes += next->bytes;
		p->next = next->next;
		if (p->next)
			p->next->prev = p;
		free(next);
	}
}

static struct segment *pool_segment_of(struct sim_pool *pool, uint64_t address)
{
	struct segment *s = pool->segments;

	while (address - s->base >= s->block->bytes)
		s = s->next;
	return s;
}

struct sim_block *sim_pool_block(const struct sim_range *range, uint64_t *ret_offset)
{
	const struct segment *s = pool_segment_of(range->owner, range->base);

	*ret_offset = range->base - s->base;
	return s->block;
}

/* Give back whole free segments until at most `keep` bytes are reserved. Was there any? */
static bool pool_trim(struct sim_pool *pool, uint64_t keep)
{
	bool any = false;

	for (struct segment **at = &pool->segments, *s; (s = *at);) {
		bool idle = s->first->state == PIECE_FREE && !s->first->next && !s->tickets;

		if (!idle || pool->reserved <= keep || pool->reserved - s->block->bytes < keep) {
			at = &s->next;
			continue;
		}
		*at = s->next;
		pool_reserve(pool, -(int64_t)s->block->bytes);
		sim_address_unmap((void *)s->base, s->block->bytes, false);
		sim_block_unref(s->block);
		free(s->first);
		free(s);
		any = true;
	}
	return any;
}

/* A destroyed pool ends with the last thing that was taken from it. */
static void pool_settle(struct sim_pool *pool)
{
	struct sim_pool **at = &all;

	if (!pool->destroyed)
		return;
	pool_trim(pool, 0);
	if (pool->segments || pool->pointers || pool->leaks)
		return;
	for (struct kept *k; (k = pool->kept);) {
		pool->kept = k->next;
		sim_block_unref_hidden(k->block);
		free(k);
	}
	while (*at != pool)
		at = &(*at)->next;
	*at = pool->next;
	free(pool);
}

bool sim_pool_adopt(struct sim_pool *pool, struct sim_range *range)
{
	struct kept *k;

	for (k = pool->kept; k && k->block != range->block; k = k->next)
		;
	if (!k) {
		k = malloc(sizeof(*k));
		if (!k)
			return false;
		*k = (struct kept){pool->kept, sim_block_ref_hidden(range->block)};
		pool->kept = k;
	}
	range->owner = pool;
	pool->pointers++;
	return true;
}

void sim_pool_end_pointer(struct sim_range *range)
{
	struct sim_pool *pool = range->owner;

	pool->parting -= range->freeing;
	sim_range_end(range);
	pool->pointers--;
	pool_settle(pool);
}

void sim_pool_part_pointer(struct sim_range *range)
{
	struct sim_pool *pool = range->owner;

	pool->parting++;
	pool->unheard = true;
}

CUresult sim_pool_alloc(struct sim_pool *pool, uint64_t bytes, struct sim_stream *stream,
			CUdeviceptr *ret_ptr)
{
	uint64_t want = sim_round(bytes, ALIGN);
	struct sim_range *range;
	struct piece *p;
	CUresult r;

	if (!want)
		return CUDA_ERROR_OUT_OF_MEMORY;
	p = pool_find_piece(pool, want, stream);
	if (!p) {
		r = pool_grow(pool, want);
		if (r)
			return r;
		p = pool_find_piece(pool, want, stream);
	}
	range = sim_range_add(p->base, bytes, SIM_RANGE_POOL, pool->device, NULL);
	if (!range)
		return CUDA_ERROR_OUT_OF_MEMORY;
	if (!pool_split(p, want)) {
		sim_range_remove(range);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	p->state = PIECE_USED;
	range->owner = pool;
	range->piece = p;
	pool->used += want;
	if (pool->used > pool->used_high)
		pool->used_high = pool->used;
	*ret_ptr = range->base;
	return CUDA_SUCCESS;
}

CUresult sim_pool_free(struct sim_range *range, struct sim_stream *stream,
		       struct sim_pool_ticket **ret_ticket)
{
	struct sim_pool *pool = range->owner;
	struct piece *p = range->piece;
	struct segment *s = pool_segment_of(pool, p->base);
	struct sim_pool_ticket *ticket = NULL;

	if (stream) {
		ticket = malloc(sizeof(*ticket));
		if (!ticket)
			return CUDA_ERROR_OUT_OF_MEMORY;
		*ticket = (struct sim_pool_ticket){.segment = s, .number = next_ticket++};
		s->tickets++;
		p->ticket = ticket->number;
		p->stream = stream;
		*ret_ticket = ticket;
	}
	p->state = stream ? PIECE_FREEING : PIECE_FREE;
	pool->used -= p->bytes;
	sim_range_remove(range);
	if (!stream) {
		pool_merge_free(s);
		pool_trim(pool, pool->threshold); /* cuMemFree synchronizes */
		pool_settle(pool);
	}
	return CUDA_SUCCESS;
}

void sim_pool_freed(void *arg)
{
	struct sim_pool_ticket *ticket = arg;
	struct segment *s = ticket->segment;

	sim_lock();
	for (struct piece *p = s->first; p; p = p->next)
		if (p->state == PIECE_FREEING && p->ticket == ticket->number)
			p->state = PIECE_FREE;
	s->tickets--;
	pool_merge_free(s);
	pool_settle(s->pool);
	sim_unlock();
	free(ticket);
}

void sim_pools_trim_also(bool (*trim)(struct sim_device *device))
{
	also_trim = trim;
}

/* Give back what nobody uses of all pools of a device, also graph memory. Was there any? */
static bool pool_trim_all(struct sim_device *device)
{
	bool any = false;

	if (!device)
		return false;
	for (struct sim_pool *pool = all; pool; pool = pool->next)
		if (pool->device == device)
			any |= pool_trim(pool, 0);
	return (also_trim && also_trim(device)) || any;
}

CUresult sim_pools_block_create(struct sim_device *device, uint64_t bytes, bool own_file,
				struct sim_block **ret_block)
{
	CUresult r = sim_block_create(device, bytes, own_file, ret_block);

	/* A size that no device could have takes nothing from anybody. */
	if (r == CUDA_ERROR_OUT_OF_MEMORY && sim_round(bytes, SIM_GRANULE) &&
	    pool_trim_all(device))
		r = sim_block_create(device, bytes, own_file, ret_block);
	return r;
}

void sim_pool_synchronized(unsigned int device)
{
	sim_lock();
	for (struct sim_pool *pool = all; pool; pool = pool->next)
		if (pool->device == &sim.device[device]) {
			pool_trim(pool, pool->threshold);
			pool->unheard &= pool->parting > 0;
		}
	sim_unlock();
}

CUresult cuMemPoolCreate(CUmemoryPool *pool, const CUmemPoolProps *poolProps)
{
	struct sim_device *device;
	struct sim_pool *p;
	CUresult r = sim_ready();

	if (r)
		return r;
	if (!pool || !poolProps ||
	    (poolProps->allocType != CU_MEM_ALLOCATION_TYPE_PINNED &&
	     poolProps->allocType != CU_MEM_ALLOCATION_TYPE_MANAGED) ||
	    !sim_location(&poolProps->location, &device))
		return CUDA_ERROR_INVALID_VALUE;
	if (poolProps->handleTypes & ~(unsigned int)CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR ||
	    (poolProps->handleTypes && poolProps->allocType == CU_MEM_ALLOCATION_TYPE_MANAGED))
		return CUDA_ERROR_NOT_SUPPORTED;
	sim_lock();
	p = sim_pool_new(poolProps, device, false);
	sim_unlock();
	if (!p)
		return CUDA_ERROR_OUT_OF_MEMORY;
	*pool = (CUmemoryPool)p;
	return CUDA_SUCCESS;
}

/* A handle's pool, with sim_lock held; on an error, without it. */
static CUresult pool_lock(CUmemoryPool handle, struct sim_pool **ret_pool)
{
	struct sim_pool *pool;
	CUresult r = sim_ready();

	if (r)
		return r;
	sim_lock();
	pool = sim_pool_find(handle);
	if (!pool) {
		sim_unlock();
		return CUDA_ERROR_INVALID_VALUE;
	}
	*ret_pool = pool;
	return CUDA_SUCCESS;
}

CUresult cuMemPoolDestroy(CUmemoryPool handle)
{
	struct sim_pool *pool;
	CUresult r = pool_lock(handle, &pool);

	if (r)
		return r;
	if ((pool->device && pool == pool->device->default_pool) ||
	    pool->pointers > pool->parting) {
		r = CUDA_ERROR_INVALID_VALUE;
	} else {
		for (int i = 0; i < sim.ndevices; i++)
			if (sim.device[i].current_pool == pool)
				sim.device[i].current_pool = NULL;
		pool->destroyed = true;
		pool->leaks = pool->unheard;
		pool_settle(pool);
	}
	sim_unlock();
	return r;
}

CUresult cuMemPoolTrimTo(CUmemoryPool handle, size_t minBytesToKeep)
{
	struct sim_pool *pool;
	CUresult r = pool_lock(handle, &pool);

	if (r)
		return r;
	pool_trim(pool, minBytesToKeep);
	sim_unlock();
	return CUDA_SUCCESS;
}

/* Attributes: three ints, then 64-bit figures of which only some may be set, and only to this. */
static uint64_t *pool_figure_of(struct sim_pool *pool, CUmemPool_attribute attr)
{
	switch (attr) {
	case CU_MEMPOOL_ATTR_RELEASE_THRESHOLD:
		return &pool->threshold;
	case CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT:
		return &pool->reserved;
	case CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH:
		return &pool->reserved_high;
	case CU_MEMPOOL_ATTR_USED_MEM_CURRENT:
		return &pool->used;
	case CU_MEMPOOL_ATTR_USED_MEM_HIGH:
		return &pool->used_high;
	default:
		return NULL;
	}
}

CUresult cuMemPoolGetAttribute(CUmemoryPool handle, CUmemPool_attribute attr, void *value)
{
	struct sim_pool *pool;
	CUresult r = pool_lock(handle, &pool);

	if (r)
		return r;
	if (!value)
		r = CUDA_ERROR_INVALID_VALUE;
	else if (attr >= 1 && attr <= 3)
		*(int *)value = pool->reuse[attr - 1];
	else if (pool_figure_of(pool, attr))
		*(cuuint64_t *)value = *pool_figure_of(pool, attr);
	else
		r = CUDA_ERROR_INVALID_VALUE;
	sim_unlock();
	return r;
}

CUresult cuMemPoolSetAttribute(CUmemoryPool handle, CUmemPool_attribute attr, void *value)
{
	struct sim_pool *pool;
	CUresult r = pool_lock(handle, &pool);

	if (r)
		return r;
	if (!value)
		r = CUDA_ERROR_INVALID_VALUE;
	else if (attr >= 1 && attr <= 3)
		pool->reuse[attr - 1] = *(int *)value;
	else if (attr == CU_MEMPOOL_ATTR_RELEASE_THRESHOLD)
		pool->threshold = *(cuuint64_t *)value;
	else if (attr == CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH && !*(cuuint64_t *)value)
		pool->reserved_high = pool->reserved;
	else if (attr == CU_MEMPOOL_ATTR_USED_MEM_HIGH && !*(cuuint64_t *)value)
		pool->used_high = pool->used;
	else
		r = CUDA_ERROR_INVALID_VALUE;
	sim_unlock();
	return r;
}

CUresult cuMemPoolSetAccess(CUmemoryPool handle, const CUmemAccessDesc *map, size_t count)
{
	struct sim_device *device;
	struct sim_pool *pool;
	CUresult r = pool_lock(handle, &pool);

	if (r)
		return r;
	if (!map || !count)
		r = CUDA_ERROR_INVALID_VALUE;
	for (size_t i = 0; i < count && !r; i++)
		if (!sim_location(&map[i].location, &device) ||
		    (device == pool->device && !map[i].flags))
			r = CUDA_ERROR_INVALID_VALUE;
		else if (device && map[i].flags)
			pool->access |= 1u << device->ordinal;
		else if (device)
			pool->access &= ~(1u << device->ordinal);
	sim_unlock();
	return r;
}

CUresult cuMemPoolGetAccess(CUmemAccess_flags *flags, CUmemoryPool handle, CUmemLocation *location)
{
	struct sim_device *device;
	struct sim_pool *pool;
	CUresult r = pool_lock(handle, &pool);

	if (r)
		return r;
	if (!flags || !location || !sim_location(location, &device))
		r = CUDA_ERROR_INVALID_VALUE;
	else
		*flags = device == pool->device ||
					 (device && pool->access & 1u << device->ordinal)
				 ? CU_MEM_ACCESS_FLAGS_PROT_READWRITE
				 : CU_MEM_ACCESS_FLAGS_PROT_NONE;
	sim_unlock();
	return r;
}
