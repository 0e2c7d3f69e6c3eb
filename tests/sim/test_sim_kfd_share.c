/* SPDX-License-Identifier: Apache-2.0 */
/* The emulated KFD as several processes have it: memory that one takes is there for no other. */
#include <dirent.h>
#include <limits.h>
#include <stdbool.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "amd/abi/drm.h"
#include "sim/kfd/bank.h"
#include "tests/sim/kfd_program.h"

static uint64_t vram_usage(int gpu)
{
	uint64_t bytes;
	struct drm_amdgpu_info info = {.return_pointer = (uintptr_t)&bytes,
				       .return_size = sizeof(bytes),
				       .query = AMDGPU_INFO_VRAM_USAGE};

	CHECK_EQ(ioctl(render[gpu], _IOW('d', DRM_NR_AMDGPU_INFO, info), &info), 0);
	return bytes;
}

static uint64_t read_file(const char *path)
{
	unsigned long long value;
	FILE *file = fopen(path, "re");

	CHECK(file);
	CHECK_EQ(fscanf(file, "%llu", &value), 1);
	fclose(file);
	return value;
}

/* The driver's files say the same as its ioctls, by whatever name. */
static void check_files(uint64_t used)
{
	CHECK_EQ(read_file("/sys/class/drm/card0/device/mem_info_vram_total"), 72 * MIB);
	CHECK_EQ(read_file("/sys/class/drm/card0/device/mem_info_vram_used"), used);
	CHECK_EQ(read_file("/sys/class/drm/renderD129/device/mem_info_vis_vram_used"), used);
	CHECK_EQ(read_file("/sys/dev/char/226:129/device/mem_info_vram_used"), used);
	CHECK_EQ(read_file("/sys/class/drm/renderD129/device/mem_info_gtt_used"), 0);
	CHECK_EQ(read_file("/sys/class/drm/card1/device/mem_info_vram_used"), 0);
}

static void take_40(int socket)
{
	uint64_t handle;

	open_devices();
	acquire_devices();
	CHECK_EQ(alloc_vram(0, 30 * MIB, &handle), 0);
	CHECK_EQ(alloc_vram(0, 10 * MIB, &handle), 0);
	say(socket);
	hear(socket);
}

/* The kernel's figure for a process; UINT64_MAX: it knows none. */
static uint64_t process_vram(pid_t pid, int gpu)
{
	char path[80];

	snprintf(path, sizeof(path), "/sys/class/kfd/kfd/proc/%d/vram_%u", pid, ids[gpu]);
	return access(path, R_OK) < 0 ? UINT64_MAX : read_file(path);
}

static bool is_listed(pid_t pid)
{
	DIR *dir = opendir("/sys/devices/virtual/kfd/kfd/proc");
	struct dirent *entry;
	bool found = false;

	CHECK(dir);
	while ((entry = readdir(dir)))
		found |= atoi(entry->d_name) == pid;
	closedir(dir);
	return found;
}

/* What one has is counted for all, until it ends, in whatever way. */
static void test_capacity(int signal)
{
	uint64_t handle, rest;
	int socket;
	pid_t child = start(take_40, &socket);

	hear(socket);
	CHECK_EQ(vacant(0), 24 * MIB);
	CHECK_EQ(vacant(1), 64 * MIB);
	CHECK_EQ(vram_usage(0), 40 * MIB);
	check_files(40 * MIB);
	CHECK(process_vram(child, 0) == 40 * MIB && process_vram(child, 1) == 0);
	CHECK_EQ(process_vram(getpid(), 0), 0);
	CHECK(is_listed(child) && is_listed(getpid()));
	CHECK_EQ(alloc_vram(0, 24 * MIB + 4096, &handle), -ENOMEM);
	CHECK_EQ(alloc_vram(0, 24 * MIB, &handle), 0);
	CHECK_EQ(alloc_vram(0, 4096, &rest), -ENOMEM);
	if (!signal)
		say(socket);
	CHECK_EQ(process_vram(getpid(), 0), 24 * MIB);
	end(child, signal);
	CHECK_EQ(alloc_vram(0, 40 * MIB, &rest), 0); /* without having asked before */
	CHECK_EQ(vacant(0), 0);
	CHECK_EQ(free_memory(rest), 0);
	CHECK_EQ(free_memory(handle), 0);
	CHECK_EQ(vacant(0), 64 * MIB);
	CHECK_EQ(process_vram(child, 0), UINT64_MAX);
	CHECK(!is_listed(child) && is_listed(getpid()));
	close(socket);
}

/* Memory by handles of render nodes is the GPU's, and in no figure that KFD has of a process. */
static void test_buffers(void)
{
	union drm_amdgpu_gem_create a = {
		.in = {.bo_size = 8 * MIB, .domains = AMDGPU_GEM_DOMAIN_VRAM}};

	CHECK_EQ(drm(render[0], _IOWR('d', DRM_NR_AMDGPU_GEM_CREATE, a), &a), 0);
	check_files(8 * MIB);
	CHECK_EQ(vacant(0), 56 * MIB);
	CHECK_EQ(process_vram(getpid(), 0), 0);
	CHECK_EQ(close_handle(render[0], a.out.handle), 0);
}

static void run_another(int socket)
{
	uint64_t handle;

	open_devices();
	acquire_devices();
	CHECK_EQ(alloc_vram(0, 30 * MIB, &handle), 0);
	say(socket);
	hear(socket);
	execlp("sleep", "sleep", "60", NULL); /* which closes the socket */
}

/* Neither a child nor another program in its place inherits what a process has. */
static void test_inheritance(void)
{
	uint64_t handle;
	char byte;
	int socket;
	pid_t idle, child = start(take_40, &socket);

	hear(socket);
	end(child, SIGKILL);
	close(socket);
	CHECK_EQ(alloc_vram(0, 30 * MIB, &handle), 0);
	idle = fork();
	if (!idle) {
		pause();
		_exit(0);
	}
	CHECK_EQ(free_memory(handle), 0);
	CHECK_EQ(vacant(0), 64 * MIB);
	end(idle, SIGKILL);

	child = start(run_another, &socket);
	hear(socket);
	CHECK_EQ(vacant(0), 34 * MIB);
	say(socket);
	CHECK_EQ(read(socket, &byte, 1), 0);
	while (vacant(0) != 64 * MIB) /* the kernel closes the one after the other */
		usleep(1000);
	end(child, SIGKILL);
	close(socket);
}

/* Memory that is freed stays while a program has it mapped. */
static void test_mapped_memory(void)
{
	uint64_t handle, offset;
	char *here;

	CHECK_EQ(alloc_flags(0, MIB, VRAM, &handle, &offset), 0);
	here = mmap(NULL, MIB, PROT_READ | PROT_WRITE, MAP_SHARED, render[0], (off_t)offset);
	CHECK(here != MAP_FAILED);
	CHECK_EQ(free_memory(handle), 0);
	strcpy(here, "content");
	CHECK_EQ(vacant(0), 63 * MIB);
	CHECK_EQ(munmap(here, MIB), 0);
	CHECK_EQ(vacant(0), 64 * MIB);
}

static void look_at_parent(int socket)
{
	open_devices();
	say(socket);
	for (;;) {
		process_vram(getppid(), 0);
		usleep(50);
	}
}

#define LOOKERS 3

/* A file tells what is so now, whoever else is about to look at it. */
static void test_lookers(void)
{
	pid_t child[LOOKERS];
	int socket[LOOKERS];
	uint64_t handle;

	for (int i = 0; i < LOOKERS; i++) {
		child[i] = start(look_at_parent, &socket[i]);
		hear(socket[i]);
	}
	for (int turn = 0; turn < 1000; turn++) {
		CHECK_EQ(alloc_vram(0, MIB, &handle), 0);
		CHECK_EQ(process_vram(getpid(), 0), MIB);
		CHECK_EQ(free_memory(handle), 0);
		CHECK_EQ(process_vram(getpid(), 0), 0);
	}
	for (int i = 0; i < LOOKERS; i++) {
		end(child[i], SIGKILL);
		close(socket[i]);
	}
}

#define TAKERS 6
#define TURNS  400

static void take_and_free(int turns)
{
	uint64_t handle[4] = {0};
	uint32_t seed = (uint32_t)getpid();

	for (int turn = 0; turn < turns; turn++) {
		uint64_t *h;
		int r;

		seed = seed * 1103515245 + 12345;
		h = &handle[seed >> 16 & 3];
		if (*h)
			CHECK_EQ(free_memory(*h), 0);
		*h = 0;
		CHECK(vacant(0) <= 64 * MIB); /* never below nothing */
		r = alloc_vram(0, ((seed >> 20 & 7) + 1) * MIB, h);
		CHECK(r == 0 || r == -ENOMEM);
		if (r < 0)
			*h = 0;
	}
}

static void take_for_a_while(int socket)
{
	open_devices();
	acquire_devices();
	hear(socket);
	take_and_free(TURNS);
	say(socket);
	hear(socket);
}

static void take_until_killed(int socket)
{
	open_devices();
	acquire_devices();
	hear(socket);
	take_and_free(INT32_MAX);
}

/* Killed at any moment, they leave nothing that would be counted, or in the way. */
static void test_crowd(void)
{
	pid_t child[TAKERS];
	int socket[TAKERS];
	uint64_t handle;
	struct bank *bank;
	char root[PATH_MAX];

	snprintf(root, sizeof(root), "%s/amd", getenv("ALLOT_SIM_DIR"));
	CHECK_EQ(bank_open(root, &bank), 0);
	bank_reset_peak(bank, 0);
	CHECK_EQ(bank_peak(bank, 0), 0);
	for (int i = 0; i < TAKERS; i++)
		child[i] = start(i % 2 ? take_for_a_while : take_until_killed, &socket[i]);
	for (int i = 0; i < TAKERS; i++)
		say(socket[i]);
	for (int i = 0; i < TAKERS; i += 2) {
		usleep(2000);
		end(child[i], SIGKILL);
	}
	for (int i = 1; i < TAKERS; i += 2) {
		hear(socket[i]);
		say(socket[i]);
		end(child[i], 0);
	}
	for (int i = 0; i < TAKERS; i++)
		close(socket[i]);
	CHECK_EQ(vacant(0), 64 * MIB);
	CHECK(bank_peak(bank, 0) > 8 * MIB && bank_peak(bank, 0) <= 64 * MIB);
	CHECK_EQ(alloc_vram(0, 64 * MIB, &handle), 0);
	CHECK_EQ(bank_peak(bank, 0), 64 * MIB);
	CHECK_EQ(free_memory(handle), 0);
}

int main(void)
{
	check_files(0); /* for who has opened no device, too */
	open_devices();
	acquire_devices();
	test_buffers();
	test_capacity(0);
	test_capacity(SIGKILL);
	test_inheritance();
	test_mapped_memory();
	test_lookers();
	test_crowd();
	return 0;
}
