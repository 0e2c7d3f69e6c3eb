/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory of emulated AMD GPUs in a tenant with a quota: what is refused, what is charged, and that
 * all of it comes back.
 */
#include "tests/sim/kfd_tenant.h"

#define GTT	KFD_IOC_ALLOC_MEM_FLAGS_GTT
#define USERPTR KFD_IOC_ALLOC_MEM_FLAGS_USERPTR
#define AQL	KFD_IOC_ALLOC_MEM_FLAGS_AQL_QUEUE_MEM

#define DRM_IOWR(name, type) _IOWR('d', DRM_NR_##name, type)

static void test_limit(void)
{
	uint64_t all, more;

	CHECK_EQ(alloc_vram(0, QUOTA + PAGE, &more), -ENOMEM);
	CHECK_EQ(alloc_vram(0, QUOTA, &all), 0);
	CHECK_EQ(charged(0), QUOTA);
	CHECK_EQ(alloc_vram(0, PAGE, &more), -ENOMEM);
	CHECK_EQ(alloc_vram(0, 1, &more), -ENOMEM);
	CHECK_EQ(alloc_vram(0, UINT64_MAX, &more), -ENOMEM);
	CHECK_EQ(alloc_vram(1, PAGE, &more), 0); /* another GPU's */
	CHECK_EQ(free_memory(more), 0);
	CHECK_EQ(free_memory(all), 0);
	CHECK_EQ(free_memory(all), -EINVAL);
	CHECK(device_view(0).refusals >= 3);
	check_all_free(0);
}

/* What is charged is what is taken, whatever the size says. */
static void test_sizes(void)
{
	uint64_t handle, offset = (uintptr_t)aligned_alloc(PAGE, PAGE);

	CHECK_EQ(alloc_vram(0, 5000, &handle), 0);
	CHECK_EQ(charged(0), 2 * PAGE);
	CHECK_EQ(free_memory(handle), 0);
	CHECK_EQ(alloc_flags(0, 2 * QUOTA, VRAM | AQL, &handle, NULL), 0);
	CHECK_EQ(charged(0), QUOTA);
	CHECK_EQ(free_memory(handle), 0);
	CHECK_EQ(alloc_flags(0, 2 * QUOTA, GTT, &handle, NULL), 0);
	CHECK_EQ(charged(0), 0);
	CHECK_EQ(device_view(0).host_bytes, 2 * QUOTA);
	CHECK_EQ(free_memory(handle), 0);
	CHECK_EQ(device_view(0).host_bytes, 0);
	CHECK_EQ(alloc_at(0, 1u << 30, PAGE, USERPTR, &handle, &offset), 0);
	CHECK_EQ(charged(0) + device_view(0).host_bytes, 0);
	CHECK_EQ(free_memory(handle), 0);
}

/* What the kernel refuses is not charged, and stays what it was. */
static void test_kernel_refuses(void)
{
	uint32_t done = 0, wrong[2] = {ids[0], 4711};
	uint64_t handle;

	CHECK_EQ(alloc_vram(0, 0, &handle), -EINVAL);
	CHECK_EQ(alloc_flags(0, PAGE, 0, &handle, NULL), -EINVAL);
	CHECK_EQ(charged(0), 0);
	CHECK_EQ(alloc_vram(0, MIB, &handle), 0);
	CHECK_EQ(map(handle, wrong, 2, &done), -EINVAL);
	CHECK_EQ(done, 1);
	CHECK_EQ(free_memory(handle), -EBUSY);
	CHECK_EQ(charged(0), MIB);
	CHECK_EQ(unmap(handle, wrong, 1), 0);
	CHECK_EQ(map(handle, wrong, 0, &done), -EINVAL);
	done = 2;
	CHECK_EQ(map(handle, wrong, 1, &done), -EINVAL);
	done = 0;
	CHECK_EQ(map(handle, NULL, 1, &done), -EFAULT);
	CHECK_EQ(map(handle, wrong, UINT32_MAX, &done), -ENOMEM);
	CHECK_EQ(map(handle, wrong, 1u << 20, &done), -EFAULT);
	CHECK_EQ(free_memory(handle), 0);
	check_all_free(0);
}

static int create(int file, uint64_t size, uint64_t domains, uint32_t *ret_handle)
{
	union drm_amdgpu_gem_create a = {.in = {.bo_size = size, .domains = domains}};
	int r = drm(file, DRM_IOWR(AMDGPU_GEM_CREATE, a), &a);

	*ret_handle = a.out.handle;
	return r;
}

static int open_again(int gpu)
{
	char path[32];
	int fd;

	snprintf(path, sizeof(path), "/dev/dri/renderD%d", 129 + gpu);
	fd = open(path, O_RDWR | O_CLOEXEC);
	CHECK(fd >= 0);
	return fd;
}

/* Handles are numbers of one open file: two may have the same. */
static void test_buffers(void)
{
	uint32_t one, other, host;
	int file = open_again(0), copy = dup(file);
	struct drm_gem_change_handle change = {.new_handle = 77};

	CHECK_EQ(create(render[0], QUOTA + 1, AMDGPU_GEM_DOMAIN_VRAM, &one), -ENOMEM);
	CHECK_EQ(create(render[0], MIB, AMDGPU_GEM_DOMAIN_VRAM, &one), 0);
	CHECK_EQ(create(file, 2 * MIB, AMDGPU_GEM_DOMAIN_VRAM | AMDGPU_GEM_DOMAIN_GTT, &other), 0);
	CHECK_EQ(one, other);
	CHECK_EQ(create(file, 4 * MIB, AMDGPU_GEM_DOMAIN_GTT, &host), 0);
	CHECK_EQ(charged(0), 3 * MIB);
	CHECK_EQ(device_view(0).host_bytes, 6 * MIB); /* `other` may be in either */
	change.handle = other;
	CHECK_EQ(drm(copy, DRM_IOWR(GEM_CHANGE_HANDLE, change), &change), 0);
	CHECK_EQ(close_handle(copy, other), -EINVAL);
	CHECK_EQ(charged(0), 3 * MIB);
	CHECK_EQ(close_handle(copy, 77), 0);
	CHECK_EQ(charged(0), MIB);
	CHECK_EQ(close_handle(copy, host), 0);
	CHECK_EQ(close_handle(render[0], one), 0);
	CHECK_EQ(device_view(0).host_bytes, 0);
	close(copy);
	close(file);
	check_all_free(0);
}

/*
 * Requests that say other ways for their blocks than libdrm's: the kernel goes by what they say,
 * and what is charged is what there is, whether its handle is told or not.
 */
static void test_ways(void)
{
	union drm_amdgpu_gem_create a = {
		.in = {.bo_size = 48 * MIB, .domains = AMDGPU_GEM_DOMAIN_VRAM}};
	const union drm_amdgpu_gem_create asked = a;
	struct drm_prime_handle prime = {.flags = O_CLOEXEC};
	int file = open_again(0);

	CHECK_EQ(drm(file, _IOW('d', DRM_NR_AMDGPU_GEM_CREATE, a), &a), 0);
	CHECK(!memcmp(&a, &asked, sizeof(a)));
	CHECK_EQ(drm(file, _IOW('d', DRM_NR_AMDGPU_GEM_CREATE, a), &a), -ENOMEM);
	CHECK_EQ(drm(file, DRM_IOWR(AMDGPU_GEM_CREATE, a), &a), -ENOMEM);
	CHECK(!memcmp(&a, &asked, sizeof(a)));
	CHECK_EQ(charged(0), 48 * MIB);
	CHECK_EQ(taken(0), 48 * MIB);
	/* Without _IOC_WRITE the kernel is given zeroes: no bytes, and no handle. */
	CHECK_EQ(drm(file, _IOR('d', DRM_NR_AMDGPU_GEM_CREATE, a), &a), -EINVAL);
	CHECK(!a.in.bo_size && !a.in.domains);
	CHECK_EQ(drm(file, _IO('d', DRM_NR_AMDGPU_GEM_CREATE), &a), -EINVAL);
	prime.handle = 1;
	CHECK_EQ(drm(file, _IOR('d', DRM_NR_GEM_CLOSE, uint64_t), &prime), -EINVAL);
	prime.handle = 1;
	/* No room for the descriptor: nobody could tell who holds the memory. */
	CHECK_EQ(drm(file, _IOWR('d', DRM_NR_PRIME_HANDLE_TO_FD, uint64_t), &prime), -EINVAL);
	CHECK_EQ(charged(0), 48 * MIB);
	CHECK_EQ(close_handle(file, 1), 0);
	close(file);
	check_all_free(0);
}

static int place(uint32_t handle)
{
	struct drm_amdgpu_gem_op a = {.handle = handle,
				      .op = AMDGPU_GEM_OP_SET_PLACEMENT,
				      .value = AMDGPU_GEM_DOMAIN_VRAM};

	return drm(render[0], DRM_IOWR(AMDGPU_GEM_OP, a), &a);
}

/* Memory of the machine that is to go to the GPU has to fit there, and stays charged in both. */
static void test_placement(void)
{
	uint32_t large, small;

	CHECK_EQ(create(render[0], QUOTA + PAGE, AMDGPU_GEM_DOMAIN_GTT, &large), 0);
	CHECK_EQ(create(render[0], QUOTA, AMDGPU_GEM_DOMAIN_GTT, &small), 0);
	CHECK_EQ(place(large), -ENOMEM);
	CHECK_EQ(place(4711), -ENOENT);
	CHECK_EQ(charged(0), 0);
	CHECK_EQ(device_view(0).host_bytes, 2 * QUOTA + PAGE);
	CHECK_EQ(place(small), 0);
	CHECK_EQ(place(small), 0);
	CHECK_EQ(charged(0), QUOTA);
	CHECK_EQ(taken(0), QUOTA);
	CHECK_EQ(device_view(0).host_bytes, 2 * QUOTA + PAGE);
	CHECK_EQ(close_handle(render[0], large), 0);
	CHECK_EQ(close_handle(render[0], small), 0);
	CHECK_EQ(device_view(0).host_bytes, 0);
	check_all_free(0);
}

static int alloc_by(int fd, uint64_t *ret_handle)
{
	struct kfd_ioctl_alloc_memory_of_gpu_args a = {
		.va_addr = 1u << 30, .size = MIB, .gpu_id = ids[0], .flags = VRAM};
	int r = ioctl(fd, KFD_IOWR(ALLOC_MEMORY_OF_GPU, a), &a) < 0 ? -errno : 0;

	*ret_handle = a.handle;
	return r;
}

/* A descriptor's number is of one file after the other. */
static void test_descriptors(void)
{
	int null = open("/dev/null", O_RDWR | O_CLOEXEC), fd = dup(kfd);
	uint64_t handle, more;
	uint32_t buffer;

	CHECK_EQ(alloc_by(fd, &handle), 0);
	CHECK_EQ(alloc_by(null, &more), -ENOTTY);
	CHECK_EQ(dup2(null, fd), fd);
	CHECK_EQ(alloc_by(fd, &more), -ENOTTY);
	CHECK_EQ(charged(0), MIB);
	CHECK_EQ(dup2(render[1], fd), fd);
	CHECK(alloc_by(fd, &more) < 0);
	CHECK_EQ(create(fd, MIB, AMDGPU_GEM_DOMAIN_VRAM, &buffer), 0);
	CHECK_EQ(charged(0), MIB);
	CHECK_EQ(charged(1), MIB);
	CHECK_EQ(dup2(kfd, fd), fd);
	CHECK_EQ(alloc_by(fd, &more), 0);
	CHECK_EQ(charged(0), 2 * MIB);
	CHECK_EQ(free_memory(more), 0);
	CHECK_EQ(free_memory(handle), 0);
	CHECK_EQ(close_handle(render[1], buffer), 0);
	CHECK_EQ(close(fd), 0);
	CHECK(alloc_by(fd, &more) == -EBADF);
	close(null);
	check_all_free(0);
	check_all_free(1);
}

/* More files than can be told apart, of two GPUs. */
static void test_many_files(void)
{
	uint64_t kept[2];
	uint32_t handles[160];
	int files[160];

	CHECK_EQ(alloc_vram(0, MIB, &kept[0]), 0);
	CHECK_EQ(alloc_vram(1, MIB, &kept[1]), 0);
	for (int i = 0; i < 160; i++) {
		files[i] = open_again(i % 2);
		CHECK_EQ(create(files[i], (1 + i % 2) * PAGE, AMDGPU_GEM_DOMAIN_VRAM, &handles[i]),
			 0);
	}
	CHECK_EQ(charged(0), MIB + 80 * PAGE);
	CHECK_EQ(charged(1), MIB + 160 * PAGE);
	for (int i = 0; i < 160; i++)
		CHECK_EQ(close_handle(files[i], handles[i]), 0);
	CHECK_EQ(charged(0), MIB);
	CHECK_EQ(charged(1), MIB);
	for (int i = 0; i < 160; i++)
		close(files[i]);
	CHECK_EQ(free_memory(kept[0]), 0);
	CHECK_EQ(free_memory(kept[1]), 0);
	check_all_free(0);
	check_all_free(1);
}

/* The kernel does not know a child, and neither does it have what its parent has. */
static void test_fork(void)
{
	uint64_t handle, mine;
	int status;
	pid_t child;

	CHECK_EQ(alloc_vram(0, MIB, &handle), 0);
	child = fork();
	if (!child) {
		CHECK_EQ(alloc_vram(0, MIB, &mine), -EBADF);
		CHECK_EQ(free_memory(handle), -EBADF);
		CHECK_EQ(charged(0), MIB);
		open_devices();
		acquire_devices();
		CHECK_EQ(alloc_vram(0, MIB, &mine), 0);
		CHECK_EQ(charged(0), 2 * MIB);
		_exit(0);
	}
	CHECK_EQ(waitpid(child, &status, 0), child);
	CHECK_EQ(status, 0);
	CHECK_EQ(charged(0), MIB);
	CHECK_EQ(free_memory(handle), 0);
	check_all_free(0);
}

/* The memory of a file that is closed is gone: found out when it is needed. */
static void test_closed_file(void)
{
	int file = open_again(0), copy = dup(file);
	uint32_t handle;
	uint64_t memory;

	CHECK_EQ(create(file, QUOTA, AMDGPU_GEM_DOMAIN_VRAM, &handle), 0);
	close(file);
	CHECK_EQ(alloc_vram(0, QUOTA, &memory), -ENOMEM); /* it is open elsewhere */
	CHECK_EQ(charged(0), QUOTA);
	close(copy);
	CHECK_EQ(alloc_vram(0, QUOTA, &memory), 0);
	CHECK_EQ(charged(0), QUOTA);
	CHECK_EQ(free_memory(memory), 0);
	check_all_free(0);
}

/* A file that this process has closed and somebody has open: its memory is there, and counts. */
static void check_kept(void)
{
	uint64_t memory;

	CHECK_EQ(alloc_vram(0, PAGE, &memory), -ENOMEM);
	CHECK_EQ(charged(0), QUOTA);
}

static void close_the_kernels(int socket)
{
	uint32_t handle;

	open_devices();
	acquire_devices();
	CHECK_EQ(create(render[0], QUOTA, AMDGPU_GEM_DOMAIN_VRAM, &handle), 0);
	close(render[0]);
	check_kept();
	check_kept();
	say(socket);
	hear(socket);
}

/* The kernel keeps the file that ACQUIRE_VM was called with until the process ends. */
static void test_kept_by_kernel(void)
{
	int socket;
	pid_t child = start(close_the_kernels, &socket);

	hear(socket);
	check_kept();
	CHECK_EQ(taken(0), QUOTA);
	say(socket);
	end(child, 0);
	close(socket);
	check_all_free(0);
}

static void wait_to_end(int socket)
{
	say(socket);
	hear(socket);
}

/* ... and so does a child, or a socket that it is sent by. */
static void test_kept_by_others(void)
{
	int file = open_again(0), socket, pair[2];
	uint32_t handle;
	uint64_t memory;
	pid_t child;

	CHECK_EQ(create(file, QUOTA, AMDGPU_GEM_DOMAIN_VRAM, &handle), 0);
	child = start(wait_to_end, &socket);
	hear(socket);
	close(file);
	check_kept();
	CHECK_EQ(taken(0), QUOTA);
	say(socket);
	end(child, 0);
	close(socket);
	CHECK_EQ(alloc_vram(0, PAGE, &memory), 0);
	CHECK_EQ(free_memory(memory), 0);
	check_all_free(0);

	file = open_again(0);
	CHECK_EQ(create(file, QUOTA, AMDGPU_GEM_DOMAIN_VRAM, &handle), 0);
	CHECK_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
	CHECK_EQ(message_send(pair[0], "", 1, file), 1);
	close(file);
	check_kept();
	close(receive_fd(pair[1]));
	close(pair[0]);
	close(pair[1]);
	CHECK_EQ(alloc_vram(0, PAGE, &memory), 0);
	CHECK_EQ(free_memory(memory), 0);
	check_all_free(0);
}

/*
 * Two files, one of them from before exec, with the memory that it had: in either order their handles
 * are told apart.
 */
static int after_exec(int inherited, bool first)
{
	uint32_t one, other;
	int fresh;

	open_devices();
	acquire_devices();
	name_devices();
	fresh = open_again(0);
	if (first)
		CHECK_EQ(create(inherited, MIB, AMDGPU_GEM_DOMAIN_VRAM, &one), 0);
	CHECK_EQ(create(fresh, MIB, AMDGPU_GEM_DOMAIN_VRAM, &other), 0);
	CHECK_EQ(create(fresh, MIB, AMDGPU_GEM_DOMAIN_VRAM, &other), 0);
	if (!first)
		CHECK_EQ(create(inherited, MIB, AMDGPU_GEM_DOMAIN_VRAM, &one), 0);
	CHECK_EQ(one, other);
	CHECK_EQ(taken(0), 4 * MIB);
	CHECK_EQ(charged(0), 4 * MIB);
	CHECK_EQ(close_handle(inherited, 1), 0);
	CHECK_EQ(charged(0), 3 * MIB);
	close(inherited);
	close(fresh);
	CHECK_EQ(available(0), QUOTA);
	check_all_free(0);
	return 0;
}

/* What a child makes in a file that its parent has used is charged to the child, while it is there.
 */
static void use_parents(int socket)
{
	int file = receive_fd(socket);
	uint32_t handle;

	CHECK_EQ(create(file, QUOTA, AMDGPU_GEM_DOMAIN_VRAM, &handle), -ENOMEM);
	CHECK_EQ(create(file, MIB, AMDGPU_GEM_DOMAIN_VRAM, &handle), 0);
	CHECK_EQ(charged(0), 49 * MIB);
	CHECK_EQ(close_handle(file, handle), 0);
	CHECK_EQ(charged(0), 48 * MIB);
	hear(socket);
}

/* Makes memory in a file of its own, which outlives it. */
static void leave_behind(int socket)
{
	int file = open_again(0);
	uint32_t handle;

	CHECK_EQ(create(file, 48 * MIB, AMDGPU_GEM_DOMAIN_VRAM, &handle), 0);
	CHECK_EQ(message_send(socket, "", 1, file), 1);
	hear(socket);
}

/* A file's memory is charged to a process that is there, whichever that is. */
static void test_handed_over(void)
{
	int socket, file = open_again(0);
	uint32_t handle;
	uint64_t memory;
	pid_t child;

	CHECK_EQ(create(file, 48 * MIB, AMDGPU_GEM_DOMAIN_VRAM, &handle), 0);
	child = start(use_parents, &socket);
	CHECK_EQ(message_send(socket, "", 1, file), 1);
	say(socket);
	end(child, 0);
	close(socket);
	CHECK_EQ(charged(0), 48 * MIB);
	CHECK_EQ(close_handle(file, handle), 0);
	close(file);

	child = start(leave_behind, &socket);
	file = receive_fd(socket);
	say(socket);
	end(child, 0);
	close(socket);
	CHECK_EQ(create(file, MIB, AMDGPU_GEM_DOMAIN_VRAM, &handle), 0);
	CHECK_EQ(charged(0), 49 * MIB);
	CHECK_EQ(taken(0), 49 * MIB);
	CHECK_EQ(alloc_vram(0, 16 * MIB, &memory), -ENOMEM);
	close(file);
	CHECK_EQ(available(0), QUOTA); /* which is where it is noticed */
	check_all_free(0);
}

static void test_exec(const char *program)
{
	for (int first = 0; first < 2; first++) {
		pid_t child = fork();
		char number[16];
		uint32_t handle;
		int file;

		CHECK(child >= 0);
		if (!child) {
			open_devices();
			acquire_devices();
			file = open("/dev/dri/renderD129", O_RDWR);
			CHECK_EQ(create(file, MIB, AMDGPU_GEM_DOMAIN_VRAM, &handle), 0);
			snprintf(number, sizeof(number), "%d", file);
			execl(program, program, number, first ? "first" : NULL, NULL);
			_exit(1);
		}
		end(child, 0);
	}
	check_all_free(0);
}

int main(int argc, char **argv)
{
	if (argc > 1)
		return after_exec(atoi(argv[1]), argc > 2);
	open_devices();
	acquire_devices();
	name_devices();
	test_limit();
	test_sizes();
	test_kernel_refuses();
	test_buffers();
	test_ways();
	test_placement();
	test_descriptors();
	test_many_files();
	test_fork();
	test_handed_over();
	test_exec(argv[0]);
	test_closed_file();
	test_kept_by_kernel();
	test_kept_by_others();
	return 0;
}
