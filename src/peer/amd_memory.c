/* SPDX-License-Identifier: Apache-2.0 */
/* Memory of AMD's GPUs, by the ioctls of /dev/kfd. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>

#include "amd/abi/kfd.h"
#include "amd/kfd_ioctl.h"
#include "base/err.h"
#include "peer/amd.h"
#include "peer/amd_files.h"
#include "peer/complain.h"

#define KFD_IOWR(name, block) _IOWR('K', KFD_NR_##name, block)
#define KFD_IOW(name, block)  _IOW('K', KFD_NR_##name, block)

/* The first version of KFD that can export; how many addresses are tried for one that is free. */
#define MINOR_OF_EXPORT	  12
#define ADDRESS_TRIES	  4096
#define BYTES_OF_ALL_MOST (UINT64_C(1) << 46)

#define PAGE ADDRESS_PAGE_BYTES

/* Takes addresses without access, so that nothing else gets them. MAP_FAILED with errno. */
static void *amd_memory_take_range(uint64_t at, uint64_t bytes, int flags)
{
	return mmap((void *)(uintptr_t)at, bytes, PROT_NONE,
		    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | flags, -1, 0);
}

static void amd_memory_give_back(uint64_t at, uint64_t bytes)
{
	if (bytes)
		munmap((void *)(uintptr_t)at, bytes);
}

/* Takes the addresses of an object at `address`, with a guard on both sides. */
static int amd_memory_take_at(struct peer_object *object, uint64_t address, uint64_t guard_bytes)
{
	uint64_t at = address - guard_bytes, bytes = object->bytes + 2 * guard_bytes;
	void *got = amd_memory_take_range(at, bytes, MAP_FIXED_NOREPLACE);

	if (got == MAP_FAILED)
		return err_errno();
	if (got != (void *)(uintptr_t)at) { /* a kernel before 4.17 takes it for a wish */
		amd_memory_give_back((uintptr_t)got, bytes);
		return -EEXIST;
	}
	object->reserved = at;
	object->reserved_bytes = bytes;
	return 0;
}

/* Takes addresses wherever the kernel has room for the object and a guard on both sides. */
static int amd_memory_take_anywhere(struct allot_peer *peer, struct peer_object *object,
				    uint64_t alignment, uint64_t *ret_address)
{
	uint64_t room = object->bytes + 2 * ADDRESS_GUARD_BYTES + alignment, first, kept, end;
	void *got;

	if (object->bytes > BYTES_OF_ALL_MOST || alignment > BYTES_OF_ALL_MOST)
		return -ENOMEM;
	got = amd_memory_take_range(0, room, 0);
	if (got == MAP_FAILED)
		return -ENOMEM;
	first = ((uintptr_t)got + ADDRESS_GUARD_BYTES + alignment - 1) & ~(alignment - 1);
	kept = first - ADDRESS_GUARD_BYTES;
	end = first + object->bytes + ADDRESS_GUARD_BYTES;
	if (address_check(&peer->aperture, first, object->bytes, peer->page, alignment) < 0) {
		amd_memory_give_back((uintptr_t)got, room);
		return -ERANGE;
	}
	amd_memory_give_back((uintptr_t)got, kept - (uintptr_t)got);
	amd_memory_give_back(end, (uintptr_t)got + room - end);
	object->reserved = kept;
	object->reserved_bytes = end - kept;
	*ret_address = first;
	return 0;
}

/* The GPUs reach less than the kernel hands out: tries from the lowest address on. */
static int amd_memory_take_within(struct allot_peer *peer, struct peer_object *object,
				  uint64_t alignment, uint64_t *ret_address)
{
	uint64_t from = peer->aperture.first, step = alignment;

	for (int i = 0; i < ADDRESS_TRIES; i++) {
		uint64_t address;
		int r = address_pick(&peer->objects, &peer->aperture, from, object->bytes,
				     alignment, &address);

		if (r < 0)
			return r;
		r = amd_memory_take_at(object, address, ADDRESS_GUARD_BYTES);
		if (r == 0)
			*ret_address = address;
		/* EPERM: below the lowest address that a program may map */
		if (r != -EEXIST && r != -EPERM)
			return r;
		from = address + step;
		if (i % 16 == 15 && step < UINT64_C(1) << 40)
			step *= 2;
	}
	return -ENOMEM;
}

int amd_reserve(struct allot_peer *peer, struct peer_object *object, uint64_t address,
		uint64_t alignment)
{
	int r;

	if (address) {
		r = amd_memory_take_at(object, address, 0);
		if (r < 0)
			return complain(r, "%s: %" PRIu64 " bytes at %#" PRIx64 ": %s",
					peer_object_call(object), object->bytes, address,
					r == -EEXIST ? "something is there already"
						     : complain_words(r));
	} else {
		r = amd_memory_take_anywhere(peer, object, alignment, &address);
		if (r == -ERANGE)
			r = amd_memory_take_within(peer, object, alignment, &address);
		if (r < 0)
			return complain(r, "%s: no addresses are left for %" PRIu64 " bytes",
					peer_object_call(object), object->bytes);
	}
	object->range = (struct range){.first = address, .last = address + object->bytes - 1};
	return 0;
}

void amd_release(struct allot_peer *peer, struct peer_object *object)
{
	amd_memory_give_back(object->reserved, object->reserved_bytes);
}

static uint32_t amd_memory_flags_of(const struct peer_object *object)
{
	uint32_t flags = KFD_IOC_ALLOC_MEM_FLAGS_NO_SUBSTITUTE |
			 KFD_IOC_ALLOC_MEM_FLAGS_EXECUTABLE | KFD_IOC_ALLOC_MEM_FLAGS_WRITABLE;

	if (!(object->flags & ALLOT_PEER_COARSE))
		flags |= KFD_IOC_ALLOC_MEM_FLAGS_COHERENT;
	if (object->kind == ALLOT_PEER_USER)
		return flags | KFD_IOC_ALLOC_MEM_FLAGS_USERPTR;
	if (object->kind == ALLOT_PEER_SYSTEM)
		return flags | KFD_IOC_ALLOC_MEM_FLAGS_GTT;
	if (object->flags & ALLOT_PEER_HOST)
		flags |= KFD_IOC_ALLOC_MEM_FLAGS_PUBLIC;
	return flags | KFD_IOC_ALLOC_MEM_FLAGS_VRAM;
}

/*
 * Maps the object for the CPU, at the addresses where devices see it. A forked child gets no
 * mapping, since it would share it with its parent.
 */
static int amd_memory_show_host(struct peer_object *object, int fd, uint64_t offset)
{
	void *at = (void *)(uintptr_t)object->range.first;

	if (mmap(at, object->bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd,
		 (off_t)offset) == MAP_FAILED) {
		int r = err_errno();

		amd_memory_take_range(object->range.first, object->bytes,
				      MAP_FIXED_NOREPLACE); /* it may be gone */
		return r;
	}
	madvise(at, object->bytes, MADV_DONTFORK);
	object->host = at;
	return 0;
}

static int amd_memory_free_handle(struct allot_peer *peer, uint64_t handle)
{
	const struct amd_state *s = peer->state;
	struct kfd_ioctl_free_memory_of_gpu_args a = {.handle = handle};

	return amd_ioctl(s->kfd, KFD_IOW(FREE_MEMORY_OF_GPU, a), &a);
}

/* True if the CPU reaches all of a GPU's memory (large BAR): no part can be asked for. */
static bool amd_memory_is_visible(const struct topology_node *node)
{
	for (uint32_t i = 0; i < node->bank_count; i++)
		if (node->banks[i].heap == TOPOLOGY_HEAP_VRAM)
			return false;
	return true;
}

int amd_alloc(struct allot_peer *peer, struct peer_object *object)
{
	const struct amd_state *s = peer->state;
	const struct amd_gpu *gpu = &s->gpu[object->device];
	bool addressed = object->kind != ALLOT_PEER_HANDLE;
	struct kfd_ioctl_alloc_memory_of_gpu_args a = {
		.va_addr = addressed ? object->range.first : 0,
		.size = object->bytes,
		.mmap_offset = object->kind == ALLOT_PEER_USER ? object->range.first : 0,
		.gpu_id = gpu->gpu_id,
		.flags = amd_memory_flags_of(object)};
	int r;

	if (a.flags & KFD_IOC_ALLOC_MEM_FLAGS_PUBLIC && !amd_memory_is_visible(gpu->node))
		return complain(-ENOTSUP,
				"alloc: the CPU does not reach all memory of %s (no large BAR): leave "
				"ALLOT_PEER_HOST out, or take ALLOT_PEER_SYSTEM",
				peer_name(peer, object->device).text);
	r = amd_ioctl(s->kfd, KFD_IOWR(ALLOC_MEMORY_OF_GPU, a), &a);
	if (r < 0)
		return complain(r, "alloc: %" PRIu64 " bytes of %s: %s", object->bytes,
				peer_name(peer, object->device).text, complain_words(r));
	object->handle = a.handle;
	if (object->kind == ALLOT_PEER_USER)
		object->host = (char *)(uintptr_t)object->range.first;
	else if (addressed && object->flags & ALLOT_PEER_HOST)
		r = amd_memory_show_host(object, gpu->render, a.mmap_offset);
	if (r < 0) {
		amd_memory_free_handle(peer, a.handle);
		return complain(r, "alloc: %s does not show the CPU its memory: %s",
				peer_name(peer, object->device).text, complain_words(r));
	}
	return 0;
}

int amd_free(struct allot_peer *peer, struct peer_object *object)
{
	int r = amd_memory_free_handle(peer, object->handle);

	return r < 0 ? complain(r, "free: the object at %#" PRIx64 ": %s", object->range.first,
				complain_words(r))
		     : 0;
}

int amd_map(struct allot_peer *peer, struct peer_object *object, const struct mapping_call *call,
	    uint32_t *ret_done)
{
	const struct amd_state *s = peer->state;
	uint32_t ids[ALLOT_PEER_DEVICES];
	struct kfd_ioctl_map_memory_to_gpu_args a = {.handle = object->handle,
						     .device_ids_array_ptr = (uintptr_t)ids,
						     .n_devices = call->n,
						     .n_success = call->done};
	/* Both have the same block, under two names. */
	unsigned long request =
		call->unmap ? KFD_IOWR(UNMAP_MEMORY_FROM_GPU, a) : KFD_IOWR(MAP_MEMORY_TO_GPU, a);
	int r;

	for (uint32_t i = 0; i < call->n; i++)
		ids[i] = s->gpu[call->devices[i]].gpu_id;
	amd_wait_us(call->wait_us);
	r = amd_ioctl_once(s->kfd, request, &a);
	*ret_done = a.n_success;
	return r < 0 ? complain(r, "%s", complain_words(r)) : 0;
}

int amd_export(struct allot_peer *peer, struct peer_object *object, int *ret_fd)
{
	const struct amd_state *s = peer->state;
	struct kfd_ioctl_export_dmabuf_args a = {.handle = object->handle, .flags = O_CLOEXEC};
	int r = -ENOTSUP;

	if (s->minor < MINOR_OF_EXPORT)
		return complain(r, "export: the KFD interface is 1.%u; it takes 1.%d", s->minor,
				MINOR_OF_EXPORT);
	r = amd_ioctl(s->kfd, KFD_IOWR(EXPORT_DMABUF, a), &a);
	if (r < 0)
		return complain(r, "export: the object at %#" PRIx64 ": %s", object->range.first,
				complain_words(r));
	*ret_fd = (int)a.dmabuf_fd;
	return 0;
}

int amd_inspect(struct allot_peer *peer, int fd, const struct allot_peer_request *as,
		struct peer_object *object)
{
	const struct amd_state *s = peer->state;
	struct kfd_ioctl_get_dmabuf_info_args a = {.dmabuf_fd = (uint32_t)fd};
	int r = amd_ioctl(s->kfd, KFD_IOWR(GET_DMABUF_INFO, a), &a);
	uint32_t device = 0;

	if (r < 0)
		return complain(r, "import: descriptor %d: %s", fd, complain_words(r));
	while (device < peer->n && s->gpu[device].gpu_id != a.gpu_id)
		device++;
	if (device == peer->n)
		return complain(-EINVAL,
				"import: descriptor %d is memory of a GPU that this "
				"process does not have",
				fd);
	object->device = device;
	object->bytes = a.size;
	object->kind =
		a.flags & KFD_IOC_ALLOC_MEM_FLAGS_VRAM ? ALLOT_PEER_MEMORY : ALLOT_PEER_SYSTEM;
	/* Other memory of a GPU can be mapped by the CPU, but a read of it kills the process. */
	if (object->kind == ALLOT_PEER_SYSTEM || a.flags & KFD_IOC_ALLOC_MEM_FLAGS_PUBLIC)
		object->flags = ALLOT_PEER_HOST;
	return 0;
}

int amd_import(struct allot_peer *peer, int fd, struct peer_object *object)
{
	const struct amd_state *s = peer->state;
	struct kfd_ioctl_import_dmabuf_args a = {.va_addr = object->range.first,
						 .gpu_id = s->gpu[object->device].gpu_id,
						 .dmabuf_fd = (uint32_t)fd};
	int r = amd_ioctl(s->kfd, KFD_IOWR(IMPORT_DMABUF, a), &a);

	if (r < 0)
		return complain(r, "import: descriptor %d as memory of %s: %s", fd,
				peer_name(peer, object->device).text, complain_words(r));
	object->handle = a.handle;
	/* Devices see it even where the CPU cannot. */
	if (object->flags & ALLOT_PEER_HOST && amd_memory_show_host(object, fd, 0) < 0)
		object->flags &= ~(uint32_t)ALLOT_PEER_HOST;
	return 0;
}

int amd_read(struct allot_peer *peer, struct peer_object *object, uint64_t offset, void *to,
	     size_t bytes)
{
	memcpy(to, object->host + offset, bytes);
	return 0;
}

int amd_write(struct allot_peer *peer, struct peer_object *object, uint64_t offset,
	      const void *from, size_t bytes)
{
	const struct amd_state *s = peer->state;
	volatile uint32_t *flush = s->gpu[object->device].flush;

	memcpy(object->host + offset, from, bytes);
	/* The write may still be in a buffer that the GPU does not read from. */
	atomic_thread_fence(memory_order_seq_cst);
	if (flush && object->kind == ALLOT_PEER_MEMORY)
		*flush = 1;
	return 0;
}

/*
 * Maps the registers by which amd_write flushes to all GPUs, as ROCm does. Where there are none, as
 * in a virtual machine, or something fails, writes go without: nothing else depends on them.
 */
void amd_registers_open(struct allot_peer *peer, uint32_t device)
{
	const struct amd_state *s = peer->state;
	struct amd_gpu *gpu = &((struct amd_state *)peer->state)->gpu[device];
	struct peer_object *o = &gpu->registers;
	struct kfd_ioctl_alloc_memory_of_gpu_args a = {
		.size = PAGE,
		.gpu_id = gpu->gpu_id,
		.flags = KFD_IOC_ALLOC_MEM_FLAGS_MMIO_REMAP | KFD_IOC_ALLOC_MEM_FLAGS_WRITABLE |
			 KFD_IOC_ALLOC_MEM_FLAGS_COHERENT | KFD_IOC_ALLOC_MEM_FLAGS_NO_SUBSTITUTE};

	*o = (struct peer_object){.kind = ALLOT_PEER_SYSTEM, .device = device, .bytes = PAGE};
	if (amd_reserve(peer, o, 0, PAGE) < 0)
		return;
	a.va_addr = o->range.first;
	if (amd_ioctl(s->kfd, KFD_IOWR(ALLOC_MEMORY_OF_GPU, a), &a) < 0) {
		amd_release(peer, o);
		return;
	}
	o->handle = a.handle;
	if (amd_memory_show_host(o, s->kfd, a.mmap_offset) == 0 &&
	    peer_remap(peer, o, false, peer_all(peer), NULL) == 0)
		gpu->flush = (volatile uint32_t *)(void *)o->host;
	else
		amd_registers_close(peer, device);
}

void amd_registers_close(struct allot_peer *peer, uint32_t device)
{
	struct amd_gpu *gpu = &((struct amd_state *)peer->state)->gpu[device];
	struct peer_object *o = &gpu->registers;

	gpu->flush = NULL;
	if (o->handle && peer_remap(peer, o, true, o->devices, NULL) == 0 &&
	    amd_memory_free_handle(peer, o->handle) == 0)
		amd_release(peer, o);
	o->handle = 0;
}
