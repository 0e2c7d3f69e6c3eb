/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory of an emulated AMD GPU that several processes of a tenant hold: charged once, whoever goes
 * first, and as long as anybody holds it.
 */
#include "tests/sim/kfd_tenant.h"

#define SIZE (16 * MIB)

#define DRM_IOWR(name, type) _IOWR('d', DRM_NR_##name, type)

static const char *program;

static int import(int fd, uint64_t *ret_handle)
{
	struct kfd_ioctl_import_dmabuf_args a = {
		.va_addr = 1u << 31, .gpu_id = ids[0], .dmabuf_fd = (uint32_t)fd};
	int r = call(KFD_IOWR(IMPORT_DMABUF, a), &a);

	*ret_handle = a.handle;
	return r;
}

static int prime(int file, int fd, uint32_t *ret_handle)
{
	struct drm_prime_handle a = {.fd = fd};
	int r = drm(file, DRM_IOWR(PRIME_FD_TO_HANDLE, a), &a);

	*ret_handle = a.handle;
	return r;
}

/* Allocates, exports, and frees when it is told to. */
static void own(int socket)
{
	uint64_t handle;

	open_devices();
	acquire_devices();
	CHECK_EQ(alloc_vram(0, SIZE, &handle), 0);
	lend_memory(socket, handle);
}

/* Imports what it is given, by either way, and frees it when it is told to. */
static void hold(int socket)
{
	uint64_t handle;
	uint32_t buffer;
	int fd;

	open_devices();
	acquire_devices();
	fd = receive_fd(socket);
	CHECK_EQ(import(fd, &handle), 0);
	CHECK_EQ(prime(render[0], fd, &buffer), 0);
	CHECK_EQ(prime(render[0], fd, &buffer), 0);
	close(fd);
	tell(socket);
	CHECK_EQ(free_memory(handle), 0);
	tell(socket);
	CHECK_EQ(close_handle(render[0], buffer), 0);
	tell(socket);
}

/* Three hold it. The owner frees it first, or dies first, or last. */
static void test_three(bool owner_first, int owner_ends_by)
{
	int owner, one, two, fd;
	pid_t owner_pid = start(own, &owner), one_pid = start(hold, &one);
	pid_t two_pid = start(hold, &two);
	uint64_t rest;

	fd = receive_fd(owner);
	CHECK_EQ(charged(0), SIZE);
	for (int i = 0; i < 2; i++) {
		int socket = i ? two : one;

		CHECK_EQ(message_send(socket, "", 1, fd), 1);
		hear(socket);
		CHECK_EQ(charged(0), SIZE);
	}
	close(fd);
	CHECK_EQ(alloc_vram(0, QUOTA - SIZE, &rest), 0);
	CHECK_EQ(free_memory(rest), 0);
	CHECK_EQ(alloc_vram(0, QUOTA - SIZE + PAGE, &rest), -ENOMEM);
	if (owner_first && !owner_ends_by)
		tell(owner);
	else if (owner_first)
		end(owner_pid, owner_ends_by);
	CHECK_EQ(charged(0), SIZE);
	CHECK_EQ(alloc_vram(0, QUOTA - SIZE + PAGE, &rest), -ENOMEM);
	tell(one);
	CHECK_EQ(charged(0), SIZE);
	tell(one);
	end(two_pid, SIGKILL);
	CHECK_EQ(charged(0), owner_first ? 0 : SIZE);
	if (!owner_first)
		tell(owner);
	check_all_free(0);
	end(one_pid, SIGKILL);
	if (!owner_first || !owner_ends_by)
		end(owner_pid, SIGKILL);
	close(owner);
	close(one);
	close(two);
}

/* A process imports what it exported, by another file: it has it once. */
static void test_own(void)
{
	uint64_t handle, again;
	uint32_t buffer;
	int fd;

	CHECK_EQ(alloc_vram(0, SIZE, &handle), 0);
	fd = export_memory(handle);
	CHECK_EQ(prime(render[0], fd, &buffer), 0);
	CHECK_EQ(import(fd, &again), 0);
	close(fd);
	CHECK_EQ(charged(0), SIZE);
	CHECK_EQ(free_memory(handle), 0);
	CHECK_EQ(charged(0), SIZE);
	CHECK_EQ(close_handle(render[0], buffer), 0);
	CHECK_EQ(charged(0), SIZE);
	CHECK_EQ(free_memory(again), 0);
	check_all_free(0);
}

/* Handles are gone, but a descriptor holds the memory: it is charged until that is closed. */
static void test_descriptor(void)
{
	uint64_t handle, rest;
	int fd;

	CHECK_EQ(alloc_vram(0, SIZE, &handle), 0);
	fd = export_memory(handle);
	CHECK_EQ(free_memory(handle), 0);
	CHECK_EQ(taken(0), SIZE);
	CHECK_EQ(alloc_vram(0, QUOTA - SIZE + PAGE, &rest), -ENOMEM);
	CHECK_EQ(charged(0), SIZE);
	close(fd);
	CHECK_EQ(alloc_vram(0, QUOTA, &rest), 0);
	CHECK_EQ(free_memory(rest), 0);
	check_all_free(0);
}

/* However many there are, each is found to be gone. */
static void test_many_descriptors(void)
{
	uint64_t handle, rest;
	int fds[40];

	for (int i = 0; i < 40; i++) {
		CHECK_EQ(alloc_vram(0, MIB, &handle), 0);
		fds[i] = export_memory(handle);
		CHECK_EQ(free_memory(handle), 0);
	}
	CHECK_EQ(charged(0), 40 * MIB);
	for (int i = 0; i < 20; i++)
		close(fds[i]);
	CHECK_EQ(alloc_vram(0, 40 * MIB, &rest), 0);
	CHECK_EQ(charged(0), 60 * MIB);
	CHECK_EQ(free_memory(rest), 0);
	for (int i = 20; i < 40; i++)
		close(fds[i]);
	CHECK_EQ(alloc_vram(0, QUOTA, &rest), 0);
	CHECK_EQ(free_memory(rest), 0);
	check_all_free(0);
}

/* As a process of no tenant: what it has is in nobody's quota. */
static int outside(int socket)
{
	uint64_t handle;
	int fd;

	open_devices();
	acquire_devices();
	for (int i = 0; i < 2; i++) {
		CHECK_EQ(alloc_vram(0, i ? 2 * QUOTA : SIZE, &handle), 0);
		fd = export_memory(handle);
		CHECK_EQ(message_send(socket, "", 1, fd), 1);
		close(fd);
	}
	hear(socket);
	return 0;
}

static pid_t start_outside(int *ret_socket)
{
	int pair[2];
	pid_t child;
	char number[16];

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

/* Memory from outside the tenant is charged to it once, and refused where it does not fit. */
static void test_outside(void)
{
	int owner, one, small, large;
	pid_t pid = start_outside(&owner), holder = start(hold, &one);
	uint64_t handle;
	uint32_t buffer;

	small = receive_fd(owner);
	large = receive_fd(owner);
	CHECK_EQ(charged(0), 0);
	CHECK_EQ(import(small, &handle), 0);
	CHECK_EQ(charged(0), SIZE);
	CHECK_EQ(message_send(one, "", 1, small), 1);
	hear(one);
	close(small);
	CHECK_EQ(charged(0), SIZE);
	CHECK_EQ(free_memory(handle), 0);
	CHECK_EQ(charged(0), SIZE);
	CHECK_EQ(import(large, &handle), -ENOMEM);
	CHECK_EQ(prime(render[0], large, &buffer), -ENOMEM);
	CHECK_EQ(charged(0), SIZE);
	close(large);
	end(holder, SIGKILL);
	say(owner);
	end(pid, 0);
	check_all_free(0);
	close(owner);
	close(one);
}

int main(int argc, char **argv)
{
	program = argv[0];
	if (argc > 1)
		return outside(atoi(argv[1]));
	open_devices();
	acquire_devices();
	name_devices();
	test_three(false, 0);
	test_three(true, 0);
	test_three(true, SIGKILL);
	test_own();
	test_descriptor();
	test_many_descriptors();
	test_outside();
	return 0;
}
