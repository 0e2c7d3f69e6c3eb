/* SPDX-License-Identifier: Apache-2.0 */
/* Memory of the emulated KFD as dma-bufs: between handles, descriptors, files and processes. */
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "amd/abi/drm.h"
#include "tests/sim/kfd_program.h"

static int export(uint64_t handle, uint32_t flags, int *ret_fd)
{
	struct kfd_ioctl_export_dmabuf_args a = {.handle = handle, .flags = flags};
	int r = call(KFD_IOWR(EXPORT_DMABUF, a), &a);

	*ret_fd = (int)a.dmabuf_fd;
	return r;
}

static int import(int gpu, int fd, uint64_t *ret_handle)
{
	struct kfd_ioctl_import_dmabuf_args a = {
		.va_addr = 1u << 31, .gpu_id = ids[gpu], .dmabuf_fd = (uint32_t)fd};
	int r = call(KFD_IOWR(IMPORT_DMABUF, a), &a);

	*ret_handle = a.handle;
	return r;
}

static int get_info(int fd, struct kfd_ioctl_get_dmabuf_info_args *ret)
{
	*ret = (struct kfd_ioctl_get_dmabuf_info_args){.dmabuf_fd = (uint32_t)fd};
	return call(KFD_IOWR(GET_DMABUF_INFO, *ret), ret);
}

static ino_t inode(int fd)
{
	struct stat st;

	CHECK_EQ(fstat(fd, &st), 0);
	return st.st_ino;
}

static void *map_fd(int fd, uint64_t size)
{
	void *here = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

	CHECK(here != MAP_FAILED);
	return here;
}

static void test_export(void)
{
	struct kfd_ioctl_get_dmabuf_info_args info;
	uint64_t one, other;
	int fd, again, of_other;
	char *here;

	CHECK_EQ(alloc_flags(1, MIB, VRAM | KFD_IOC_ALLOC_MEM_FLAGS_PUBLIC, &one, NULL), 0);
	CHECK_EQ(alloc_flags(1, MIB, KFD_IOC_ALLOC_MEM_FLAGS_GTT, &other, NULL), 0);
	CHECK_EQ(export(one + 1000, 0, &fd), -EINVAL);
	CHECK_EQ(export(one, O_CLOEXEC, &fd), 0);
	CHECK_EQ(export(one, 0, &again), 0);
	CHECK_EQ(export(other, O_CLOEXEC | O_RDWR, &of_other), 0);
	CHECK_EQ(fcntl(fd, F_GETFD), FD_CLOEXEC);
	CHECK_EQ(fcntl(again, F_GETFD), 0);
	CHECK_EQ(lseek(fd, 0, SEEK_END), MIB); /* as libdrm asks for the size */
	CHECK(inode(fd) == inode(again) && inode(fd) != inode(of_other));

	CHECK_EQ(get_info(fd, &info), 0);
	CHECK(info.size == MIB && info.gpu_id == ids[1] && !info.metadata_size);
	CHECK_EQ(info.flags, VRAM | KFD_IOC_ALLOC_MEM_FLAGS_PUBLIC);
	CHECK_EQ(get_info(of_other, &info), 0);
	CHECK_EQ(info.flags, KFD_IOC_ALLOC_MEM_FLAGS_GTT);
	CHECK_EQ(get_info(kfd, &info), -EINVAL);
	CHECK_EQ(get_info(999, &info), -EBADF);

	/* The memory is there while anything is left of it: a handle, a descriptor, a mapping. */
	CHECK_EQ(free_memory(one), 0);
	CHECK_EQ(close(again), 0);
	CHECK_EQ(vacant(1), 63 * MIB);
	here = map_fd(fd, MIB);
	CHECK_EQ(close(fd), 0);
	strcpy(here, "content");
	CHECK_EQ(vacant(1), 63 * MIB);
	CHECK_EQ(munmap(here, MIB), 0);
	CHECK_EQ(vacant(1), 64 * MIB);
	CHECK_EQ(free_memory(other), 0);
	close(of_other);
}

static void test_import(void)
{
	int null = open("/dev/null", O_RDWR), file = memfd_create("no dma-buf", MFD_CLOEXEC), fd;
	uint32_t done = 0;
	uint64_t one, two;

	CHECK_EQ(alloc_vram(1, MIB, &one), 0);
	CHECK_EQ(export(one, O_CLOEXEC, &fd), 0);
	CHECK_EQ(import(1, null, &two), -EINVAL);
	CHECK_EQ(import(1, file, &two), -EINVAL);
	CHECK_EQ(import(1, kfd, &two), -EINVAL);
	CHECK_EQ(import(1, 999, &two), -EBADF);
	CHECK_EQ(import(1, fd, &two), 0);
	CHECK_EQ(two >> 32, ids[1]);
	CHECK(one != two);
	CHECK_EQ(vacant(1), 63 * MIB);

	/* Each handle is mapped by itself. */
	CHECK_EQ(map(two, ids, 2, &done), 0);
	CHECK_EQ(free_memory(one), 0);
	CHECK_EQ(free_memory(two), -EBUSY);
	CHECK_EQ(unmap(two, ids, 2), 0);
	CHECK_EQ(close(fd), 0);
	CHECK_EQ(vacant(1), 63 * MIB);
	CHECK_EQ(export(two, O_CLOEXEC, &fd), 0);
	CHECK_EQ(free_memory(two), 0);
	close(fd);
	CHECK_EQ(vacant(1), 64 * MIB);
	close(null);
	close(file);
}

static void give(int socket, int fd)
{
	CHECK_EQ(message_send(socket, "", 1, fd), 1);
	CHECK_EQ(close(fd), 0);
}

static void own_and_give(int socket)
{
	uint64_t handle, offset;
	char *here;
	int fd;

	open_devices();
	acquire_devices();
	CHECK_EQ(alloc_flags(0, 16 * MIB, VRAM, &handle, &offset), 0);
	here = mmap(NULL, MIB, PROT_READ | PROT_WRITE, MAP_SHARED, render[0], (off_t)offset);
	CHECK(here != MAP_FAILED);
	strcpy(here, "of the owner");
	CHECK_EQ(export(handle, O_CLOEXEC, &fd), 0);
	give(socket, fd);
	say(socket);
	hear(socket);
	CHECK(!strcmp(here, "of the importer"));
	say(socket);
	pause();
}

/* Two processes see each other's writes, and the memory is counted once until both are gone. */
static void test_processes(void)
{
	uint64_t handle;
	int socket, fd;
	pid_t child = start(own_and_give, &socket);
	char *here;

	fd = receive_fd(socket);
	hear(socket);
	CHECK_EQ(import(0, fd, &handle), 0);
	here = map_fd(fd, MIB);
	CHECK_EQ(close(fd), 0);
	CHECK(!strcmp(here, "of the owner"));
	strcpy(here, "of the importer");
	say(socket);
	hear(socket);
	CHECK_EQ(vacant(0), 48 * MIB);
	end(child, SIGKILL);
	close(socket);
	CHECK_EQ(vacant(0), 48 * MIB);
	CHECK(!strcmp(here, "of the importer"));
	CHECK_EQ(munmap(here, MIB), 0);
	CHECK_EQ(vacant(0), 48 * MIB);
	CHECK_EQ(free_memory(handle), 0);
	CHECK_EQ(vacant(0), 64 * MIB);
}

/* A descriptor that nobody has received yet holds the memory, whoever has died. */
static void test_on_its_way(void)
{
	struct kfd_ioctl_get_dmabuf_info_args info;
	uint64_t handle;
	char byte;
	int socket, fd;
	pid_t child = start(own_and_give, &socket);

	CHECK_EQ(recv(socket, &byte, 1, MSG_PEEK), 1);
	end(child, SIGKILL);
	CHECK_EQ(vacant(0), 48 * MIB);
	CHECK_EQ(alloc_vram(0, 64 * MIB, &handle), -ENOMEM);
	fd = receive_fd(socket);
	close(socket);
	CHECK_EQ(get_info(fd, &info), 0);
	CHECK_EQ(info.size, 16 * MIB);
	CHECK_EQ(close(fd), 0);
	CHECK_EQ(vacant(0), 64 * MIB);
}

static int to_handle(int file, int fd, uint32_t *ret_handle)
{
	struct drm_prime_handle a = {.fd = fd};
	int r = drm(file, _IOWR('d', DRM_NR_PRIME_FD_TO_HANDLE, a), &a);

	*ret_handle = a.handle;
	return r;
}

static int to_fd(int file, uint32_t handle, uint32_t flags, int *ret_fd)
{
	struct drm_prime_handle a = {.handle = handle, .flags = flags};
	int r = drm(file, _IOWR('d', DRM_NR_PRIME_HANDLE_TO_FD, a), &a);

	*ret_fd = a.fd;
	return r;
}

static int create_buffer(int file, uint64_t size, uint64_t domain, uint32_t *ret_handle)
{
	union drm_amdgpu_gem_create a = {.in = {.bo_size = size, .domains = domain}};
	int r = drm(file, _IOWR('d', DRM_NR_AMDGPU_GEM_CREATE, a), &a);

	*ret_handle = a.out.handle;
	return r;
}

/* By that file, and by no other. */
static void *map_buffer(int file, int other, uint32_t handle, uint64_t size)
{
	union drm_amdgpu_gem_mmap a = {.in = {.handle = handle}};
	void *here;
	off_t at;

	CHECK_EQ(drm(file, _IOWR('d', DRM_NR_AMDGPU_GEM_MMAP, a), &a), 0);
	at = (off_t)a.out.addr_ptr;
	CHECK(mmap(NULL, size, PROT_READ, MAP_SHARED, other, at) == MAP_FAILED);
	CHECK_EQ(errno, EACCES);
	here = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, file, at);
	CHECK(here != MAP_FAILED);
	return here;
}

/* Handles are numbers of one open file: in another, the same stand for something else. */
static void test_handles(void)
{
	int file = open("/dev/dri/renderD129", O_RDWR | O_CLOEXEC), copy = dup(file), fd, other;
	uint64_t one, two;
	uint32_t h, again, elsewhere;

	CHECK_EQ(alloc_vram(0, MIB, &one), 0);
	CHECK_EQ(alloc_vram(0, MIB, &two), 0);
	CHECK_EQ(export(one, O_CLOEXEC, &fd), 0);
	CHECK_EQ(export(two, O_CLOEXEC, &other), 0);
	CHECK_EQ(to_handle(file, kfd, &h), -EINVAL);
	CHECK_EQ(to_handle(file, fd, &h), 0);
	CHECK_EQ(to_handle(copy, fd, &again), 0);
	CHECK_EQ(h, again);
	CHECK_EQ(to_handle(render[0], other, &elsewhere), 0);
	CHECK_EQ(h, elsewhere);
	CHECK_EQ(to_handle(file, other, &again), 0);
	CHECK(h != again);
	CHECK_EQ(to_fd(render[0], again, O_CLOEXEC, &other), -ENOENT);
	CHECK_EQ(to_fd(file, h, O_NONBLOCK, &other), -EINVAL);
	CHECK_EQ(to_fd(copy, h, O_RDWR, &other), 0);
	CHECK_EQ(inode(fd), inode(other));
	CHECK_EQ(fcntl(other, F_GETFD), 0);
	close(other);
	CHECK_EQ(to_fd(copy, h, O_CLOEXEC, &other), 0);
	CHECK_EQ(fcntl(other, F_GETFD), FD_CLOEXEC);
	CHECK(mmap(NULL, MIB, PROT_WRITE, MAP_SHARED, other, 0) == MAP_FAILED);
	close(other);
	close(fd);
	CHECK_EQ(free_memory(one), 0);
	CHECK_EQ(free_memory(two), 0);
	CHECK_EQ(vacant(0), 62 * MIB);
	CHECK_EQ(close_handle(file, h), 0);
	CHECK_EQ(close_handle(copy, h), -EINVAL);
	CHECK_EQ(vacant(0), 63 * MIB);
}

/* Memory of render nodes is the same memory. */
static void test_buffers(void)
{
	struct kfd_ioctl_get_dmabuf_info_args info;
	uint32_t buffer, gtt;
	uint64_t handle;
	char *here;
	int fd;

	CHECK_EQ(create_buffer(render[2], MIB, 0, &buffer), -EINVAL);
	CHECK_EQ(create_buffer(render[2], 73 * MIB, AMDGPU_GEM_DOMAIN_GTT, &gtt), 0);
	CHECK_EQ(create_buffer(render[2], MIB - 1, AMDGPU_GEM_DOMAIN_VRAM, &buffer), 0);
	CHECK_EQ(vacant(2), 63 * MIB);
	here = map_buffer(render[2], render[1], buffer, MIB);
	strcpy(here, "content");
	CHECK_EQ(to_fd(render[2], buffer, O_CLOEXEC | O_RDWR, &fd), 0);
	CHECK_EQ(get_info(fd, &info), 0);
	CHECK(info.size == MIB && info.gpu_id == ids[2] && info.flags == VRAM);
	CHECK_EQ(import(2, fd, &handle), 0);
	CHECK(!strcmp(map_fd(fd, MIB), "content"));
	CHECK_EQ(close_handle(render[2], buffer), 0);
	CHECK_EQ(close_handle(render[2], gtt), 0);
	CHECK_EQ(free_memory(handle), 0);
	CHECK_EQ(vacant(2), 63 * MIB); /* mapped twice, and a descriptor */
}

/* Before version 1.12 of the interface. */
static void be_on_older_kernel(void)
{
	struct kfd_ioctl_get_version_args version = {0};
	uint64_t handle;
	int fd;

	CHECK_EQ(alloc_vram(0, MIB, &handle), 0);
	CHECK_EQ(export(handle, 0, &fd), -ENOTTY);
	CHECK_EQ(call(_IOR('K', KFD_NR_GET_VERSION, version), &version), 0);
	CHECK_EQ(version.minor_version, 11);
}

int main(int argc, char **argv)
{
	open_devices();
	acquire_devices();
	if (argc > 1) {
		be_on_older_kernel();
		return 0;
	}
	test_export();
	test_import();
	test_processes();
	test_on_its_way();
	test_handles();
	test_buffers();
	run_on_older_kernel(argv[0], "EXPORT_DMABUF,SVM", NULL);
	return 0;
}
