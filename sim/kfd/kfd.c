/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ioctls of /dev/kfd. As in the kernel a block is copied in as far as the caller knows it, reads
 * zero beyond, and is copied back as far. Ioctls that are not emulated (debugging) answer
 * ENOTTY, and stand in the trace.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "amd/abi/kfd.h"
#include "amd/kfd_ioctl.h"
#include "sim/kfd/emu.h"
#include "sim/kfd/gem.h"
#include "sim/kfd/handles.h"
#include "sim/kfd/queue.h"
#include "sim/kfd/user.h"

/*
 * With 1.14 came the ages of events, with 1.15 that GEM_VA maps where queues find it; debugging, of
 * 1.13, is not here. Before EXPORT_DMABUF it was 1.11.
 */
#define EMULATED_MINOR	    15
#define MINOR_BEFORE_EXPORT 11

/* Room for any block: the longest one has attributes at its end. */
#define SVM_BYTES                                                                                  \
	(sizeof(struct kfd_ioctl_svm_args) +                                                       \
	 EMU_SVM_ATTRIBUTES * sizeof(struct kfd_ioctl_svm_attribute))
#define BLOCK_BYTES SVM_BYTES

/*
 * Where GPUs of generation 9 and later see their local memory and scratch, and the rest: all that
 * is below the hole of addresses that are not canonical.
 */
#define LDS_BASE     (UINT64_C(1) << 48)
#define SCRATCH_BASE (UINT64_C(2) << 48)
#define APERTURE     UINT64_C(0xffffffff)
#define GPUVM_LIMIT  UINT64_C(0x7fffffffffff)

/* ALLOT_SIM_AMD_VERSION=1.24 only says so: there is no more. */
static int kfd_get_version(struct emu_machine *m, void *block)
{
	struct kfd_ioctl_get_version_args *a = block;
	const char *asked = getenv("ALLOT_SIM_AMD_VERSION");

	*a = (struct kfd_ioctl_get_version_args){
		.major_version = KFD_IOCTL_MAJOR_VERSION,
		.minor_version =
			emu_lacks(KFD_NR_EXPORT_DMABUF) ? MINOR_BEFORE_EXPORT : EMULATED_MINOR};
	if (asked)
		sscanf(asked, "%" SCNu32 ".%" SCNu32, &a->major_version, &a->minor_version);
	return emu_meet_held();
}

static void kfd_fill_apertures(const struct emu_gpu *gpu, struct kfd_process_device_apertures *ret)
{
	*ret = (struct kfd_process_device_apertures){
		.lds_base = LDS_BASE,
		.lds_limit = LDS_BASE | APERTURE,
		.scratch_base = SCRATCH_BASE,
		.scratch_limit = SCRATCH_BASE | APERTURE,
		.gpuvm_base = EMU_GPUVM_BASE,
		.gpuvm_limit = GPUVM_LIMIT,
		.gpu_id = gpu->gpu_id,
	};
}

static int kfd_get_apertures(struct emu_machine *m, void *block)
{
	struct kfd_ioctl_get_process_apertures_args *a = block;

	a->num_of_nodes = m->ngpus < NUM_OF_SUPPORTED_GPUS ? m->ngpus : NUM_OF_SUPPORTED_GPUS;
	for (uint32_t i = 0; i < a->num_of_nodes; i++)
		kfd_fill_apertures(&m->gpu[i], &a->process_apertures[i]);
	return 0;
}

static int kfd_get_apertures_new(struct emu_machine *m, void *block)
{
	struct kfd_ioctl_get_process_apertures_new_args *a = block;
	struct kfd_process_device_apertures found[TREE_GPUS];
	uint32_t room = a->num_of_nodes;

	if (!room) {
		a->num_of_nodes = m->ngpus;
		return 0;
	}
	a->num_of_nodes = m->ngpus < room ? m->ngpus : room;
	for (uint32_t i = 0; i < a->num_of_nodes; i++)
		kfd_fill_apertures(&m->gpu[i], &found[i]);
	return user_copy_out(a->kfd_process_device_apertures_ptr, found,
			    a->num_of_nodes * sizeof(found[0]));
}

static int kfd_acquire_vm(struct emu_machine *m, void *block)
{
	const struct kfd_ioctl_acquire_vm_args *a = block;
	struct emu_gpu *gpu = emu_gpu(m, a->gpu_id);

	uint64_t file;
	int r;

	if (!gpu || fcntl((int)a->drm_fd, F_GETFD) < 0)
		return -EINVAL;
	file = emu_file_of((int)a->drm_fd);
	if (gpu->acquired)
		return gpu->file == file ? 0 : -EBUSY;
	/* A node of any GPU will do; a file has one address space, which is one GPU's then. */
	if (emu_minor_of((int)a->drm_fd) <= EMU_FILE_KFD)
		return -EINVAL;
	r = handles_add_vm(bank_handles(m->bank), file, emu_minor_of((int)a->drm_fd));
	if (r < 0)
		return r == -EEXIST ? -EINVAL : r;
	return emu_acquire(gpu, (int)a->drm_fd);
}

/* Each begins with what there is no use for here, and has the GPU's id where `at` says. */
static int kfd_accept(struct emu_machine *m, const void *block, size_t at)
{
	uint32_t gpu_id;

	memcpy(&gpu_id, (const char *)block + at, sizeof(gpu_id));
	return emu_gpu(m, gpu_id) ? 0 : -EINVAL;
}

static int kfd_set_memory_policy(struct emu_machine *m, void *block)
{
	return kfd_accept(m, block, offsetof(struct kfd_ioctl_set_memory_policy_args, gpu_id));
}

static int kfd_set_scratch(struct emu_machine *m, void *block)
{
	return kfd_accept(m, block, offsetof(struct kfd_ioctl_set_scratch_backing_va_args, gpu_id));
}

static int kfd_set_trap_handler(struct emu_machine *m, void *block)
{
	return kfd_accept(m, block, offsetof(struct kfd_ioctl_set_trap_handler_args, gpu_id));
}

static uint64_t kfd_now_ns(clockid_t clock)
{
	struct timespec t;

	clock_gettime(clock, &t);
	return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

/* The CPU's clocks are told for no GPU, too. */
static int kfd_get_clocks(struct emu_machine *m, void *block)
{
	struct kfd_ioctl_get_clock_counters_args *a = block;

	a->gpu_clock_counter = emu_gpu(m, a->gpu_id) ? emu_gpu_clock() : 0;
	a->cpu_clock_counter = kfd_now_ns(CLOCK_MONOTONIC_RAW);
	a->system_clock_counter = kfd_now_ns(CLOCK_BOOTTIME);
	a->system_clock_freq = 1000000000;
	return 0;
}

static int kfd_get_tile_config(struct emu_machine *m, void *block)
{
	struct kfd_ioctl_get_tile_config_args *a = block;

	if (!emu_gpu(m, a->gpu_id))
		return -EINVAL;
	a->num_tile_configs = a->num_macro_tile_configs = 0;
	a->gb_addr_config = 0x2a114042;
	a->num_banks = 2;
	a->num_ranks = 1;
	return 0;
}

/*
 * Whether page faults of GPUs are answered. ALLOT_SIM_AMD_XNACK=1 is a machine that can do it, where
 * processes begin with it on. That nothing follows from it here is the emulator's business.
 */
static int kfd_set_xnack_mode(struct emu_machine *m, void *block)
{
	struct kfd_ioctl_set_xnack_mode_args *a = block;
	const char *can = getenv("ALLOT_SIM_AMD_XNACK");

	if (a->xnack_enabled < 0) {
		a->xnack_enabled = can && !m->xnack_off;
		return 0;
	}
	if (emu_has_queues())
		return -EBUSY;
	if (a->xnack_enabled && !can)
		return -EPERM;
	m->xnack_off = !a->xnack_enabled;
	return 0;
}

/* A debugger would be told now that there is a program to look at. */
static int kfd_enable_runtime(struct emu_machine *m, void *block)
{
	struct kfd_ioctl_runtime_enable_args *a = block;

	a->capabilities_mask = 0;
	return 0;
}

typedef int handler_fn(struct emu_machine *machine, void *block);

static handler_fn *const handlers[256] = {
	[KFD_NR_GET_VERSION] = kfd_get_version,
	[KFD_NR_CREATE_QUEUE] = emu_create_queue,
	[KFD_NR_DESTROY_QUEUE] = emu_destroy_queue,
	[KFD_NR_UPDATE_QUEUE] = emu_update_queue,
	[KFD_NR_SET_CU_MASK] = emu_set_cu_mask,
	[KFD_NR_GET_QUEUE_WAVE_STATE] = emu_get_wave_state,
	[KFD_NR_SET_MEMORY_POLICY] = kfd_set_memory_policy,
	[KFD_NR_GET_CLOCK_COUNTERS] = kfd_get_clocks,
	[KFD_NR_GET_PROCESS_APERTURES] = kfd_get_apertures,
	[KFD_NR_CREATE_EVENT] = emu_create_event,
	[KFD_NR_DESTROY_EVENT] = emu_destroy_event,
	[KFD_NR_SET_EVENT] = emu_set_event,
	[KFD_NR_RESET_EVENT] = emu_reset_event,
	[KFD_NR_WAIT_EVENTS] = emu_wait_events,
	[KFD_NR_SET_SCRATCH_BACKING_VA] = kfd_set_scratch,
	[KFD_NR_GET_TILE_CONFIG] = kfd_get_tile_config,
	[KFD_NR_SET_TRAP_HANDLER] = kfd_set_trap_handler,
	[KFD_NR_GET_PROCESS_APERTURES_NEW] = kfd_get_apertures_new,
	[KFD_NR_ACQUIRE_VM] = kfd_acquire_vm,
	[KFD_NR_ALLOC_MEMORY_OF_GPU] = emu_alloc,
	[KFD_NR_FREE_MEMORY_OF_GPU] = emu_free,
	[KFD_NR_MAP_MEMORY_TO_GPU] = emu_map,
	[KFD_NR_UNMAP_MEMORY_FROM_GPU] = emu_unmap,
	[KFD_NR_GET_DMABUF_INFO] = emu_get_dmabuf_info,
	[KFD_NR_IMPORT_DMABUF] = emu_import_dmabuf,
	[KFD_NR_EXPORT_DMABUF] = emu_export_dmabuf,
	[KFD_NR_SVM] = emu_svm,
	[KFD_NR_SET_XNACK_MODE] = kfd_set_xnack_mode,
	[KFD_NR_RUNTIME_ENABLE] = kfd_enable_runtime,
	[KFD_NR_CRIU_OP] = emu_criu,
	[KFD_NR_AVAILABLE_MEMORY] = emu_available,
};

/* These fail, where they are to, for one of their GPUs. */
static bool kfd_is_mapping(const struct kfd_ioctl *row)
{
	return row->nr == KFD_NR_MAP_MEMORY_TO_GPU || row->nr == KFD_NR_UNMAP_MEMORY_FROM_GPU;
}

/* As in the kernel: an open file is its opener's, and others look at him by CRIU's ioctl alone. */
static bool kfd_may_use(struct emu_machine *m, const struct kfd_ioctl *row, int fd)
{
	m->asked_by = emu_file_of(fd);
	if (m->asked_by != m->own_file && emu_criu_owner(m->asked_by) == getpid())
		m->own_file = m->asked_by;
	return m->asked_by == m->own_file || row->nr == KFD_NR_CRIU_OP;
}

static int kfd_do_call(const struct kfd_ioctl *row, int fd, unsigned long request, uint64_t arg,
		       void *block)
{
	static uint64_t calls[256]; /* under the lock */
	size_t bytes = _IOC_SIZE(request);
	size_t most = row->nr == KFD_NR_SVM ? SVM_BYTES : row->args_bytes;
	struct emu_machine *m;
	uint64_t before;
	int r;

	if (bytes > most)
		bytes = most;
	r = user_copy_in(block, arg, bytes);
	if (r < 0)
		return r;
	/* CRIU's is by a descriptor of another process. */
	m = row->nr == KFD_NR_CRIU_OP ? emu_lock_any() : emu_lock();
	if (!m)
		return -EBADF;
	emu_gem_reap(m);
	before = calls[row->nr]++;
	if (!kfd_may_use(m, row, fd))
		r = -EBADF;
	else
		r = kfd_is_mapping(row) ? 0 : emu_fail(row->nr, before);
	if (r == 0)
		r = handlers[row->nr](m, block);
	emu_hold(row->nr, before);
	emu_unlock();
	/* The kernel copies the block back after a failure, too: n_success stands in it. */
	if (_IOC_DIR(request) & _IOC_READ && user_copy_out(arg, block, bytes) < 0)
		return -EFAULT;
	return r;
}

long emu_kfd_ioctl(int fd, unsigned long request, uint64_t arg)
{
	const struct kfd_ioctl *row = kfd_ioctl_find(request);
	_Alignas(8) char block[BLOCK_BYTES] = {0};
	bool known =
		row && handlers[row->nr] && row->args_bytes <= sizeof(block) && !emu_lacks(row->nr);
	int r = known ? kfd_do_call(row, fd, request, arg, block) : -ENOTTY;

	emu_trace(row, request, known ? block : NULL, r);
	return r;
}
