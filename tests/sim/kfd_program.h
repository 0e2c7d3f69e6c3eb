/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What test programs of the emulated KFD have in common: its ioctls, as a program uses them that
 * has no library. They run by `allot sim --amd 3 --memory 72MiB` with links 1 <-> 2 and 2 -> 3.
 */
#ifndef ALLOT_TESTS_SIM_KFD_PROGRAM_H
#define ALLOT_TESTS_SIM_KFD_PROGRAM_H

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "amd/abi/drm.h"
#include "amd/abi/kfd.h"
#include "amd/kfd_ioctl.h"
#include "tests/check.h"
#include "tests/sim/message.h"

#define GPUS 3
#define MIB  (UINT64_C(1) << 20)
#define VRAM KFD_IOC_ALLOC_MEM_FLAGS_VRAM

#define KFD_IOWR(name, type) _IOWR('K', KFD_NR_##name, type)

static int kfd, render[GPUS];
static uint32_t ids[GPUS];

/*
 * What this process runs next is no tenant's program. Of `allot run` the directory goes, and the
 * library, which stands first: it would see that the directory is gone, and close the GPU.
 */
static inline void leave_tenant(void)
{
	const char *libraries = getenv("LD_PRELOAD");

	unsetenv("ALLOT_TENANT_DIR");
	libraries += strcspn(libraries, ": ");
	setenv("LD_PRELOAD", *libraries ? libraries + 1 : "", 1);
}

/* Past the C library, whose exec would have the program in the tenant. Returns if it cannot. */
static inline void run_past_library(const char *program, const char *argument)
{
	const char *const argv[] = {program, argument, NULL};

	syscall(SYS_execve, program, argv, environ);
}

/* 0 or -errno */
static inline int call(unsigned long request, void *arg)
{
	return ioctl(kfd, request, arg) < 0 ? -errno : 0;
}

/* The same, of a render node. */
static inline int drm(int file, unsigned long request, void *arg)
{
	return ioctl(file, request, arg) < 0 ? -errno : 0;
}

static inline int close_handle(int file, uint32_t handle)
{
	struct drm_gem_close a = {.handle = handle};

	return drm(file, _IOW('d', DRM_NR_GEM_CLOSE, a), &a);
}

/* For USERPTR `offset` goes in, else it comes back; NULL: nobody wants it. */
static inline int alloc_at(int gpu, uint64_t va, uint64_t size, uint32_t flags,
			   uint64_t *ret_handle, uint64_t *offset)
{
	struct kfd_ioctl_alloc_memory_of_gpu_args a = {.va_addr = va,
						       .size = size,
						       .mmap_offset = offset ? *offset : 0,
						       .gpu_id = ids[gpu],
						       .flags = flags};
	int r = call(KFD_IOWR(ALLOC_MEMORY_OF_GPU, a), &a);

	*ret_handle = a.handle;
	if (offset)
		*offset = a.mmap_offset;
	return r;
}

static inline int alloc_flags(int gpu, uint64_t size, uint32_t flags, uint64_t *ret_handle,
			      uint64_t *ret_offset)
{
	if (ret_offset)
		*ret_offset = 0;
	return alloc_at(gpu, 1u << 30, size, flags, ret_handle, ret_offset);
}

static inline int alloc_vram(int gpu, uint64_t size, uint64_t *ret_handle)
{
	return alloc_flags(gpu, size, VRAM, ret_handle, NULL);
}

static inline int free_memory(uint64_t handle)
{
	struct kfd_ioctl_free_memory_of_gpu_args a = {handle};

	return call(_IOW('K', KFD_NR_FREE_MEMORY_OF_GPU, a), &a);
}

static inline int export_memory(uint64_t handle)
{
	struct kfd_ioctl_export_dmabuf_args a = {.handle = handle, .flags = O_CLOEXEC};

	CHECK_EQ(call(KFD_IOWR(EXPORT_DMABUF, a), &a), 0);
	return (int)a.dmabuf_fd;
}

static inline int map(uint64_t handle, const uint32_t *gpus, uint32_t n, uint32_t *done)
{
	struct kfd_ioctl_map_memory_to_gpu_args a = {handle, (uintptr_t)gpus, n, *done};
	int r = call(KFD_IOWR(MAP_MEMORY_TO_GPU, a), &a);

	*done = a.n_success;
	return r;
}

static inline int unmap(uint64_t handle, const uint32_t *gpus, uint32_t n)
{
	struct kfd_ioctl_unmap_memory_from_gpu_args a = {handle, (uintptr_t)gpus, n, 0};

	return call(KFD_IOWR(UNMAP_MEMORY_FROM_GPU, a), &a);
}

/* Sets attributes of the program's own memory. */
static inline int svm_set(const void *at, uint64_t size, uint32_t n,
			  const struct kfd_ioctl_svm_attribute *attributes)
{
	_Alignas(8) char block[256];
	struct kfd_ioctl_svm_args *a = (void *)block;
	size_t bytes = sizeof(*a) + n * sizeof(*attributes);

	CHECK(bytes <= sizeof(block));
	*a = (struct kfd_ioctl_svm_args){.start_addr = (uintptr_t)at, .size = size, .nattr = n};
	memcpy(a->attrs, attributes, n * sizeof(*attributes));
	return call(_IOC(_IOC_READ | _IOC_WRITE, 'K', KFD_NR_SVM, bytes), a);
}

/* What nobody has of the 64 MiB of a GPU that KFD may give, whoever gave the rest. */
static inline uint64_t vacant(int gpu)
{
	uint64_t used = 0;
	struct drm_amdgpu_info info = {.return_pointer = (uintptr_t)&used,
				       .return_size = sizeof(used),
				       .query = AMDGPU_INFO_VRAM_USAGE};

	CHECK_EQ(drm(render[gpu], _IOW('d', DRM_NR_AMDGPU_INFO, info), &info), 0);
	return 64 * MIB - used;
}

/* What KFD says of it: in steps of 2 MiB, and without what render nodes gave. */
static inline uint64_t available(int gpu)
{
	struct kfd_ioctl_get_available_memory_args a = {.gpu_id = ids[gpu]};

	CHECK_EQ(call(KFD_IOWR(AVAILABLE_MEMORY, a), &a), 0);
	return a.available;
}

/* In this process, which a child has to do by itself. */
static inline void open_devices(void)
{
	struct kfd_process_device_apertures at[GPUS];
	struct kfd_ioctl_get_process_apertures_new_args a = {(uintptr_t)at, GPUS, 0};

	kfd = open("/dev/kfd", O_RDWR | O_CLOEXEC);
	CHECK(kfd >= 0);
	CHECK_EQ(call(KFD_IOWR(GET_PROCESS_APERTURES_NEW, a), &a), 0);
	CHECK_EQ(a.num_of_nodes, GPUS);
	for (int i = 0; i < GPUS; i++) {
		char path[32];

		ids[i] = at[i].gpu_id;
		snprintf(path, sizeof(path), "/dev/dri/renderD%d", 129 + i);
		render[i] = open(path, O_RDWR | O_CLOEXEC);
		CHECK(render[i] >= 0);
	}
}

/* Gives the GPUs address spaces: in each process once. */
static inline void acquire_devices(void)
{
	for (int i = 0; i < GPUS; i++) {
		struct kfd_ioctl_acquire_vm_args a = {(uint32_t)render[i], ids[i]};

		CHECK_EQ(call(_IOW('K', KFD_NR_ACQUIRE_VM, a), &a), 0);
	}
}

/* A child, which has no devices yet, and a socket to it. */
static inline pid_t start(void (*child_main)(int socket), int *ret_socket)
{
	int pair[2];
	pid_t child;

	CHECK_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
	child = fork();
	CHECK(child >= 0);
	if (!child) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		close(pair[0]);
		child_main(pair[1]);
		_exit(0);
	}
	close(pair[1]);
	*ret_socket = pair[0];
	return child;
}

static inline void say(int socket)
{
	CHECK_EQ(write(socket, "", 1), 1);
}

static inline void hear(int socket)
{
	char byte;

	CHECK_EQ(read(socket, &byte, 1), 1);
}

static inline void tell(int socket)
{
	say(socket);
	hear(socket);
}

/* Gives the other end a descriptor of that memory, and frees it when it is told to. */
static inline void lend_memory(int socket, uint64_t handle)
{
	int fd = export_memory(handle);

	CHECK_EQ(message_send(socket, "", 1, fd), 1);
	close(fd);
	hear(socket);
	CHECK_EQ(free_memory(handle), 0);
	tell(socket);
}

/* Ends when it says so, or by the signal. */
static inline void end(pid_t child, int signal)
{
	int status;

	if (signal)
		CHECK_EQ(kill(child, signal), 0);
	CHECK_EQ(waitpid(child, &status, 0), child);
	CHECK_EQ(status, signal);
}

/*
 * The program once more, which finds an argument then, on a kernel that lacks these ioctls and
 * where some fail; NULL: none does.
 */
static inline void run_on_older_kernel(const char *program, const char *lacking,
				       const char *failing)
{
	pid_t child = fork();

	CHECK(child >= 0);
	if (!child) {
		setenv("ALLOT_SIM_AMD_WITHOUT", lacking, 1);
		if (failing)
			setenv("ALLOT_SIM_AMD_FAIL", failing, 1);
		execl(program, program, "old", NULL);
		_exit(1);
	}
	end(child, 0);
}

/* A message of one byte, which there is to be: its descriptor. */
static inline int receive_fd(int socket)
{
	char byte;
	int fd;

	CHECK_EQ(message_receive(socket, &byte, 1, &fd), 1);
	CHECK(fd >= 0);
	return fd;
}

#endif
