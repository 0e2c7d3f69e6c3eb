/* SPDX-License-Identifier: Apache-2.0 */
/* The trace: lines for ioctls, and for queues that stop or end. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "amd/abi/drm.h"
#include "amd/abi/kfd.h"
#include "amd/kfd_ioctl.h"
#include "sim/kfd/queue.h"
#include "sim/kfd/user.h"

/* The ids that a mapping names, as far as they can be read. */
static int trace_put_gpus(char *text, size_t size, const struct kfd_ioctl_map_memory_to_gpu_args *a)
{
	uint32_t ids[TREE_GPUS];
	uint32_t count = a->n_devices < TREE_GPUS ? a->n_devices : TREE_GPUS;
	int n = snprintf(text, size, " handle=%#llx done=%u/%u", (unsigned long long)a->handle,
			 a->n_success, a->n_devices);

	if (user_copy_in(ids, a->device_ids_array_ptr, count * sizeof(ids[0])) < 0)
		return n;
	for (uint32_t i = 0; i < count && (size_t)n < size; i++)
		n += snprintf(text + n, size - (size_t)n, "%s%u", i ? "," : " gpus=", ids[i]);
	return n;
}

static int trace_put_queue(char *text, size_t size, const struct kfd_ioctl *row, const void *block)
{
	const struct kfd_ioctl_create_queue_args *create = block;
	const struct kfd_ioctl_update_queue_args *update = block;
	const struct kfd_ioctl_set_cu_mask_args *mask = block;
	const struct kfd_ioctl_destroy_queue_args *destroy = block;

	switch ((enum kfd_nr)row->nr) {
	case KFD_NR_CREATE_QUEUE:
		return snprintf(text, size, " gpu=%u type=%u percent=%u queue=%u", create->gpu_id,
				create->queue_type, create->queue_percentage, create->queue_id);
	case KFD_NR_UPDATE_QUEUE:
		return snprintf(text, size, " queue=%u percent=%u", update->queue_id,
				update->queue_percentage);
	case KFD_NR_SET_CU_MASK:
		return snprintf(text, size, " queue=%u bits=%u", mask->queue_id, mask->num_cu_mask);
	case KFD_NR_DESTROY_QUEUE:
		return snprintf(text, size, " queue=%u", destroy->queue_id);
	default:
		return 0;
	}
}

/* The arguments that readers of the trace compare: the GPU, the size, the handle. */
static int trace_put_arguments(char *text, size_t size, const struct kfd_ioctl *row,
			       const void *block)
{
	const struct kfd_ioctl_alloc_memory_of_gpu_args *alloc = block;
	const struct kfd_ioctl_map_memory_to_gpu_args *map = block;
	const struct kfd_ioctl_acquire_vm_args *vm = block;
	const struct kfd_ioctl_import_dmabuf_args *import = block;
	const struct kfd_ioctl_get_dmabuf_info_args *info = block;
	const struct kfd_ioctl_svm_args *svm = block;
	const struct kfd_ioctl_criu_args *criu = block;

	switch ((enum kfd_nr)row->nr) {
	case KFD_NR_ACQUIRE_VM:
		return snprintf(text, size, " gpu=%u", vm->gpu_id);
	case KFD_NR_ALLOC_MEMORY_OF_GPU:
		return snprintf(text, size, " gpu=%u size=%llu flags=%#x handle=%#llx",
				alloc->gpu_id, (unsigned long long)alloc->size, alloc->flags,
				(unsigned long long)alloc->handle);
	case KFD_NR_MAP_MEMORY_TO_GPU:
	case KFD_NR_UNMAP_MEMORY_FROM_GPU:
		return trace_put_gpus(text, size, map);
	case KFD_NR_IMPORT_DMABUF:
		return snprintf(text, size, " gpu=%u handle=%#llx", import->gpu_id,
				(unsigned long long)import->handle);
	case KFD_NR_GET_DMABUF_INFO:
		return snprintf(text, size, " gpu=%u size=%llu flags=%#x", info->gpu_id,
				(unsigned long long)info->size, info->flags);
	case KFD_NR_SVM:
		return snprintf(text, size, " size=%llu op=%u attributes=%u",
				(unsigned long long)svm->size, svm->op, svm->nattr);
	case KFD_NR_CRIU_OP:
		return snprintf(text, size, " op=%u devices=%u buffers=%u objects=%u", criu->op,
				criu->num_devices, criu->num_bos, criu->num_objects);
	case KFD_NR_EXPORT_DMABUF: /* begins with the same */
	case KFD_NR_FREE_MEMORY_OF_GPU:
		return snprintf(text, size, " handle=%#llx", (unsigned long long)map->handle);
	default:
		return trace_put_queue(text, size, row, block);
	}
}

/* Writes a line at once, so that lines of several processes do not mix. */
static void trace_put_line(const char *path, const char *text, int n)
{
	int fd = (int)syscall(SYS_openat, AT_FDCWD, path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC,
			      0666);

	if (fd < 0)
		return;
	if (write(fd, text, (size_t)n) < 0)
		n = 0; /* a trace that cannot be written is no reason to stop the program */
	close(fd);
}

void emu_trace(const struct kfd_ioctl *row, unsigned long request, const void *block, int r)
{
	const char *path = getenv("ALLOT_SIM_AMD_TRACE");
	char text[640]; /* room for the ids of TREE_GPUS GPUs */
	int n;

	if (!path || !*path)
		return;
	n = snprintf(text, sizeof(text), "%d %s", getpid(), row ? row->name : "?");
	if (!row)
		n += snprintf(text + n, sizeof(text) - (size_t)n, " request=%#lx", request);
	else if (block)
		n += trace_put_arguments(text + n, sizeof(text) - (size_t)n, row, block);
	n += snprintf(text + n, sizeof(text) - (size_t)n, " = %s\n",
		      r < 0 ? strerrorname_np(-r) : "0");
	trace_put_line(path, text, n);
}

/* A buffer goes by its number in one open file. Answers overwrite what was asked. */
void emu_trace_drm(const struct emu_gpu *gpu, unsigned int nr, const void *asked, const void *block,
		   int r)
{
	const char *path = getenv("ALLOT_SIM_AMD_TRACE");
	const struct drm_amdgpu_gem_create_in *create = asked;
	const struct drm_amdgpu_gem_va *va = asked;
	uint32_t handle;
	char text[256];
	int n;

	if (!path || !*path)
		return;
	memcpy(&handle, block, sizeof(handle)); /* what most blocks begin with */
	n = snprintf(text, sizeof(text), "%d %s gpu=%u", getpid(), emu_drm_name(nr), gpu->gpu_id);
	if (nr != DRM_NR_AMDGPU_GEM_MMAP && nr != DRM_NR_AMDGPU_GEM_LIST_HANDLES)
		n += snprintf(text + n, sizeof(text) - (size_t)n, " handle=%u", handle);
	if (nr == DRM_NR_AMDGPU_GEM_CREATE)
		n += snprintf(text + n, sizeof(text) - (size_t)n, " size=%llu domains=%#llx",
			      (unsigned long long)create->bo_size,
			      (unsigned long long)create->domains);
	if (nr == DRM_NR_AMDGPU_GEM_VA)
		n += snprintf(text + n, sizeof(text) - (size_t)n, " op=%u size=%llu flags=%#x",
			      va->operation, (unsigned long long)va->map_size, va->flags);
	n += snprintf(text + n, sizeof(text) - (size_t)n, " = %s\n",
		      r < 0 ? strerrorname_np(-r) : "0");
	trace_put_line(path, text, n);
}

/* A person whose program runs kernels is to know why it waits for ever. */
void emu_trace_stop(const struct emu_queue *q, bool fault, uint64_t address)
{
	const char *path = getenv("ALLOT_SIM_AMD_TRACE");
	char text[128];
	int n;

	if (!fault)
		fprintf(stderr,
			"allot sim: queue %u of GPU %u stopped: it has a packet that is not "
			"emulated; kernels never are\n",
			q->is.id, q->gpu->gpu_id);
	if (!path || !*path)
		return;
	n = snprintf(text, sizeof(text), "%d queue %u of gpu %u stopped: ", getpid(), q->is.id,
		     q->gpu->gpu_id);
	if (fault)
		n += snprintf(text + n, sizeof(text) - (size_t)n, "nothing mapped at %#llx\n",
			      (unsigned long long)address);
	else
		n += snprintf(text + n, sizeof(text) - (size_t)n,
			      "a packet that is not emulated\n");
	trace_put_line(path, text, n);
}

void emu_trace_end(const struct emu_queue *q, const struct roster_times *times)
{
	const char *path = getenv("ALLOT_SIM_AMD_TRACE");
	char text[256];
	int n, cus = 0;

	if (!path || !*path)
		return;
	for (int i = 0; i < ROSTER_MASK_WORDS; i++)
		cus += __builtin_popcount(q->is.mask[i]);
	n = snprintf(text, sizeof(text),
		     "%d queue %u of gpu %u ended: type=%u cus=%d life_ns=%llu active_ns=%llu "
		     "busy_ns=%llu copied_bytes=%llu\n",
		     getpid(), q->is.id, q->gpu->gpu_id, q->is.type, cus,
		     (unsigned long long)times->life_ns, (unsigned long long)times->active_ns,
		     (unsigned long long)times->busy_ns, (unsigned long long)q->copied_bytes);
	trace_put_line(path, text, n);
}
