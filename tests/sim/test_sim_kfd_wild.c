/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Arguments without sense: whatever a program asks of the emulated KFD and puts into its queues, it
 * is answered, does not die of it, and has nothing more than others once it ends.
 */
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "amd/abi/drm.h"
#include "tests/sim/kfd_queue.h"

#define CALLS	    20000
#define BLOCK_WORDS 32

static uint64_t state;
static uint32_t scratch[4096];

static uint32_t draw(uint32_t below)
{
	state ^= state << 13;
	state ^= state >> 7;
	state ^= state << 17;
	return (uint32_t)(state >> 20) % below;
}

/* Half of a number that may mean something: a size, a GPU, an address, or neither. */
static uint64_t some_number(void)
{
	switch (draw(10)) {
	case 0:
		return ids[draw(GPUS)];
	case 1:
		return (uint64_t)ids[draw(GPUS)] << 32 | draw(64); /* a handle */
	case 2:
		return (uintptr_t)scratch;
	case 3:
		return UINT64_C(4096) << draw(40);
	case 4:
		return UINT64_C(1) << draw(64);
	case 5:
		return UINT64_MAX - draw(4);
	case 6:
		return (uint64_t)draw(UINT32_MAX) << 32 | draw(UINT32_MAX);
	case 7:
		return 100;
	default:
		return draw(4);
	}
}

static void fill(uint32_t *words, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++) {
		uint64_t number = some_number();

		words[i] = (uint32_t)number;
		if (i % 2 == 0 && i + 1 < n && draw(2))
			words[++i] = (uint32_t)(number >> 32);
	}
}

/* Most of what has no sense at all is refused at once: so some of it has a little. */
static void mend(unsigned int nr, uint32_t *words)
{
	struct kfd_ioctl_alloc_memory_of_gpu_args *alloc = (void *)words;
	struct kfd_ioctl_map_memory_to_gpu_args *map_args = (void *)words;

	if (nr == KFD_NR_ALLOC_MEMORY_OF_GPU) {
		alloc->gpu_id = ids[draw(GPUS)];
		alloc->flags = 1u << draw(5) | (alloc->flags & ~31u);
	}
	if (nr == KFD_NR_MAP_MEMORY_TO_GPU || nr == KFD_NR_UNMAP_MEMORY_FROM_GPU) {
		map_args->handle = (uint64_t)ids[draw(GPUS)] << 32 | draw(32);
		map_args->device_ids_array_ptr = (uintptr_t)scratch;
		map_args->n_devices = draw(5);
		map_args->n_success = draw(8) ? 0 : map_args->n_success;
		for (int i = 0; i < 4; i++)
			scratch[i] = ids[draw(GPUS)];
	}
}

static void call_something(void)
{
	static const unsigned int of_drm[] = {
		DRM_NR_VERSION,
		DRM_NR_GEM_CLOSE,
		DRM_NR_PRIME_HANDLE_TO_FD,
		DRM_NR_PRIME_FD_TO_HANDLE,
		DRM_NR_AMDGPU_INFO,
		DRM_NR_AMDGPU_GEM_CREATE,
		DRM_NR_AMDGPU_GEM_MMAP,
		DRM_NR_AMDGPU_GEM_VA,
		DRM_NR_AMDGPU_GEM_OP,
		DRM_NR_AMDGPU_GEM_LIST_HANDLES,
		DRM_NR_GEM_CHANGE_HANDLE,
	};
	uint32_t block[BLOCK_WORDS] = {0};
	unsigned int nr = draw(0x28), size = draw(sizeof(block));

	fill(block, BLOCK_WORDS);
	fill(scratch, 64);
	if (draw(4) == 0) {
		nr = of_drm[draw(sizeof(of_drm) / sizeof(of_drm[0]))];
		if (draw(2))
			ioctl(render[draw(GPUS)], _IOC(_IOC_READ | _IOC_WRITE, 'd', nr, size),
			      block);
		else
			ioctl(render[draw(GPUS)], _IOC(_IOC_READ | _IOC_WRITE, 'd', nr, 64), block);
		if (nr == DRM_NR_PRIME_HANDLE_TO_FD && block[2] > 20)
			close((int)block[2]);
		return;
	}
	if (nr == KFD_NR_WAIT_EVENTS)
		block[4] = draw(2); /* ms */
	if (draw(2))
		mend(nr, block);
	if (draw(8) == 0)
		call(_IOC(_IOC_READ | _IOC_WRITE, 'K', nr, 64), (void *)(uintptr_t)some_number());
	else
		call(_IOC(_IOC_READ | _IOC_WRITE, 'K', nr, draw(2) ? size : sizeof(block)), block);
	if (nr == KFD_NR_EXPORT_DMABUF && block[3] > 20)
		close((int)block[3]);
}

static void go_wild(int seed)
{
	char *rings, *doorbells;

	open_devices();
	acquire_devices();
	state = (uint64_t)seed * UINT64_C(0x9e3779b97f4a7c15);
	rings = host_memory(RING_BYTES);
	CHECK(dup2(open("/dev/null", O_WRONLY), 2) == 2); /* queues stop with a line each */
	for (int i = 0; i < CALLS; i++) {
		if (draw(50) == 0) {
			struct kfd_ioctl_create_queue_args a = {
				.ring_base_address = (uintptr_t)rings,
				.read_pointer_address = (uintptr_t)rings + draw(RING_BYTES),
				.ring_size = RING_BYTES,
				.gpu_id = ids[0],
				.queue_type = draw(4),
				.queue_percentage = 100};

			fill((uint32_t *)rings, RING_BYTES / 4);
			for (int j = 0; j < RING_BYTES; j += 4 << draw(6))
				rings[j] = (char)draw(20);
			if (call(KFD_IOWR(CREATE_QUEUE, a), &a) < 0)
				continue;
			doorbells = map_doorbell(a.doorbell_offset);
			*(uint64_t *)doorbells = draw(2) ? RING_BYTES : draw(2 * RING_BYTES);
			CHECK_EQ(munmap(doorbells - a.doorbell_offset % DOORBELLS_BYTES,
					DOORBELLS_BYTES),
				 0);
		}
		call_something();
	}
	_exit(0);
}

static void go_wild_1(int socket)
{
	go_wild(1);
}

static void go_wild_2(int socket)
{
	go_wild(2);
}

int main(void)
{
	uint64_t handle;
	int socket;

	open_devices();
	acquire_devices();
	end(start(go_wild_1, &socket), 0);
	end(start(go_wild_2, &socket), 0);
	for (int i = 0; i < GPUS; i++) {
		CHECK_EQ(vacant(i), 64 * MIB);
		CHECK_EQ(alloc_vram(i, 64 * MIB, &handle), 0);
		CHECK_EQ(free_memory(handle), 0);
	}
	return 0;
}
