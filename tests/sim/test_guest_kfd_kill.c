/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Processes of a tenant that are killed at each fault point of what they pass when they use memory
 * of an emulated AMD GPU: beside one that goes on, which then must be charged for what it has and
 * no more, and once it ends all of the quota must be there.
 *
 * This process makes no call of the driver, so that each child is a program that begins.
 */
#include <sys/mman.h>

#include "base/fault.h"
#include "tests/sim/kfd_tenant.h"
#include "tests/sim/message.h"

#define SIZE  (4 * MIB)
#define STEPS 8 /* a passage of each point in each */

static void prefetch(const char *at, uint64_t size, uint32_t gpu_id)
{
	struct kfd_ioctl_svm_attribute a = {KFD_IOCTL_SVM_ATTR_PREFETCH_LOC, gpu_id};

	CHECK_EQ(svm_set(at, size, 1, &a), 0);
}

static uint32_t import(int fd, uint64_t *ret_handle)
{
	struct kfd_ioctl_import_dmabuf_args a = {
		.va_addr = 1u << 31, .gpu_id = ids[0], .dmabuf_fd = (uint32_t)fd};
	struct drm_prime_handle prime = {.fd = fd};

	CHECK_EQ(call(KFD_IOWR(IMPORT_DMABUF, a), &a), 0);
	CHECK_EQ(drm(render[0], _IOWR('d', DRM_NR_PRIME_FD_TO_HANDLE, prime), &prime), 0);
	*ret_handle = a.handle;
	return prime.handle;
}

/* All of the ways, and a refusal. `fd` is memory of the other's. */
static void work(int fd)
{
	union drm_amdgpu_gem_create buffer = {
		.in = {.bo_size = SIZE, .domains = AMDGPU_GEM_DOMAIN_VRAM}};
	char *here = mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	uint64_t handle, theirs, more;
	uint32_t prime;
	int mine;

	CHECK_EQ(alloc_vram(0, SIZE, &handle), 0);
	CHECK_EQ(drm(render[0], _IOWR('d', DRM_NR_AMDGPU_GEM_CREATE, buffer), &buffer), 0);
	prefetch(here, SIZE, ids[0]);
	prime = import(fd, &theirs);
	CHECK_EQ(alloc_vram(0, QUOTA - SIZE, &more), -ENOMEM);
	mine = export_memory(handle);
	CHECK_EQ(free_memory(handle), 0);
	close(mine);
	CHECK_EQ(free_memory(theirs), 0);
	CHECK_EQ(close_handle(render[0], prime), 0);
	CHECK_EQ(close_handle(render[0], buffer.out.handle), 0);
	prefetch(here, SIZE / 2, 0);
	CHECK_EQ(munmap(here, SIZE), 0);
}

static void victim(int socket)
{
	char byte;
	int fd;

	CHECK_EQ(message_receive(socket, &byte, 1, &fd), 1);
	open_devices();
	acquire_devices();
	for (int i = 0; i < STEPS; i++)
		work(fd);
	say(socket);
	raise(SIGKILL);
}

/* Has one piece, which it exports, until it is told to end. */
static void neighbour(int socket)
{
	uint64_t handle, more;
	int fd;

	open_devices();
	acquire_devices();
	name_devices();
	CHECK_EQ(alloc_vram(0, SIZE, &handle), 0);
	fd = export_memory(handle);
	CHECK_EQ(message_send(socket, "", 1, fd), 1);
	close(fd);
	hear(socket);
	CHECK_EQ(charged(0), SIZE);
	CHECK_EQ(alloc_vram(0, QUOTA - SIZE, &more), 0);
	CHECK_EQ(free_memory(more), 0);
	CHECK_EQ(alloc_vram(0, QUOTA - SIZE + PAGE, &more), -ENOMEM);
	CHECK_EQ(free_memory(handle), 0);
	check_all_free(0);
}

/* Whether the victim came to that point, so often. */
static bool kill_at(const char *point, unsigned int passage)
{
	char fault[64], byte;
	int other, socket, fd;
	bool survived;
	pid_t other_pid = start(neighbour, &other), pid;

	CHECK_EQ(message_receive(other, &byte, 1, &fd), 1);
	snprintf(fault, sizeof(fault), "%s:%u", point, passage);
	setenv("ALLOT_FAULT", fault, 1);
	pid = start(victim, &socket);
	unsetenv("ALLOT_FAULT");
	CHECK_EQ(message_send(socket, "", 1, fd), 1);
	close(fd);
	end(pid, SIGKILL);
	survived = read(socket, &byte, 1) == 1;
	close(socket);
	say(other);
	end(other_pid, 0);
	close(other);
	return !survived;
}

/* Those that this program's calls do pass. */
static bool is_passed(int point)
{
	switch (point) {
	case FAULT_SLOT_CLAIMED:
	case FAULT_RESERVE_PUBLISHED:
	case FAULT_RESERVE_ADMITTED:
	case FAULT_RESERVE_RETRACTED:
	case FAULT_SLOW_LOCKED:
	case FAULT_SLOW_RECLAIMED:
	case FAULT_SLOW_PUBLISHED:
	case FAULT_SLOW_SETTLED:
	case FAULT_COMMIT_ADDED:
	case FAULT_COMMIT_DONE:
	case FAULT_RELEASED:
	case FAULT_SHARED_FILLED:
	case FAULT_SHARED_HELD:
	case FAULT_SHARED_ADDED:
	case FAULT_SHARED_UNCOVERED:
	case FAULT_SHARED_DROPPED:
	case FAULT_GUEST_RESERVED:
	case FAULT_GUEST_DRIVER_GAVE:
	case FAULT_GUEST_DRIVER_TOOK:
	case FAULT_GUEST_EXPORTED:
		return true;
	}
	return false;
}

int main(void)
{
	if (fault_arm(NULL))
		return 77;
	srand((unsigned int)getpid());
	for (int point = 0; point < FAULT_POINT_N; point++) {
		unsigned int passage = 1;

		/* Of the others most are in code that is not called here: a third of them each time. */
		if (!is_passed(point) && rand() % 3)
			continue;
		fprintf(stderr, "%s\n", fault_name((enum fault_point)point));
		while (passage <= 7 && kill_at(fault_name((enum fault_point)point), passage))
			passage += 3;
		CHECK(passage > 1 || !is_passed(point));
	}
	return 0;
}
