/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Naming a GPU that the tenant does not have, which has two of three: every call answers as the
 * kernel does for one that is not there, and takes and maps nothing.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "sim/kfd/bank.h"
#include "tests/sim/kfd_program.h"
#include "tests/sim/message.h"

#define HIDDEN	  0
#define HIDDEN_ID 10111

/* More than are copied at once. */
#define MANY 1000

static void open_all(void)
{
	kfd = open("/dev/kfd", O_RDWR | O_CLOEXEC);
	CHECK(kfd >= 0);
	ids[HIDDEN] = HIDDEN_ID;
	for (int i = 1; i < GPUS; i++) {
		struct kfd_ioctl_acquire_vm_args a;
		char path[32];

		ids[i] = HIDDEN_ID + 111 * (uint32_t)i;
		snprintf(path, sizeof(path), "/dev/dri/renderD%d", 129 + i);
		render[i] = open(path, O_RDWR | O_CLOEXEC);
		CHECK(render[i] >= 0);
		a = (struct kfd_ioctl_acquire_vm_args){(uint32_t)render[i], ids[i]};
		CHECK_EQ(call(_IOW('K', KFD_NR_ACQUIRE_VM, a), &a), 0);
	}
}

#define REFUSED(name, type, ...)                                                                   \
	do {                                                                                       \
		struct type args_ = {__VA_ARGS__}, before_ = args_;                                \
		CHECK_EQ(call(KFD_IOWR(name, args_), &args_), -EINVAL);                            \
		CHECK(!memcmp(&args_, &before_, sizeof(args_)));                                   \
	} while (0)

static void test_named(void)
{
	struct kfd_ioctl_get_clock_counters_args clocks = {.gpu_id = HIDDEN_ID};

	REFUSED(SET_MEMORY_POLICY, kfd_ioctl_set_memory_policy_args, .gpu_id = HIDDEN_ID);
	REFUSED(SET_SCRATCH_BACKING_VA, kfd_ioctl_set_scratch_backing_va_args, .gpu_id = HIDDEN_ID);
	REFUSED(GET_TILE_CONFIG, kfd_ioctl_get_tile_config_args, .gpu_id = HIDDEN_ID);
	REFUSED(SET_TRAP_HANDLER, kfd_ioctl_set_trap_handler_args, .gpu_id = HIDDEN_ID);
	REFUSED(ACQUIRE_VM, kfd_ioctl_acquire_vm_args, .drm_fd = (uint32_t)render[1],
		.gpu_id = HIDDEN_ID);
	REFUSED(SMI_EVENTS, kfd_ioctl_smi_events_args, .gpuid = HIDDEN_ID);
	REFUSED(ALLOC_MEMORY_OF_GPU, kfd_ioctl_alloc_memory_of_gpu_args, .va_addr = 1u << 30,
		.size = MIB, .gpu_id = HIDDEN_ID, .flags = VRAM);
	REFUSED(ALLOC_MEMORY_OF_GPU, kfd_ioctl_alloc_memory_of_gpu_args, .size = 8192,
		.gpu_id = HIDDEN_ID, .flags = KFD_IOC_ALLOC_MEM_FLAGS_DOORBELL);
	/* It has clocks of the CPU, as for a node without a GPU. */
	CHECK_EQ(call(KFD_IOWR(GET_CLOCK_COUNTERS, clocks), &clocks), 0);
	CHECK(clocks.system_clock_counter && !clocks.gpu_clock_counter);
	CHECK_EQ(clocks.gpu_id, HIDDEN_ID);
}

/* What comes before it is mapped, as where the kernel finds none of that name. */
static void test_map(void)
{
	uint32_t some[3] = {ids[1], HIDDEN_ID, ids[1]}, many[MANY], done = 0;
	uint64_t handle;

	CHECK_EQ(alloc_vram(1, MIB, &handle), 0);
	CHECK_EQ(map(handle, some, 3, &done), -EINVAL);
	CHECK_EQ(done, 1);
	CHECK_EQ(map(handle, some, 3, &done), -EINVAL);
	CHECK_EQ(done, 1);
	CHECK_EQ(unmap(handle, some, 3), -EINVAL);
	CHECK_EQ(free_memory(handle), 0); /* it was unmapped that far */
	CHECK_EQ(alloc_vram(1, MIB, &handle), 0);
	for (int i = 0; i < MANY; i++)
		many[i] = i == MANY - 1 ? HIDDEN_ID : ids[1];
	done = 0;
	CHECK_EQ(map(handle, many, MANY, &done), -EINVAL);
	CHECK_EQ(done, MANY - 1);
	done = 0;
	CHECK_EQ(map(handle, many, MANY - 1, &done), 0);
	CHECK_EQ(done, MANY - 1);
	CHECK_EQ(unmap(handle, many, MANY - 1), -EINVAL); /* behind the first it is so already */
	CHECK_EQ(free_memory(handle), 0);
}

static int set(const char *at, uint32_t type, uint32_t value)
{
	struct kfd_ioctl_svm_attribute a = {type, value};

	return svm_set(at, MIB, 1, &a);
}

static void test_svm(void)
{
	char *here = mmap(NULL, MIB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	for (uint32_t type = KFD_IOCTL_SVM_ATTR_PREFERRED_LOC; type <= KFD_IOCTL_SVM_ATTR_NO_ACCESS;
	     type++) {
		CHECK_EQ(set(here, type, HIDDEN_ID), -EINVAL);
		CHECK_EQ(set(here, type, ids[1]), 0);
	}
	CHECK_EQ(munmap(here, MIB), 0);
}

/* Of no tenant: it has the GPU, and hands out memory of it. */
static int outside(int socket)
{
	uint64_t handle;

	open_devices();
	acquire_devices();
	CHECK_EQ(alloc_vram(HIDDEN, MIB, &handle), 0);
	CHECK_EQ(message_send(socket, "", 1, export_memory(handle)), 1);
	return 0;
}

static void test_dmabuf(const char *program)
{
	int pair[2], fd;
	char number[16], byte;
	pid_t child;

	CHECK_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
	snprintf(number, sizeof(number), "%d", pair[1]);
	child = fork();
	if (!child) {
		leave_tenant();
		run_past_library(program, number);
		_exit(1);
	}
	CHECK_EQ(message_receive(pair[0], &byte, 1, &fd), 1);
	end(child, 0);
	REFUSED(GET_DMABUF_INFO, kfd_ioctl_get_dmabuf_info_args, .dmabuf_fd = (uint32_t)fd);
	for (int i = 0; i < GPUS; i++)
		REFUSED(IMPORT_DMABUF, kfd_ioctl_import_dmabuf_args, .va_addr = 1u << 30,
			.gpu_id = ids[i], .dmabuf_fd = (uint32_t)fd);
	close(fd);
}

int main(int argc, char **argv)
{
	struct bank *bank;
	char root[256];

	if (argc > 1)
		return outside(atoi(argv[1]));
	open_all();
	test_named();
	test_map();
	test_svm();
	test_dmabuf(argv[0]);
	snprintf(root, sizeof(root), "%s/amd", getenv("ALLOT_SIM_DIR"));
	CHECK_EQ(bank_open(root, &bank), 0);
	for (int i = 0; i < GPUS; i++)
		CHECK_EQ(bank_used(bank, (uint32_t)i, VRAM), 0);
	return 0;
}
