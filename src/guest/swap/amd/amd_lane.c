/* SPDX-License-Identifier: Apache-2.0 */
#include "guest/swap/amd/amd_lane.h"

#include <stdatomic.h>
#include <sys/ioctl.h>
#include <sys/mman.h>

#include "amd/abi/kfd.h"
#include "amd/kfd_ioctl.h"
#include "base/now.h"
#include "base/pages.h"
#include "guest/amd/ask.h"

#define GFX9	     90000
#define PAGE_BYTES   4096
#define RING_BYTES   16384
#define PACKET_BYTES (UINT64_C(2) << 20) /* of one copy: fits the field of all generations */
#define BATCH_BYTES  (UINT64_C(64) << 20) /* between two fences: its packets fit the ring */
#define PRIORITY     7

/* Where the page has what. */
#define AT_READ	 0
#define AT_WRITE 8
#define AT_FENCE 64

/* A process's doorbells on a GPU. */
#define DOORBELLS_BYTES 8192

/* A batch takes some milliseconds. A queue that the GPU has stopped does not say so here. */
#define PATIENCE_NS (20 * NS_PER_S)
#define NAP_FIRST_NS 20000
#define NAP_MOST_NS  1000000

enum { OP_COPY = 1, OP_FENCE = 5 };

uint64_t amd_lane_register(int kfd, const struct amd_lane *lane, char *at, uint64_t bytes)
{
	struct kfd_ioctl_alloc_memory_of_gpu_args alloc = {
		.va_addr = (uintptr_t)at,
		.size = bytes,
		.mmap_offset = (uintptr_t)at,
		.gpu_id = lane->gpu_id,
		.flags = KFD_IOC_ALLOC_MEM_FLAGS_USERPTR | KFD_IOC_ALLOC_MEM_FLAGS_WRITABLE |
			 KFD_IOC_ALLOC_MEM_FLAGS_COHERENT | KFD_IOC_ALLOC_MEM_FLAGS_NO_SUBSTITUTE};
	struct kfd_ioctl_map_memory_to_gpu_args map = {.device_ids_array_ptr =
							       (uintptr_t)&lane->gpu_id,
						       .n_devices = 1};
	struct kfd_ioctl_free_memory_of_gpu_args back;

	if (amd_ask(kfd, _IOWR('K', KFD_NR_ALLOC_MEMORY_OF_GPU, alloc), &alloc) < 0)
		return 0;
	back.handle = map.handle = alloc.handle;
	if (amd_ask(kfd, _IOWR('K', KFD_NR_MAP_MEMORY_TO_GPU, map), &map) >= 0)
		return alloc.handle;
	amd_ask(kfd, _IOW('K', KFD_NR_FREE_MEMORY_OF_GPU, back), &back);
	return 0;
}

void amd_lane_unregister(int kfd, const struct amd_lane *lane, uint64_t handle)
{
	struct kfd_ioctl_unmap_memory_from_gpu_args unmap = {
		.handle = handle,
		.device_ids_array_ptr = (uintptr_t)&lane->gpu_id,
		.n_devices = 1};
	struct kfd_ioctl_free_memory_of_gpu_args back = {handle};

	if (!handle)
		return;
	amd_ask(kfd, _IOWR('K', KFD_NR_UNMAP_MEMORY_FROM_GPU, unmap), &unmap);
	amd_ask(kfd, _IOW('K', KFD_NR_FREE_MEMORY_OF_GPU, back), &back);
}

static bool amd_lane_make_queue(int kfd, struct amd_lane *lane)
{
	struct kfd_ioctl_create_queue_args args = {
		.ring_base_address = (uintptr_t)lane->memory,
		.write_pointer_address = (uintptr_t)lane->memory + RING_BYTES + AT_WRITE,
		.read_pointer_address = (uintptr_t)lane->memory + RING_BYTES + AT_READ,
		.ring_size = RING_BYTES,
		.gpu_id = lane->gpu_id,
		.queue_type = KFD_IOC_QUEUE_TYPE_SDMA,
		.queue_percentage = KFD_MAX_QUEUE_PERCENTAGE,
		.queue_priority = PRIORITY};
	struct kfd_ioctl_destroy_queue_args back;
	uint64_t in_page;

	if (amd_ask(kfd, _IOWR('K', KFD_NR_CREATE_QUEUE, args), &args) < 0)
		return false;
	in_page = args.doorbell_offset % DOORBELLS_BYTES;
	lane->doorbells = mmap(NULL, DOORBELLS_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, kfd,
			       (off_t)(args.doorbell_offset - in_page));
	if (lane->doorbells != MAP_FAILED) {
		madvise(lane->doorbells, DOORBELLS_BYTES, MADV_DONTFORK);
		lane->doorbell = (volatile uint64_t *)((char *)lane->doorbells + in_page);
		lane->queue = args.queue_id;
		return true;
	}
	lane->doorbells = NULL;
	back = (struct kfd_ioctl_destroy_queue_args){.queue_id = args.queue_id};
	amd_ask(kfd, _IOWR('K', KFD_NR_DESTROY_QUEUE, back), &back);
	return false;
}

static void amd_lane_give_memory(int kfd, struct amd_lane *lane)
{
	amd_lane_unregister(kfd, lane, lane->page);
	amd_lane_unregister(kfd, lane, lane->ring);
	if (lane->memory)
		munmap(lane->memory, RING_BYTES + PAGE_BYTES);
	*lane = (struct amd_lane){.gpu_id = 0};
}

bool amd_lane_open(int kfd, const struct amd_device *device, struct amd_lane *ret)
{
	struct amd_lane lane = {.gpu_id = device->node->gpu_id};
	void *memory;

	if (device->node->gfx_version < GFX9)
		return false;
	memory = pages_map(RING_BYTES + PAGE_BYTES);
	if (!memory)
		return false;
	madvise(memory, RING_BYTES + PAGE_BYTES, MADV_DONTFORK);
	lane.memory = memory;
	/* Apart: newer kernels want each to be a buffer of its own, of just that size. */
	lane.ring = amd_lane_register(kfd, &lane, lane.memory, RING_BYTES);
	lane.page = amd_lane_register(kfd, &lane, lane.memory + RING_BYTES, PAGE_BYTES);
	if (lane.ring && lane.page && amd_lane_make_queue(kfd, &lane)) {
		*ret = lane;
		return true;
	}
	amd_lane_give_memory(kfd, &lane);
	return false;
}

void amd_lane_close(int kfd, struct amd_lane *lane)
{
	struct kfd_ioctl_destroy_queue_args args = {.queue_id = lane->queue};

	if (!lane->gpu_id)
		return;
	amd_ask(kfd, _IOWR('K', KFD_NR_DESTROY_QUEUE, args), &args);
	munmap(lane->doorbells, DOORBELLS_BYTES);
	amd_lane_give_memory(kfd, lane);
}

/* A packet does not go over the ring's end: what is left there are words that do nothing. */
static void amd_lane_put(struct amd_lane *lane, const uint32_t *words, uint32_t n)
{
	uint32_t *ring = (uint32_t *)lane->memory;
	uint64_t at = lane->written % RING_BYTES / 4;

	while (RING_BYTES / 4 - at < n && at < RING_BYTES / 4) {
		ring[at++] = 0;
		lane->written += 4;
	}
	at = lane->written % RING_BYTES / 4;
	for (uint32_t i = 0; i < n; i++)
		ring[at + i] = words[i];
	lane->written += 4 * n;
}

static void amd_lane_put_copy(struct amd_lane *lane, uint64_t to, uint64_t from, uint64_t bytes)
{
	const uint32_t words[] = {OP_COPY,
				  (uint32_t)bytes - 1,
				  0,
				  (uint32_t)from,
				  (uint32_t)(from >> 32),
				  (uint32_t)to,
				  (uint32_t)(to >> 32)};

	amd_lane_put(lane, words, sizeof(words) / sizeof(words[0]));
}

static bool amd_lane_wait(const struct amd_lane *lane)
{
	const volatile uint32_t *fence =
		(const volatile uint32_t *)(lane->memory + RING_BYTES + AT_FENCE);
	uint64_t until = now_monotonic_ns() + PATIENCE_NS;
	long nap = NAP_FIRST_NS;

	while (*fence != lane->fences) {
		if (now_monotonic_ns() > until)
			return false;
		nap_ns(nap);
		nap = nap * 2 < NAP_MOST_NS ? nap * 2 : NAP_MOST_NS;
	}
	atomic_thread_fence(memory_order_acquire);
	return true;
}

static bool amd_lane_copy_batch(struct amd_lane *lane, uint64_t to, uint64_t from, uint64_t bytes)
{
	uint64_t fence = (uintptr_t)lane->memory + RING_BYTES + AT_FENCE;
	uint32_t words[] = {OP_FENCE, (uint32_t)fence, (uint32_t)(fence >> 32), ++lane->fences};

	for (uint64_t done = 0, n; done < bytes; done += n) {
		n = bytes - done < PACKET_BYTES ? bytes - done : PACKET_BYTES;
		amd_lane_put_copy(lane, to + done, from + done, n);
	}
	amd_lane_put(lane, words, sizeof(words) / sizeof(words[0]));
	*(volatile uint64_t *)(lane->memory + RING_BYTES + AT_WRITE) = lane->written;
	/* The packets before the doorbell: pairs with the engine's read of it. */
	atomic_thread_fence(memory_order_release);
	*lane->doorbell = lane->written;
	return amd_lane_wait(lane);
}

bool amd_lane_copy(struct amd_lane *lane, uint64_t to, uint64_t from, uint64_t bytes)
{
	bool done = true;

	for (uint64_t at = 0, n; done && at < bytes; at += n) {
		n = bytes - at < BATCH_BYTES ? bytes - at : BATCH_BYTES;
		done = amd_lane_copy_batch(lane, to + at, from + at, n);
	}
	return done;
}
