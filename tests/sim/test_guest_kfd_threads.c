/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Threads of one process in a tenant that use memory of an emulated AMD GPU by all ways at once,
 * the same objects and addresses among them: never more than the quota, and all of it is free at
 * last.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <sys/mman.h>

#include "tests/sim/kfd_tenant.h"

#define THREADS 6
#define BOUTS	75
#define ROUNDS	20
#define RANGE	(8 * MIB)

static char *range;
static pthread_barrier_t bout; /* its begin, and its end */
/* What any of them may free: each handle is taken out by one thread. */
static _Atomic uint64_t handles[4], buffers[4];

static uint32_t draw(uint64_t *state, uint32_t below)
{
	*state = *state * UINT64_C(6364136223846793005) + 1442695040888963407;
	return (uint32_t)(*state >> 33) % below;
}

static void prefetch(uint64_t first, uint64_t size, uint32_t gpu_id)
{
	struct kfd_ioctl_svm_attribute a = {KFD_IOCTL_SVM_ATTR_PREFETCH_LOC, gpu_id};
	int r = svm_set(range + first, size, 1, &a);

	CHECK(r == 0 || (r == -ENOMEM && gpu_id));
}

/* Twice the same import, of which one handle stays, and its descriptor. */
static void share(uint64_t handle)
{
	int fd = export_memory(handle);
	struct kfd_ioctl_import_dmabuf_args in = {
		.va_addr = 1u << 31, .gpu_id = ids[0], .dmabuf_fd = (uint32_t)fd};

	CHECK_EQ(call(KFD_IOWR(IMPORT_DMABUF, in), &in), 0);
	CHECK_EQ(free_memory(handle), 0);
	CHECK_EQ(close(fd), 0);
	CHECK_EQ(free_memory(in.handle), 0);
}

static void free_buffer(uint64_t handle)
{
	if (handle)
		CHECK_EQ(close_handle(render[0], (uint32_t)handle), 0);
}

static void step(uint64_t *state)
{
	union drm_amdgpu_gem_create buffer = {
		.in = {.bo_size = draw(state, 4) * MIB + 1, .domains = AMDGPU_GEM_DOMAIN_VRAM}};
	uint64_t handle, first = draw(state, 8) * MIB / 2;
	int r;

	switch (draw(state, 5)) {
	case 0:
	case 1:
		r = alloc_vram(0, draw(state, 8) * MIB + PAGE, &handle);
		CHECK(r == 0 || r == -ENOMEM);
		if (r == 0)
			handle = atomic_exchange(&handles[draw(state, 4)], handle);
		if (r == 0 && handle)
			CHECK_EQ(free_memory(handle), 0);
		break;
	case 2:
		r = drm(render[0], _IOWR('d', DRM_NR_AMDGPU_GEM_CREATE, buffer), &buffer);
		CHECK(r == 0 || r == -ENOMEM);
		if (r == 0)
			free_buffer(atomic_exchange(&buffers[draw(state, 4)], buffer.out.handle));
		break;
	case 3:
		prefetch(first, (draw(state, 8) + 1) * MIB / 2, ids[draw(state, 2)]);
		prefetch(first, (draw(state, 8) + 1) * MIB / 2, 0);
		break;
	case 4:
		handle = atomic_exchange(&handles[draw(state, 4)], 0);
		if (handle)
			share(handle);
		break;
	}
}

static void *run(void *arg)
{
	uint64_t state = (uintptr_t)arg + 1;

	for (int i = 0; i < BOUTS; i++) {
		pthread_barrier_wait(&bout);
		for (int j = 0; j < ROUNDS; j++)
			step(&state);
		pthread_barrier_wait(&bout);
	}
	return NULL;
}

static void check_counted(void)
{
	for (int i = 0; i < 2; i++) {
		CHECK(bank_peak(machine(), (uint32_t)i) <= QUOTA);
		CHECK(charged(i) >= taken(i));
	}
}

int main(void)
{
	pthread_t threads[THREADS];

	open_devices();
	acquire_devices();
	name_devices();
	range = mmap(NULL, RANGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	CHECK(range != MAP_FAILED);
	CHECK_EQ(pthread_barrier_init(&bout, NULL, THREADS + 1), 0);
	for (uintptr_t i = 0; i < THREADS; i++)
		CHECK_EQ(pthread_create(&threads[i], NULL, run, (void *)i), 0);
	for (int i = 0; i < BOUTS; i++) {
		pthread_barrier_wait(&bout);
		pthread_barrier_wait(&bout);
		check_counted();
	}
	for (int i = 0; i < THREADS; i++)
		CHECK_EQ(pthread_join(threads[i], NULL), 0);
	for (int i = 0; i < 4; i++) {
		if (handles[i])
			CHECK_EQ(free_memory(handles[i]), 0);
		free_buffer(buffers[i]);
	}
	check_counted();
	prefetch(0, RANGE, 0);
	check_all_free(0);
	check_all_free(1);
	return 0;
}
