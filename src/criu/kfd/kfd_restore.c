/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
#include "criu/kfd/kfd_restore.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "amd/kfd_ioctl.h"
#include "criu/kfd/kfd_ask.h"
#include "criu/kfd/kfd_content.h"
#include "criu/kfd/kfd_image.h"
#include "criu/kfd/kfd_plan.h"
#include "image/crc32c.h"

#define AT_KFD (KFD_IOC_ALLOC_MEM_FLAGS_DOORBELL | KFD_IOC_ALLOC_MEM_FLAGS_MMIO_REMAP)

struct kfd_restore {
	const struct kfd_calls *calls;
	struct kfd_image image;
	struct contents_seal seal;
	struct match_gpu *here;
	uint32_t nhere;
	uint32_t to[MATCH_GPUS]; /* GPUs of the image, as ones here */
};

/* A process in the middle of its restore. Arrays are by its holders. */
struct kfd_restored {
	const struct kfd_restore *restore;
	const struct kfd_image_process *process;
	const struct kfd_image_holder *holders;
	int files[KFD_RESTORED_FILES];
	bool *imported;
	uint64_t *offsets; /* NULL until the kernel has said that all is there */
	struct kfd_plan plan;
};

/* --- The image ---------------------------------------------------------------------------------
 */

static int restore_read(struct kfd_restore *re, int dir, char why[KFD_WHY_BYTES])
{
	struct damage damage = {.text = KFD_IMAGE_FILE};
	void *file = NULL;
	size_t len;
	int r = contents_get_file(dir, KFD_IMAGE_FILE, KFD_IMAGE_MAX_BYTES, &file, &len);

	if (r == 0) {
		r = kfd_image_unpack(file, len, &re->image, &damage);
		re->seal = (struct contents_seal){len, crc32c(0, file, len)};
	}
	free(file);
	return r < 0 ? kfd_say(why, r, "%s", damage.text) : 0;
}

static int restore_match(struct kfd_restore *re, const struct topology *topology,
			 unsigned int relax, char why[KFD_WHY_BYTES])
{
	const struct match_machine was = {re->image.n[KFD_IMAGE_GPUS], re->image.n[KFD_IMAGE_LINKS],
					  re->image.gpus, re->image.links};
	struct match_machine is;
	struct match_link *links;
	char reason[MATCH_WHY_BYTES];
	int r = match_read(topology, &re->nhere, &re->here, &is.nlinks, &links);

	if (r < 0)
		return kfd_say(why, r, "no room for the topology");
	is.ngpus = re->nhere;
	is.gpus = re->here;
	is.links = links;
	r = match_gpus(&was, &is, relax, re->to, reason);
	free(links);
	if (r < 0)
		snprintf(why, KFD_WHY_BYTES, "%s", reason);
	return r;
}

int kfd_restore_open(const struct kfd_calls *calls, const struct topology *topology, int dir,
		     unsigned int relax, struct kfd_restore **ret, char why[KFD_WHY_BYTES])
{
	struct kfd_restore *re = calloc(1, sizeof(*re));
	int r;

	if (!re)
		return kfd_say(why, -ENOMEM, "no room for an image");
	re->calls = calls;
	r = restore_read(re, dir, why);
	if (r == 0)
		r = restore_match(re, topology, relax, why);
	if (r < 0)
		kfd_restore_close(re);
	else
		*ret = re;
	return r;
}

void kfd_restore_close(struct kfd_restore *re)
{
	if (!re)
		return;
	kfd_image_done(&re->image);
	free(re->here);
	free(re);
}

int kfd_restore_find(const struct kfd_restore *re, uint32_t file, uint32_t *ret_process)
{
	for (uint32_t i = 0; i < re->image.n[KFD_IMAGE_PROCESSES]; i++)
		if (re->image.processes[i].file == file) {
			*ret_process = i;
			return 0;
		}
	return -ENOENT;
}

int kfd_restore_find_pid(const struct kfd_restore *re, pid_t pid, uint32_t *ret_process)
{
	for (uint32_t i = 0; i < re->image.n[KFD_IMAGE_PROCESSES]; i++)
		if (re->image.processes[i].pid == (uint32_t)pid) {
			*ret_process = i;
			return 0;
		}
	return -ENOENT;
}

uint32_t kfd_restore_processes(const struct kfd_restore *re)
{
	return re->image.n[KFD_IMAGE_PROCESSES];
}

uint32_t kfd_restore_buffers(const struct kfd_restore *re)
{
	return re->image.n[KFD_IMAGE_BUFFERS];
}

bool kfd_restore_is_shared(const struct kfd_restore *re, uint32_t buffer)
{
	return kfd_image_is_shared(&re->image, buffer);
}

uint32_t kfd_restore_minor(const struct kfd_restore *re, uint32_t minor)
{
	for (uint32_t i = 0; i < re->image.n[KFD_IMAGE_GPUS]; i++)
		if (re->image.gpus[i].render_minor == minor)
			return re->here[re->to[i]].render_minor;
	return minor;
}

/*
 * --- Its own buffers ---------------------------------------------------------------------------
 */

/* Of a render node, that which the process itself has the GPU by: only by it can it be mapped. */
static int restored_open_render(const struct kfd_restore *re, const struct kfd_image_name *name,
				const struct kfd_exchange *exchange, char why[KFD_WHY_BYTES])
{
	char path[40];
	int fd;

	snprintf(path, sizeof(path), "/dev/dri/renderD%u", re->here[re->to[name->gpu]].render_minor);
	fd = name->file && exchange->render ? exchange->render(exchange->arg, name->file)
					    : re->calls->open(path);
	return fd < 0 ? kfd_say(why, fd, "%s cannot be opened", path) : fd;
}

static int restored_open_files(struct kfd_restored *p, const struct kfd_exchange *exchange,
			       char why[KFD_WHY_BYTES])
{
	const struct kfd_restore *re = p->restore;

	p->files[0] = re->calls->open("/dev/kfd");
	if (p->files[0] < 0)
		return kfd_say(why, p->files[0], "/dev/kfd cannot be opened");
	for (uint32_t i = 0; i < p->process->ndevices; i++) {
		const struct kfd_image_name *name = &re->image.names[p->process->first_device + i];
		int fd = restored_open_render(re, name, exchange, why);

		if (fd < 0)
			return fd;
		p->files[1 + name->gpu] = fd;
	}
	return 0;
}

static int restored_ask(struct kfd_restored *p, char why[KFD_WHY_BYTES])
{
	const struct kfd_restore *re = p->restore;
	struct kfd_criu_device_bucket devices[MATCH_GPUS] = {{0}};
	int r;

	for (uint32_t i = 0; i < p->process->ndevices; i++) {
		const struct kfd_image_name *name = &re->image.names[p->process->first_device + i];

		devices[i].user_gpu_id = name->gpu_id;
		devices[i].actual_gpu_id = re->here[re->to[name->gpu]].gpu_id;
		devices[i].drm_fd = (uint32_t)p->files[1 + name->gpu];
	}
	p->plan.args.devices = (uintptr_t)devices;
	p->plan.args.num_devices = p->process->ndevices;
	r = kfd_ask_op(re->calls, p->files[0], KFD_CRIU_OP_RESTORE, &p->plan.args);
	p->plan.args.devices = 0;
	return r < 0 ? kfd_say(why, r, "the kernel does not restore /dev/kfd of process %u",
			       p->process->pid)
		     : 0;
}

static int restored_own_dmabuf(const struct kfd_restored *p, uint32_t buffer)
{
	uint32_t owner = p->restore->image.buffers[buffer].owner - p->process->first_holder;

	return (int)p->plan.bos[owner].dmabuf_fd;
}

static int restored_dmabuf(void *arg, uint32_t buffer, uint32_t *ret_minor)
{
	const struct kfd_restored *p = arg;
	const struct kfd_restore *re = p->restore;

	*ret_minor = re->here[re->to[re->image.buffers[buffer].gpu]].render_minor;
	return restored_own_dmabuf(p, buffer);
}

static int restored_publish(struct kfd_restored *p, const struct kfd_exchange *exchange,
			    char why[KFD_WHY_BYTES])
{
	const struct kfd_image *image = &p->restore->image;
	int r = 0;

	for (uint32_t i = 0; r == 0 && i < image->n[KFD_IMAGE_BUFFERS]; i++)
		if (kfd_image_owns(image, (uint32_t)(p->process - image->processes), i))
			r = exchange->publish(exchange->arg, i, restored_own_dmabuf(p, i));
	return r < 0 ? kfd_say(why, r, "a buffer of process %u is not handed on", p->process->pid)
		     : 0;
}

static int restored_run(struct kfd_restored *p, uint32_t process, int dir,
			const struct kfd_exchange *exchange, char why[KFD_WHY_BYTES])
{
	const struct kfd_restore *re = p->restore;
	int r = restored_open_files(p, exchange, why);

	if (r < 0)
		return r;
	r = kfd_plan_make(&re->image, process, &p->plan);
	if (r < 0)
		return kfd_say(why, r, "the handles of process %u cannot be restored%s", p->process->pid,
			       r == -EFBIG ? KFD_PLAN_SPARSE : "");
	r = restored_ask(p, why);
	if (r == 0)
		r = kfd_content_load(re->calls, &re->image, process, restored_dmabuf, p, dir, &re->seal,
				     why);
	return r < 0 ? r : restored_publish(p, exchange, why);
}

int kfd_restored_open(const struct kfd_restore *re, uint32_t process, int dir,
		      const struct kfd_exchange *exchange, struct kfd_restored **ret,
		      char why[KFD_WHY_BYTES])
{
	struct kfd_restored *p = calloc(1, sizeof(*p));
	int r;

	if (!p)
		return kfd_say(why, -ENOMEM, "no room for a process");
	p->restore = re;
	p->process = &re->image.processes[process];
	p->holders = re->image.holders + p->process->first_holder;
	for (int i = 0; i < KFD_RESTORED_FILES; i++)
		p->files[i] = -EBADF;
	p->imported = calloc(p->process->nholders + 1, sizeof(*p->imported));
	r = p->imported ? restored_run(p, process, dir, exchange, why)
			: kfd_say(why, -ENOMEM, "no room for a process");
	kfd_plan_close_files(&p->plan); /* the process that was to have them has them */
	if (r == 0) {
		*ret = p;
		return 0;
	}
	if (p->files[0] >= 0)
		close(p->files[0]);
	kfd_restored_close(p);
	return r;
}

void kfd_restored_close(struct kfd_restored *p)
{
	if (!p)
		return;
	for (int i = 1; i < KFD_RESTORED_FILES; i++)
		if (p->files[i] >= 0)
			close(p->files[i]);
	kfd_plan_done(&p->plan);
	free(p->imported);
	free(p->offsets);
	free(p);
}

int *kfd_restored_files(struct kfd_restored *p)
{
	return p->files;
}

/*
 * --- Imported buffers --------------------------------------------------------------------------
 */

static int restored_free(const struct kfd_restored *p, uint32_t gpu_id, uint32_t index)
{
	struct kfd_ioctl_free_memory_of_gpu_args a = {(uint64_t)gpu_id << 32 | index};

	return p->restore->calls->ioctl(p->files[0], _IOW('K', KFD_NR_FREE_MEMORY_OF_GPU, a), &a);
}

static int restored_map(const struct kfd_restored *p, const struct kfd_image_holder *h)
{
	uint32_t ids[MATCH_GPUS], n = 0;
	struct kfd_ioctl_map_memory_to_gpu_args a = {.handle = (uint64_t)h->gpu_id << 32 | h->index,
						     .device_ids_array_ptr = (uintptr_t)ids};

	for (uint32_t i = 0; i < p->process->ndevices; i++) {
		const struct kfd_image_name *name =
			&p->restore->image.names[p->process->first_device + i];

		if (h->mapped >> name->gpu & 1)
			ids[n++] = name->gpu_id;
	}
	a.n_devices = n;
	return n ? p->restore->calls->ioctl(p->files[0], _IOWR('K', KFD_NR_MAP_MEMORY_TO_GPU, a), &a)
		 : 0;
}

/* In the place of the small buffer that has kept its handle. */
static int restored_import_one(const struct kfd_restored *p, const struct kfd_image_holder *h,
			       int dmabuf)
{
	struct kfd_ioctl_import_dmabuf_args a = {
		.va_addr = h->address, .gpu_id = h->gpu_id, .dmabuf_fd = (uint32_t)dmabuf};
	int r = restored_free(p, h->gpu_id, h->index);

	if (r == 0)
		r = p->restore->calls->ioctl(p->files[0], _IOWR('K', KFD_NR_IMPORT_DMABUF, a), &a);
	if (r == 0 && a.handle != ((uint64_t)h->gpu_id << 32 | h->index))
		r = -EPROTO; /* the kernel gives handles in another order than was believed */
	return r < 0 ? r : restored_map(p, h);
}

static int restored_take(struct kfd_restored *p, uint32_t i, const struct kfd_exchange *exchange,
			 char why[KFD_WHY_BYTES])
{
	const struct kfd_image_holder *h = &p->holders[i];
	int dmabuf = exchange->take(exchange->arg, h->buffer), r;

	if (dmabuf < 0)
		return dmabuf == -EAGAIN
			       ? dmabuf
			       : kfd_say(why, dmabuf, "process %u does not get its buffer %#x",
					 p->process->pid, h->index);
	r = restored_import_one(p, h, dmabuf);
	close(dmabuf);
	if (r < 0)
		return kfd_say(why, r, "buffer %#x of GPU %u is not imported into process %u",
			       h->index, h->gpu_id, p->process->pid);
	p->imported[i] = true;
	return 0;
}

/* --- Is it so? ---------------------------------------------------------------------------------
 */

static uint64_t restored_mapped(const struct kfd_restored *p, const struct kfd_criu_bo_priv *priv)
{
	uint64_t mapped = 0;

	for (int i = 0; i < KFD_CRIU_GPUS && priv->mapped_gpuids[i]; i++) {
		int gpu = kfd_image_gpu(&p->restore->image, p->process, priv->mapped_gpuids[i]);

		mapped |= gpu < 0 ? 0 : UINT64_C(1) << gpu;
	}
	return mapped;
}

/* Finds the holder among what there is now, as it was; -1. */
static int restored_find(const struct kfd_restored *p, const struct kfd_image_holder *h,
			 const struct kfd_answer *now)
{
	const struct kfd_criu_bo_priv *privs = kfd_answer_privs(now);

	for (uint32_t i = 0; i < now->args.num_bos; i++)
		if (now->bos[i].gpu_id == h->gpu_id && privs[i].idr_handle == h->index)
			return now->bos[i].addr == h->address && now->bos[i].size == h->bytes &&
					       now->bos[i].alloc_flags == h->flags &&
					       restored_mapped(p, &privs[i]) == h->mapped
				       ? (int)i
				       : -1;
	return -1;
}

static int restored_compare(struct kfd_restored *p, const struct kfd_answer *now,
			    char why[KFD_WHY_BYTES])
{
	uint64_t *offsets = calloc(p->process->nholders + 1, sizeof(*offsets));
	int r = !offsets ? -ENOMEM : now->args.num_bos == p->process->nholders ? 0 : -EPROTO;

	for (uint32_t i = 0; r == 0 && i < p->process->nholders; i++) {
		int at = restored_find(p, &p->holders[i], now);

		if (at < 0)
			r = -EPROTO;
		else
			offsets[i] = now->bos[at].offset;
	}
	if (r < 0) {
		free(offsets);
		return kfd_say(why, r, "process %u does not have the buffers that it had",
			       p->process->pid);
	}
	p->offsets = offsets;
	return 0;
}

/* The kernel says so itself, and where they are mapped. Queues stand still anyway. */
static int restored_check(struct kfd_restored *p, char why[KFD_WHY_BYTES])
{
	struct kfd_ioctl_criu_args unpause = {0};
	struct kfd_answer now;
	int r = kfd_ask(p->restore->calls, p->files[0], &now, why);

	if (r < 0)
		return r;
	r = restored_compare(p, &now, why);
	kfd_answer_close(&now);
	if (r == 0) {
		r = kfd_ask_op(p->restore->calls, p->files[0], KFD_CRIU_OP_UNPAUSE, &unpause);
		if (r < 0)
			kfd_say(why, r, "process %u stays paused", p->process->pid);
	}
	return r;
}

int kfd_restored_import(struct kfd_restored *p, const struct kfd_exchange *exchange,
			char why[KFD_WHY_BYTES])
{
	bool missing = false;
	int r = 0;

	for (uint32_t i = 0; i < p->process->nholders; i++) {
		if (p->imported[i] || kfd_plan_is_own(&p->restore->image, p->process, i))
			continue;
		r = restored_take(p, i, exchange, why);
		missing |= r == -EAGAIN;
		if (r < 0 && r != -EAGAIN)
			return r;
	}
	if (missing)
		return -EAGAIN;
	for (; p->plan.nfillers; p->plan.nfillers--) {
		const struct kfd_filler *filler = &p->plan.fillers[p->plan.nfillers - 1];

		r = restored_free(p, filler->gpu_id, filler->index);
		if (r < 0)
			return kfd_say(why, r, "a buffer that filled a gap is not freed");
	}
	return p->offsets ? 0 : restored_check(p, why);
}

/*
 * Offsets that are no buffer of /dev/kfd: the page of events, and, where programs map them without
 * a buffer, doorbells and registers. The offset contains a GPU, by the kernel's own number, or 0.
 */
#define MMAP_GPU_SHIFT 46
#define MMAP_GPU_MASK  UINT64_C(0xffff)

static uint64_t restored_own_offset(const struct kfd_restore *re, uint64_t offset)
{
	uint64_t gpu_id = offset >> MMAP_GPU_SHIFT & MMAP_GPU_MASK;

	for (uint32_t i = 0; i < re->image.n[KFD_IMAGE_GPUS]; i++)
		if (gpu_id && (re->image.gpus[i].gpu_id & MMAP_GPU_MASK) == gpu_id)
			return (offset & ~(MMAP_GPU_MASK << MMAP_GPU_SHIFT)) |
			       (re->here[re->to[i]].gpu_id & MMAP_GPU_MASK) << MMAP_GPU_SHIFT;
	return offset;
}

int kfd_restored_offset(const struct kfd_restored *p, uint32_t render_minor, uint64_t offset,
			uint64_t *ret_offset, uint32_t *ret_file)
{
	const struct kfd_image *image = &p->restore->image;

	for (uint32_t i = 0; p->offsets && i < p->process->nholders; i++) {
		const struct kfd_image_holder *h = &p->holders[i];
		int gpu = kfd_image_gpu(image, p->process, h->gpu_id);

		if (h->offset != offset || h->flags & KFD_IOC_ALLOC_MEM_FLAGS_USERPTR ||
		    (h->flags & AT_KFD ? 0 : image->gpus[gpu].render_minor) != render_minor)
			continue;
		*ret_offset = p->offsets[i];
		*ret_file = h->flags & AT_KFD ? 0 : 1 + (uint32_t)gpu;
		return 0;
	}
	if (render_minor)
		return -ENOENT;
	*ret_offset = restored_own_offset(p->restore, offset);
	*ret_file = 0;
	return 0;
}

int kfd_restore_resume(const struct kfd_calls *calls, int kfd, pid_t pid, char why[KFD_WHY_BYTES])
{
	struct kfd_ioctl_criu_args a = {.pid = (uint32_t)pid};
	int r = kfd_ask_op(calls, kfd, KFD_CRIU_OP_RESUME, &a);

	return r < 0 ? kfd_say(why, r, "queues of process %ld do not go on", (long)pid) : 0;
}
