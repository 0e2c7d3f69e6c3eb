/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/cuda/block.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

/* The process's common file: offsets are never used twice, and freed ones cost nothing. */
static int store_fd = -1;
static uint64_t store_end;

/* Blocks that are objects of the region, once each; and descriptors that outlive their block. */
static struct sim_block *shared_blocks;
static struct lingering {
	struct lingering *next;
	uint64_t key[2];
	int fd;
} *lingering;

/* Behind a shared block's content, in its file: says which object it is. */
struct trailer {
	uint64_t magic, key[2], bytes;
};

#define TRAILER_MAGIC 0x31594b4d4953ull
#define TRAILER_BYTES 4096

static CUresult block_new_file(uint64_t bytes, int *ret_fd)
{
	int fd = memfd_create("allot-sim-memory", MFD_CLOEXEC);

	if (fd < 0)
		return CUDA_ERROR_OPERATING_SYSTEM;
	if (bytes && ftruncate(fd, (off_t)bytes)) {
		close(fd);
		return CUDA_ERROR_OPERATING_SYSTEM;
	}
	*ret_fd = fd;
	return CUDA_SUCCESS;
}

static CUresult block_store_extend(uint64_t bytes, uint64_t *ret_offset)
{
	CUresult r;

	if (store_fd < 0) {
		r = block_new_file(0, &store_fd);
		if (r)
			return r;
	}
	if (ftruncate(store_fd, (off_t)(store_end + bytes)))
		return CUDA_ERROR_OPERATING_SYSTEM;
	*ret_offset = store_end;
	store_end += bytes;
	return CUDA_SUCCESS;
}

CUresult sim_block_create(struct sim_device *device, uint64_t bytes, bool own_file,
			  struct sim_block **ret_block)
{
	struct sim_block *block;
	CUresult r;

	bytes = sim_round(bytes, device ? SIM_GRANULE : 4096);
	if (!bytes)
		return CUDA_ERROR_OUT_OF_MEMORY;
	block = calloc(1, sizeof(*block));
	if (!block)
		return CUDA_ERROR_OUT_OF_MEMORY;
	block->device = device;
	block->bytes = bytes;
	block->fd = -1;
	block->refs = 1;
	r = device ? sim_device_take(device, bytes) : CUDA_SUCCESS;
	if (r) {
		free(block);
		return r;
	}
	r = own_file ? block_new_file(bytes, &block->fd)
		     : block_store_extend(bytes, &block->offset);
	if (r) {
		if (device)
			sim_device_give(device, bytes);
		free(block);
		return r;
	}
	*ret_block = block;
	return CUDA_SUCCESS;
}

/* A new open file description of the same file. */
static int block_reopen(int fd)
{
	char path[40];

	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	return open(path, O_RDWR | O_CLOEXEC);
}

static void block_add_shared(struct sim_block *block, const uint64_t key[2])
{
	block->shared = true;
	memcpy(block->key, key, sizeof(block->key));
	block->next_shared = shared_blocks;
	shared_blocks = block;
}

static struct sim_block *block_find_shared(const uint64_t key[2])
{
	struct sim_block *block = shared_blocks;

	while (block && block->key[0] != key[0])
		block = block->next_shared;
	return block;
}

CUresult sim_block_import(int fd, const uint64_t key[2], bool hidden, struct sim_block **ret_block)
{
	struct sim_block *block = block_find_shared(key);
	uint64_t bytes;
	int index;

	if (block) {
		*ret_block = hidden ? sim_block_ref_hidden(block) : sim_block_ref(block);
		return CUDA_SUCCESS;
	}
	block = calloc(1, sizeof(*block));
	if (!block)
		return CUDA_ERROR_OUT_OF_MEMORY;
	block->refs = 1;
	block->hidden = hidden;
	block->fd = block_reopen(fd);
	if (block->fd < 0) {
		free(block);
		return CUDA_ERROR_OPERATING_SYSTEM;
	}
	if (sim_object_hold(sim.region, sim.row, key, &bytes, &index)) {
		close(block->fd);
		free(block);
		return CUDA_ERROR_INVALID_HANDLE;
	}
	for (int i = 0; i < sim.ndevices; i++)
		if (sim.device[i].index == index)
			block->device = &sim.device[i];
	if (!block->device) { /* a device that this process does not see */
		sim_object_drop(sim.region, sim.row, key);
		close(block->fd);
		free(block);
		return CUDA_ERROR_INVALID_DEVICE;
	}
	if (!hidden)
		sim_object_show(sim.region, sim.row, key, true);
	block->bytes = bytes;
	block_add_shared(block, key);
	*ret_block = block;
	return CUDA_SUCCESS;
}

static bool block_is_shown(const struct sim_block *block)
{
	return block->refs > block->hidden;
}

struct sim_block *sim_block_ref(struct sim_block *block)
{
	bool was = block_is_shown(block);

	block->refs++;
	if (block->shared && !was)
		sim_object_show(sim.region, sim.row, block->key, true);
	return block;
}

struct sim_block *sim_block_ref_hidden(struct sim_block *block)
{
	block->refs++;
	block->hidden++;
	return block;
}

void sim_block_unref_hidden(struct sim_block *block)
{
	block->hidden--;
	sim_block_unref(block);
}

void sim_block_unref_as(struct sim_block *block, bool hidden)
{
	if (hidden)
		sim_block_unref_hidden(block);
	else
		sim_block_unref(block);
}

/*
 * Other processes see the lock of an exported descriptor through the block's own one, which stays
 * open until the exported one is closed.
 */
static void block_linger(struct sim_block *block)
{
	struct lingering *l, **at = &lingering;

	while ((l = *at)) {
		if (sim_object_exists(sim.region, l->key)) {
			at = &l->next;
			continue;
		}
		*at = l->next;
		close(l->fd);
		free(l);
	}
	l = block->exported ? malloc(sizeof(*l)) : NULL;
	if (!l) {
		close(block->fd);
		return;
	}
	memcpy(l->key, block->key, sizeof(l->key));
	l->fd = block->fd;
	l->next = lingering;
	lingering = l;
}

void sim_block_unref(struct sim_block *block)
{
	struct sim_block **at = &shared_blocks;

	if (!block)
		return;
	if (--block->refs) {
		if (block->shared && !block_is_shown(block))
			sim_object_show(sim.region, sim.row, block->key, false);
		return;
	}
	if (block->shared) {
		while (*at != block)
			at = &(*at)->next_shared;
		*at = block->next_shared;
		sim_object_drop(sim.region, sim.row, block->key);
		block_linger(block);
	} else {
		if (block->fd >= 0)
			close(block->fd);
		else
			fallocate(store_fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
				  (off_t)block->offset, (off_t)block->bytes);
		if (block->device)
			sim_device_give(block->device, block->bytes);
	}
	free(block);
}

CUresult sim_address_reserve(uint64_t bytes, uint64_t align, void *hint, void **ret_address)
{
	uint64_t room = align > 4096 ? bytes + align : bytes, start;
	unsigned char *p;

	if (room < bytes)
		return CUDA_ERROR_OUT_OF_MEMORY;
	if (hint) {
		p = mmap(hint, bytes, PROT_NONE,
			 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1, 0);
		if (p != MAP_FAILED && p != hint)
			munmap(p, bytes);
		if (p == hint && (!align || !((uint64_t)p & (align - 1)))) {
			madvise(p, bytes, MADV_DONTFORK);
			*ret_address = p;
			return CUDA_SUCCESS;
		}
		if (p == hint)
			munmap(p, bytes);
	}
	p = mmap(NULL, room, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (p == MAP_FAILED)
		return CUDA_ERROR_OUT_OF_MEMORY;
	start = room > bytes ? sim_round((uint64_t)p, align) : (uint64_t)p;
	if (start > (uint64_t)p)
		munmap(p, start - (uint64_t)p);
	if (start + bytes < (uint64_t)p + room)
		munmap((void *)(start + bytes), (uint64_t)p + room - start - bytes);
	madvise((void *)start, bytes, MADV_DONTFORK);
	*ret_address = (void *)start;
	return CUDA_SUCCESS;
}

void sim_address_unmap(void *address, uint64_t bytes, bool keep)
{
	if (!keep) {
		munmap(address, bytes);
		return;
	}
	/* Replaced at one stroke: the addresses never belong to anybody else in between. */
	if (mmap(address, bytes, PROT_NONE,
		 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0) != MAP_FAILED)
		madvise(address, bytes, MADV_DONTFORK);
}

static bool block_map_fixed(const struct sim_block *block, uint64_t offset, uint64_t bytes,
			    void *at, int prot)
{
	void *p = mmap(at, bytes, prot, MAP_SHARED | MAP_FIXED | MAP_NORESERVE,
		       block->fd >= 0 ? block->fd : store_fd, (off_t)(block->offset + offset));

	if (p == MAP_FAILED)
		return false;
	madvise(p, bytes, MADV_DONTFORK);
	return true;
}

CUresult sim_block_map(struct sim_block *block, uint64_t offset, uint64_t bytes, void *at,
		       uint64_t align, int prot, void **ret_address)
{
	void *address = at;
	CUresult r;

	if (!at) {
		r = sim_address_reserve(bytes, align, NULL, &address);
		if (r)
			return r;
	}
	if (!block_map_fixed(block, offset, bytes, address, prot)) {
		if (!at)
			munmap(address, bytes);
		return CUDA_ERROR_MAP_FAILED;
	}
	if (ret_address)
		*ret_address = address;
	return CUDA_SUCCESS;
}

static bool block_remap_one(struct sim_range *range, void *arg)
{
	struct sim_block *block = arg;
	int prot = (range->readable ? PROT_READ : 0) | (range->writable ? PROT_WRITE : 0);

	if (range->block == block)
		block_map_fixed(block, range->map_offset, range->map_bytes, (void *)range->map_base,
				prot);
	return false;
}

/* Copies what was ever written: holes stay holes. */
static bool block_copy_content(int to, uint64_t from_offset, uint64_t bytes)
{
	off_t end = (off_t)(from_offset + bytes), at = (off_t)from_offset, hole;
	static unsigned char buf[1 << 16]; /* under sim_lock */

	while ((at = lseek(store_fd, at, SEEK_DATA)) >= 0 && at < end) {
		hole = lseek(store_fd, at, SEEK_HOLE);
		if (hole < 0 || hole > end)
			hole = end;
		while (at < hole) {
			size_t want = (size_t)(hole - at) < sizeof(buf) ? (size_t)(hole - at)
									 : sizeof(buf);
			ssize_t n = pread(store_fd, buf, want, at);

			if (n <= 0 || pwrite(to, buf, (size_t)n, at - (off_t)from_offset) != n)
				return false;
			at += n;
		}
	}
	return true;
}

CUresult sim_block_share(struct sim_block *block)
{
	uint64_t old = block->offset;
	struct trailer trailer = {.magic = TRAILER_MAGIC, .bytes = block->bytes};
	CUresult r;
	int fd;

	if (block->shared)
		return CUDA_SUCCESS;
	if (!block->device)
		return CUDA_ERROR_NOT_SUPPORTED;
	if (block->fd < 0) {
		r = block_new_file(block->bytes, &fd);
		if (r)
			return r;
		if (!block_copy_content(fd, old, block->bytes)) {
			close(fd);
			return CUDA_ERROR_OUT_OF_MEMORY;
		}
		block->fd = fd;
		block->offset = 0;
		sim_range_each(block_remap_one, block);
		fallocate(store_fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)old,
			  (off_t)block->bytes);
	}
	if (sim_object_share(sim.region, sim.row, block->device->index, block->bytes, trailer.key))
		return CUDA_ERROR_OUT_OF_MEMORY;
	block_add_shared(block, trailer.key);
	if (ftruncate(block->fd, (off_t)(block->bytes + TRAILER_BYTES)) ||
	    pwrite(block->fd, &trailer, sizeof(trailer), (off_t)block->bytes) != sizeof(trailer))
		return CUDA_ERROR_OPERATING_SYSTEM;
	return CUDA_SUCCESS;
}

CUresult sim_block_export(struct sim_block *block, int *ret_fd)
{
	struct flock lock = {.l_type = F_RDLCK, .l_whence = SEEK_SET, .l_start = SIM_EXPORT_LOCK,
			     .l_len = 1};
	CUresult r = sim_block_share(block);
	int fd;

	if (r)
		return r;
	fd = block_reopen(block->fd);
	if (fd < 0)
		return CUDA_ERROR_OPERATING_SYSTEM;
	if (fcntl(fd, F_OFD_SETLK, &lock)) {
		close(fd);
		return CUDA_ERROR_OPERATING_SYSTEM;
	}
	block->exported = true;
	sim_object_exported(sim.region, sim.row, block->key, block->fd);
	*ret_fd = fd;
	return CUDA_SUCCESS;
}

CUresult sim_block_fd_key(int fd, uint64_t ret_key[2])
{
	struct trailer trailer;
	struct stat st;

	if (fstat(fd, &st) || st.st_size < TRAILER_BYTES ||
	    pread(fd, &trailer, sizeof(trailer), st.st_size - TRAILER_BYTES) != sizeof(trailer) ||
	    trailer.magic != TRAILER_MAGIC ||
	    trailer.bytes != (uint64_t)st.st_size - TRAILER_BYTES)
		return CUDA_ERROR_INVALID_HANDLE;
	memcpy(ret_key, trailer.key, sizeof(trailer.key));
	return CUDA_SUCCESS;
}


CUresult sim_range_import(int pid, int fd, const uint64_t key[2], uint64_t offset, uint64_t bytes,
			  enum sim_range_kind kind, struct sim_context *ctx,
			  struct sim_range **ret_range)
{
	struct sim_block *block;
	struct sim_range *range;
	bool hidden = kind == SIM_RANGE_POOL_PTR;
	uint64_t found[2];
	void *address;
	char path[64];
	CUresult r;
	int peer;

	/* The exporter keeps a descriptor of what it shares. */
	snprintf(path, sizeof(path), "/proc/%d/fd/%d", pid, fd);
	peer = open(path, O_RDWR | O_CLOEXEC);
	if (peer < 0)
		return CUDA_ERROR_INVALID_HANDLE;
	r = sim_block_fd_key(peer, found);
	if (!r && (found[0] != key[0] || found[1] != key[1]))
		r = CUDA_ERROR_INVALID_HANDLE;
	if (!r)
		r = sim_block_import(peer, key, hidden, &block);
	close(peer);
	if (r)
		return r;
	if (bytes > block->bytes || offset > block->bytes - bytes)
		r = CUDA_ERROR_INVALID_VALUE;
	else
		r = sim_block_map(block, 0, block->bytes, NULL, SIM_GRANULE, PROT_READ | PROT_WRITE,
				  &address);
	if (r) {
		sim_block_unref_as(block, hidden);
		return r;
	}
	range = sim_range_add_block(block, address, offset, bytes, kind, ctx);
	if (!range) {
		sim_address_unmap(address, block->bytes, false);
		sim_block_unref_as(block, hidden);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	range->hidden = hidden;
	*ret_range = range;
	return CUDA_SUCCESS;
}

void sim_range_end(struct sim_range *range)
{
	struct sim_block *block = range->block;
	bool hidden = range->hidden;

	if (range->map_bytes)
		sim_address_unmap((void *)range->map_base, range->map_bytes, false);
	sim_range_remove(range);
	sim_block_unref_as(block, hidden);
}
