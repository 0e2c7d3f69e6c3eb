/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory of the machine that emulated AMD GPUs have pinned for a tenant with --gtt: what is refused, what
 * is charged, and that all of it comes back, whoever ends how.
 */
#include <sys/mman.h>

#include "tests/sim/kfd_tenant.h"

#define GTT	KFD_IOC_ALLOC_MEM_FLAGS_GTT
#define USERPTR KFD_IOC_ALLOC_MEM_FLAGS_USERPTR
#define LIMIT	(512 * MIB)
#define SIZE	(16 * MIB)

#define DRM_IOWR(name, type) _IOWR('d', DRM_NR_##name, type)
static const char *program;

#define BOTH (AMDGPU_GEM_DOMAIN_VRAM | AMDGPU_GEM_DOMAIN_GTT)

static int alloc_gtt(int gpu, uint64_t size, uint64_t *ret_handle)
{
	return alloc_flags(gpu, size, GTT, ret_handle, NULL);
}

static int pin(uint64_t size, uint64_t *ret_handle)
{
	static char *pages;

	if (!pages)
		pages = mmap(NULL, LIMIT, PROT_READ | PROT_WRITE,
			     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	CHECK(pages != MAP_FAILED);
	return alloc_at(0, 1u << 30, size, USERPTR, ret_handle, &(uint64_t){(uintptr_t)pages});
}

static int create(int file, uint64_t size, uint64_t domains, uint32_t *ret_handle)
{
	union drm_amdgpu_gem_create a = {.in = {.bo_size = size, .domains = domains}};
	int r = drm(file, DRM_IOWR(AMDGPU_GEM_CREATE, a), &a);

	*ret_handle = a.out.handle;
	return r;
}

static int place(uint32_t handle, uint64_t domains)
{
	struct drm_amdgpu_gem_op a = {
		.handle = handle, .op = AMDGPU_GEM_OP_SET_PLACEMENT, .value = domains};

	return drm(render[0], DRM_IOWR(AMDGPU_GEM_OP, a), &a);
}

/* All of it can be had, and no more; none of it is a GPU's. */
static void check_all_there(void)
{
	uint64_t handle, more;

	CHECK_EQ(host_view().used_bytes, 0);
	CHECK_EQ(device_view(0).host_bytes + device_view(1).host_bytes, 0);
	CHECK_EQ(alloc_gtt(0, LIMIT, &handle), 0);
	CHECK_EQ(alloc_gtt(0, PAGE, &more), -ENOMEM);
	CHECK_EQ(free_memory(handle), 0);
	check_all_free(0);
}

/* It is one limit for all GPUs and all ways. */
static void test_limit(void)
{
	uint64_t handle, more, refusals = host_view().refusals;
	uint32_t buffer;

	CHECK_EQ(alloc_gtt(0, 12800 * MIB, &handle), -ENOMEM);
	CHECK_EQ(alloc_gtt(0, LIMIT, &handle), 0);
	CHECK_EQ(charged(0), 0);
	CHECK_EQ(host_view().gtt_bytes, LIMIT);
	CHECK_EQ(host_view().limit_bytes, LIMIT);
	CHECK_EQ(device_view(0).host_bytes, LIMIT);
	CHECK_EQ(alloc_gtt(1, PAGE, &more), -ENOMEM);
	CHECK_EQ(pin(PAGE, &more), -ENOMEM);
	CHECK_EQ(create(render[1], PAGE, AMDGPU_GEM_DOMAIN_GTT, &buffer), -ENOMEM);
	CHECK_EQ(create(render[0], PAGE, BOTH, &buffer), -ENOMEM);
	CHECK_EQ(host_view().refusals, refusals + 5);
	CHECK_EQ(host_view().used_bytes, LIMIT);
	CHECK_EQ(alloc_vram(0, QUOTA, &more), 0);
	CHECK_EQ(free_memory(more), 0);
	CHECK_EQ(free_memory(handle), 0);
	CHECK_EQ(free_memory(handle), -EINVAL);
	check_all_there();
}

/* 12.5 GiB, a piece at a time. */
static void test_pieces(void)
{
	uint64_t handles[200];
	int n = 0;

	for (int i = 0; i < 200; i++)
		n += alloc_gtt(i % 2, 64 * MIB, &handles[n]) == 0;
	CHECK_EQ(n, 8);
	CHECK_EQ(host_view().peak_bytes, LIMIT);
	while (n)
		CHECK_EQ(free_memory(handles[--n]), 0);
	check_all_there();
}

/* Pages of the program's own are counted apart. */
static void test_userptr(void)
{
	uint64_t own, handle, more;

	CHECK_EQ(pin(SIZE, &own), 0);
	CHECK_EQ(host_view().userptr_bytes, SIZE);
	CHECK_EQ(host_view().gtt_bytes, 0);
	CHECK_EQ(alloc_gtt(0, LIMIT - SIZE, &handle), 0);
	CHECK_EQ(alloc_gtt(0, PAGE, &more), -ENOMEM);
	CHECK_EQ(host_view().used_bytes, LIMIT);
	CHECK_EQ(free_memory(own), 0);
	CHECK_EQ(host_view().userptr_bytes, 0);
	CHECK_EQ(free_memory(handle), 0);
	CHECK_EQ(alloc_at(0, 1u << 30, UINT64_C(1) << 61, USERPTR, &own, &(uint64_t){PAGE}), -ENOMEM);
	check_all_there();
}

static uint32_t lent_buffer;

/* Lets its parent's buffer into the GPU's memory: charged to it, while it is there. */
static void place_parents(int socket)
{
	uint32_t fill;

	CHECK_EQ(create(render[0], QUOTA, AMDGPU_GEM_DOMAIN_VRAM, &fill), 0);
	CHECK_EQ(place(lent_buffer, AMDGPU_GEM_DOMAIN_VRAM), -ENOMEM);
	CHECK_EQ(close_handle(render[0], fill), 0);
	CHECK_EQ(place(lent_buffer, AMDGPU_GEM_DOMAIN_VRAM), 0);
	CHECK_EQ(charged(0), SIZE);
	CHECK_EQ(place(lent_buffer, AMDGPU_GEM_DOMAIN_VRAM), 0);
	CHECK_EQ(charged(0), SIZE);
	hear(socket);
}

/* A buffer of the machine's memory goes into the GPU's by a handle that did not make it. */
static void test_placed_by_others(void)
{
	int socket, file = open("/dev/dri/renderD129", O_RDWR | O_CLOEXEC);
	struct drm_prime_handle prime = {.flags = O_CLOEXEC};
	struct drm_gem_close gone;
	struct drm_amdgpu_gem_op op = {.op = AMDGPU_GEM_OP_SET_PLACEMENT,
				       .value = AMDGPU_GEM_DOMAIN_VRAM};
	pid_t child;

	CHECK(file >= 0);
	CHECK_EQ(create(render[0], SIZE, AMDGPU_GEM_DOMAIN_GTT, &lent_buffer), 0);
	child = start(place_parents, &socket);
	say(socket);
	end(child, 0);
	close(socket);
	CHECK_EQ(charged(0), 0);
	CHECK_EQ(close_handle(render[0], lent_buffer), 0);

	CHECK_EQ(create(render[0], SIZE, AMDGPU_GEM_DOMAIN_GTT, &prime.handle), 0);
	gone.handle = prime.handle;
	CHECK_EQ(drm(render[0], DRM_IOWR(PRIME_HANDLE_TO_FD, prime), &prime), 0);
	CHECK_EQ(drm(file, DRM_IOWR(PRIME_FD_TO_HANDLE, prime), &prime), 0);
	close(prime.fd);
	CHECK_EQ(charged(0), 0);
	op.handle = prime.handle;
	CHECK_EQ(drm(file, DRM_IOWR(AMDGPU_GEM_OP, op), &op), 0);
	CHECK_EQ(charged(0), SIZE);
	CHECK_EQ(close_handle(render[0], gone.handle), 0);
	CHECK_EQ(close_handle(file, prime.handle), 0);
	close(file);
	check_all_there();
}

/* A buffer that may be in either is charged in both. */
static void test_both(void)
{
	int file = open("/dev/dri/renderD129", O_RDWR | O_CLOEXEC);
	uint32_t buffer, more;
	uint64_t memory;

	CHECK(file >= 0);
	CHECK_EQ(create(file, SIZE, BOTH, &buffer), 0);
	CHECK_EQ(charged(0), SIZE);
	CHECK_EQ(host_view().gtt_bytes, SIZE);
	CHECK_EQ(create(file, QUOTA, BOTH, &more), -ENOMEM);
	CHECK_EQ(host_view().used_bytes, SIZE);
	CHECK_EQ(close_handle(file, buffer), 0);
	CHECK_EQ(charged(0), 0);
	CHECK_EQ(create(file, SIZE, BOTH, &buffer), 0);
	close(file);
	CHECK_EQ(alloc_vram(0, QUOTA, &memory), 0); /* after a sweep */
	CHECK_EQ(free_memory(memory), 0);
	check_all_there();
}

/* Wherever it was told to go it may be. */
static void test_placement(void)
{
	uint32_t buffer, other;
	uint64_t rest, more;

	CHECK_EQ(create(render[0], SIZE, AMDGPU_GEM_DOMAIN_VRAM, &buffer), 0);
	CHECK_EQ(host_view().used_bytes, 0);
	CHECK_EQ(place(buffer, AMDGPU_GEM_DOMAIN_GTT), 0);
	CHECK_EQ(place(buffer, AMDGPU_GEM_DOMAIN_GTT), 0);
	CHECK_EQ(host_view().gtt_bytes, SIZE);
	CHECK_EQ(place(buffer, AMDGPU_GEM_DOMAIN_VRAM), 0);
	CHECK_EQ(host_view().gtt_bytes, SIZE);
	CHECK_EQ(charged(0), SIZE);
	CHECK_EQ(alloc_gtt(0, LIMIT - SIZE, &rest), 0);
	CHECK_EQ(create(render[0], SIZE, AMDGPU_GEM_DOMAIN_VRAM, &other), 0);
	CHECK_EQ(place(other, AMDGPU_GEM_DOMAIN_GTT), -ENOMEM);
	CHECK_EQ(alloc_gtt(0, PAGE, &more), -ENOMEM);
	CHECK_EQ(close_handle(render[0], other), 0);
	CHECK_EQ(free_memory(rest), 0);
	CHECK_EQ(close_handle(render[0], buffer), 0);
	check_all_there();
}

/* Descriptors of one file are one. */
static void test_files(void)
{
	int file = open("/dev/dri/renderD129", O_RDWR | O_CLOEXEC), copy = dup(file);
	uint32_t buffer;
	uint64_t handle;

	CHECK_EQ(create(file, LIMIT, AMDGPU_GEM_DOMAIN_GTT, &buffer), 0);
	close(file);
	CHECK_EQ(alloc_gtt(0, PAGE, &handle), -ENOMEM); /* it is open elsewhere */
	CHECK_EQ(close_handle(copy, buffer), 0);
	CHECK_EQ(create(copy, LIMIT, AMDGPU_GEM_DOMAIN_GTT, &buffer), 0);
	close(copy);
	CHECK_EQ(alloc_gtt(0, LIMIT, &handle), 0);
	CHECK_EQ(free_memory(handle), 0);
	check_all_there();
}

/* A child has none of its parent's, and takes its own with it. */
static void test_fork(void)
{
	uint64_t handle, mine;
	int status;
	pid_t child;

	CHECK_EQ(alloc_gtt(0, SIZE, &handle), 0);
	child = fork();
	if (!child) {
		open_devices();
		acquire_devices();
		CHECK_EQ(alloc_gtt(0, LIMIT - SIZE, &mine), 0);
		CHECK_EQ(host_view().gtt_bytes, LIMIT);
		_exit(alloc_gtt(0, PAGE, &mine) != -ENOMEM);
	}
	CHECK_EQ(waitpid(child, &status, 0), child);
	CHECK_EQ(status, 0);
	CHECK_EQ(host_view().gtt_bytes, SIZE);
	CHECK_EQ(free_memory(handle), 0);
	check_all_there();
}

static void own(int socket)
{
	uint64_t handle;

	open_devices();
	acquire_devices();
	CHECK_EQ(alloc_gtt(0, SIZE, &handle), 0);
	lend_memory(socket, handle);
}

/* Imports what it is given, as memory and as a buffer. */
static void hold(int socket)
{
	struct kfd_ioctl_import_dmabuf_args import = {.va_addr = 1u << 31, .gpu_id = ids[0]};
	struct drm_prime_handle prime = {.handle = 0};

	open_devices();
	acquire_devices();
	prime.fd = receive_fd(socket);
	import.gpu_id = ids[0];
	import.dmabuf_fd = (uint32_t)prime.fd;
	CHECK_EQ(call(KFD_IOWR(IMPORT_DMABUF, import), &import), 0);
	CHECK_EQ(drm(render[0], DRM_IOWR(PRIME_FD_TO_HANDLE, prime), &prime), 0);
	close(prime.fd);
	tell(socket);
	CHECK_EQ(free_memory(import.handle), 0);
	tell(socket);
	CHECK_EQ(close_handle(render[0], prime.handle), 0);
	tell(socket);
}

/* Charged once, whoever has it, until nobody has: the owner frees it first, or is killed first. */
static void test_shared(bool killed)
{
	int owner, holder, fd;
	pid_t owner_pid = start(own, &owner), holder_pid = start(hold, &holder);

	fd = receive_fd(owner);
	CHECK_EQ(host_view().gtt_bytes, SIZE);
	CHECK_EQ(message_send(holder, "", 1, fd), 1);
	close(fd);
	hear(holder);
	CHECK_EQ(host_view().used_bytes, SIZE);
	if (killed)
		end(owner_pid, SIGKILL);
	else
		tell(owner);
	CHECK_EQ(host_view().used_bytes, SIZE);
	tell(holder);
	CHECK_EQ(host_view().used_bytes, SIZE);
	tell(holder);
	CHECK_EQ(host_view().used_bytes, 0);
	say(holder);
	end(holder_pid, 0);
	close(holder);
	if (!killed) {
		say(owner);
		end(owner_pid, 0);
	}
	close(owner);
	check_all_there();
}

static void take_and_wait(int socket)
{
	uint64_t handle;

	open_devices();
	acquire_devices();
	CHECK_EQ(alloc_gtt(1, LIMIT, &handle), 0);
	tell(socket);
}

static void test_killed(void)
{
	int socket;
	pid_t child = start(take_and_wait, &socket);
	uint64_t handle;

	hear(socket);
	CHECK_EQ(alloc_gtt(0, PAGE, &handle), -ENOMEM);
	end(child, SIGKILL);
	close(socket);
	check_all_there();
}

/* Another process, outside of the tenant, that leaves 32 MiB of the first GPU. */
static int outside(int socket)
{
	uint64_t handle;

	open_devices();
	acquire_devices();
	CHECK_EQ(alloc_vram(0, 224 * MIB, &handle), 0);
	tell(socket);
	return 0;
}

static pid_t start_outside(int *ret_socket)
{
	int pair[2];
	char number[16];
	pid_t child;

	CHECK_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
	snprintf(number, sizeof(number), "%d", pair[1]);
	child = fork();
	CHECK(child >= 0);
	if (!child) {
		close(pair[0]);
		leave_tenant();
		run_past_library(program, number);
		_exit(1);
	}
	close(pair[1]);
	*ret_socket = pair[0];
	return child;
}

/* A buffer for which a full GPU has no room is refused by the kernel, or may be in the machine's memory. */
static void test_fall_back(void)
{
	uint64_t rest, more, handle;
	uint32_t buffer, other;
	int socket, r;
	pid_t pid = start_outside(&socket);

	hear(socket);
	r = create(render[0], 48 * MIB, AMDGPU_GEM_DOMAIN_VRAM, &buffer);
	CHECK(r == 0 || r == -ENOMEM);
	CHECK_EQ(host_view().used_bytes, r ? 0 : 48 * MIB);
	CHECK_EQ(charged(0), r ? 0 : 48 * MIB);
	if (r == 0) {
		CHECK_EQ(close_handle(render[0], buffer), 0);
		CHECK_EQ(alloc_gtt(0, LIMIT - 32 * MIB, &rest), 0);
		CHECK_EQ(create(render[0], 48 * MIB, AMDGPU_GEM_DOMAIN_VRAM, &other), -ENOMEM);
		CHECK_EQ(host_view().used_bytes, LIMIT - 32 * MIB);
		CHECK_EQ(alloc_gtt(0, 32 * MIB + PAGE, &more), -ENOMEM);
		CHECK_EQ(free_memory(rest), 0);
	}
	CHECK_EQ(alloc_gtt(0, LIMIT, &handle), 0);
	CHECK_EQ(free_memory(handle), 0);
	say(socket);
	end(pid, 0);
	close(socket);
	check_all_there();
}

int main(int argc, char **argv)
{
	program = argv[0];
	if (argc > 1)
		return outside(atoi(argv[1]));
	open_devices();
	acquire_devices();
	name_devices();
	test_limit();
	test_pieces();
	test_userptr();
	test_placed_by_others();
	test_both();
	test_placement();
	test_files();
	test_fork();
	test_shared(false);
	test_shared(true);
	test_killed();
	test_fall_back();
	return 0;
}
