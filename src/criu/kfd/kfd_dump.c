/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
#include "criu/kfd/kfd_dump.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>

#include "criu/kfd/kfd_ask.h"
#include "criu/kfd/kfd_content.h"
#include "criu/kfd/kfd_image.h"
#include "criu/kfd/kfd_plan.h"
#include "image/crc32c.h"

#define CONTENT (KFD_IOC_ALLOC_MEM_FLAGS_VRAM | KFD_IOC_ALLOC_MEM_FLAGS_GTT)

/* Beside the image's list of the same number. */
struct identity {
	ino_t inode;
	int dmabuf; /* of the answer that has it */
};

struct process {
	int kfd;
	struct kfd_answer answer;
};

struct kfd_dump {
	const struct kfd_calls *calls;
	struct kfd_image image;
	struct identity *identities;
	struct process *processes;
};

int kfd_dump_open(const struct kfd_calls *calls, const struct topology *topology,
		  struct kfd_dump **ret)
{
	struct kfd_dump *d = calloc(1, sizeof(*d));
	int r = d ? match_read(topology, &d->image.n[KFD_IMAGE_GPUS], &d->image.gpus,
			       &d->image.n[KFD_IMAGE_LINKS], &d->image.links)
		  : -ENOMEM;

	if (r < 0) {
		free(d);
		return r;
	}
	d->calls = calls;
	if (getrandom(d->image.id, sizeof(d->image.id), 0) < 0)
		memset(d->image.id, 0, sizeof(d->image.id));
	*ret = d;
	return 0;
}

void kfd_dump_close(struct kfd_dump *d)
{
	struct kfd_ioctl_criu_args args = {0};

	if (!d)
		return;
	for (uint32_t i = 0; i < d->image.n[KFD_IMAGE_PROCESSES]; i++) {
		kfd_ask_op(d->calls, d->processes[i].kfd, KFD_CRIU_OP_UNPAUSE, &args);
		kfd_answer_close(&d->processes[i].answer);
	}
	kfd_image_done(&d->image);
	free(d->identities);
	free(d->processes);
	free(d);
}

/* --- Which buffer it is ------------------------------------------------------------------------
 */

int kfd_dump_find(const struct kfd_dump *d, ino_t inode, uint32_t *ret_buffer)
{
	for (uint32_t i = 0; i < d->image.n[KFD_IMAGE_BUFFERS]; i++)
		if (d->identities[i].inode == inode) {
			*ret_buffer = i;
			return 0;
		}
	return -ENOENT;
}

int kfd_dump_find_at(const struct kfd_dump *d, uint32_t minor, uint64_t offset, uint32_t *ret_buffer)
{
	const struct kfd_image *image = &d->image;

	for (uint32_t i = 0; i < image->n[KFD_IMAGE_HOLDERS]; i++) {
		const struct kfd_image_holder *h = &image->holders[i];
		int gpu = kfd_image_gpu(image, &image->processes[h->process], h->gpu_id);

		if (h->buffer != KFD_IMAGE_NONE && h->offset == offset && gpu >= 0 &&
		    image->gpus[gpu].render_minor == minor) {
			*ret_buffer = h->buffer;
			return 0;
		}
	}
	return -ENOENT;
}

static int dump_add_buffer(struct kfd_dump *d, ino_t inode, int dmabuf,
			   const struct kfd_image_buffer *buffer, uint32_t *ret)
{
	struct identity *grown =
		reallocarray(d->identities, d->image.n[KFD_IMAGE_BUFFERS] + 1, sizeof(*grown));
	int64_t added;

	if (!grown)
		return -ENOMEM;
	d->identities = grown;
	added = kfd_image_add(&d->image, KFD_IMAGE_BUFFERS, buffer, 1);
	if (added < 0)
		return (int)added;
	grown[added] = (struct identity){inode, dmabuf};
	*ret = (uint32_t)added;
	return 0;
}

/*
 * True if these may be the flags of an imported buffer, which are always the same. The kernel does
 * not tell imports, so a process with other flags must be the one that made the buffer.
 */
static bool dump_may_be_import(uint32_t flags)
{
	uint32_t always = KFD_IOC_ALLOC_MEM_FLAGS_WRITABLE | KFD_IOC_ALLOC_MEM_FLAGS_EXECUTABLE;

	return flags == (always | KFD_IOC_ALLOC_MEM_FLAGS_VRAM) ||
	       flags == (always | KFD_IOC_ALLOC_MEM_FLAGS_GTT);
}

/* Fills the holder's buffer, by the bucket's dma-buf; the holder gets the number `number`. */
static int dump_identify(struct kfd_dump *d, const struct kfd_criu_bo_bucket *bo, uint32_t gpu,
			 uint32_t number, struct kfd_image_holder *holder)
{
	struct kfd_image_buffer new = {.bytes = bo->size, .owner = number, .gpu = gpu}, *b;
	struct stat st;
	int r;

	if (fstat((int)bo->dmabuf_fd, &st) < 0)
		return -errno;
	r = kfd_dump_find(d, st.st_ino, &holder->buffer);
	if (r < 0)
		return dump_add_buffer(d, st.st_ino, (int)bo->dmabuf_fd, &new, &holder->buffer);
	b = &d->image.buffers[holder->buffer];
	if (b->bytes != bo->size)
		return -EPROTO;
	if (b->owner != KFD_IMAGE_NONE && dump_may_be_import(d->image.holders[b->owner].flags) &&
	    !dump_may_be_import(bo->alloc_flags)) {
		b->owner = number;
		b->gpu = gpu;
	}
	return 0;
}

/* --- A process ---------------------------------------------------------------------------------
 */

static int dump_add_names(struct kfd_dump *d, const struct kfd_answer *a,
			  struct kfd_image_process *process)
{
	process->first_device = d->image.n[KFD_IMAGE_NAMES];
	process->ndevices = a->args.num_devices;
	for (uint32_t i = 0; i < a->args.num_devices; i++) {
		struct kfd_image_name name = {.gpu_id = a->devices[i].user_gpu_id};
		int64_t r;

		while (name.gpu < d->image.n[KFD_IMAGE_GPUS] &&
		       d->image.gpus[name.gpu].gpu_id != a->devices[i].actual_gpu_id)
			name.gpu++;
		if (name.gpu == d->image.n[KFD_IMAGE_GPUS])
			return -ENODEV;
		r = kfd_image_add(&d->image, KFD_IMAGE_NAMES, &name, 1);
		if (r < 0)
			return (int)r;
	}
	return 0;
}

static int dump_add_holder(struct kfd_dump *d, const struct kfd_answer *a, uint32_t i,
			   const struct kfd_image_process *process)
{
	const struct kfd_criu_bo_bucket *bo = &a->bos[i];
	const struct kfd_criu_bo_priv *priv = &kfd_answer_privs(a)[i];
	struct kfd_image_holder holder = {.address = bo->addr,
					  .bytes = bo->size,
					  .offset = bo->offset,
					  .process = d->image.n[KFD_IMAGE_PROCESSES],
					  .buffer = KFD_IMAGE_NONE,
					  .gpu_id = bo->gpu_id,
					  .index = priv->idr_handle,
					  .flags = bo->alloc_flags};
	int gpu = kfd_image_gpu(&d->image, process, bo->gpu_id), mapped, r = 0;
	int64_t added;

	for (int j = 0; j < KFD_CRIU_GPUS && priv->mapped_gpuids[j]; j++) {
		mapped = kfd_image_gpu(&d->image, process, priv->mapped_gpuids[j]);
		if (mapped < 0)
			return -ENODEV;
		holder.mapped |= UINT64_C(1) << mapped;
	}
	if (gpu < 0)
		return -ENODEV;
	if (bo->dmabuf_fd != KFD_INVALID_FD && bo->alloc_flags & CONTENT)
		r = dump_identify(d, bo, (uint32_t)gpu, d->image.n[KFD_IMAGE_HOLDERS], &holder);
	if (r < 0)
		return r;
	added = kfd_image_add(&d->image, KFD_IMAGE_HOLDERS, &holder, 1);
	return added < 0 ? (int)added : 0;
}

static int dump_add_answer(struct kfd_dump *d, const struct kfd_answer *a, uint32_t file)
{
	struct kfd_image_process process = {.pid = a->args.pid,
					    .file = file,
					    .nobjects = a->args.num_objects,
					    .nholders = a->args.num_bos,
					    .first_holder = d->image.n[KFD_IMAGE_HOLDERS],
					    .priv_bytes = (uint32_t)a->args.priv_data_size};
	int64_t r = dump_add_names(d, a, &process);

	for (uint32_t i = 0; r == 0 && i < a->args.num_bos; i++)
		r = dump_add_holder(d, a, i, &process);
	if (r < 0)
		return (int)r;
	r = kfd_image_add(&d->image, KFD_IMAGE_BYTES, a->priv, process.priv_bytes);
	if (r < 0)
		return (int)r;
	process.priv_at = (uint64_t)r;
	r = kfd_image_add(&d->image, KFD_IMAGE_PROCESSES, &process, 1);
	return r < 0 ? (int)r : 0;
}

int kfd_dump_add(struct kfd_dump *d, int kfd, uint32_t file, char why[KFD_WHY_BYTES])
{
	uint32_t n = d->image.n[KFD_IMAGE_PROCESSES];
	struct process *grown = reallocarray(d->processes, n + 1, sizeof(*grown));
	struct kfd_ioctl_criu_args unpause = {0};
	struct kfd_answer answer;
	int r;

	if (!grown)
		return kfd_say(why, -ENOMEM, "no room for another process");
	d->processes = grown;
	r = kfd_ask(d->calls, kfd, &answer, why);
	if (r < 0)
		return r;
	r = dump_add_answer(d, &answer, file);
	if (r < 0) {
		kfd_say(why, r, "what process %u has of /dev/kfd makes no sense", answer.args.pid);
		kfd_answer_close(&answer);
		kfd_ask_op(d->calls, kfd, KFD_CRIU_OP_UNPAUSE, &unpause);
		return r;
	}
	d->processes[n] = (struct process){kfd, answer};
	return 0;
}

/* --- All of it ---------------------------------------------------------------------------------
 */

bool kfd_dump_is_made(const struct kfd_dump *d, uint32_t buffer)
{
	uint32_t owner = d->image.buffers[buffer].owner;

	return owner != KFD_IMAGE_NONE && !dump_may_be_import(d->image.holders[owner].flags);
}

void kfd_dump_join(struct kfd_dump *d,
		   uint32_t (*find)(void *arg, uint32_t process, uint32_t minor), void *arg)
{
	for (uint32_t i = 0; i < d->image.n[KFD_IMAGE_PROCESSES]; i++) {
		const struct kfd_image_process *p = &d->image.processes[i];

		for (uint32_t j = 0; j < p->ndevices; j++) {
			struct kfd_image_name *name = &d->image.names[p->first_device + j];

			name->file = find(arg, i, d->image.gpus[name->gpu].render_minor);
		}
	}
}

int kfd_dump_addresses(const struct kfd_dump *d, uint32_t file,
		       int (*each)(void *arg, uint64_t address, uint64_t bytes), void *arg)
{
	const struct kfd_image *image = &d->image;
	int r = 0;

	for (uint32_t i = 0; r == 0 && i < image->n[KFD_IMAGE_HOLDERS]; i++) {
		const struct kfd_image_holder *h = &image->holders[i];
		const struct kfd_image_process *p = &image->processes[h->process];
		const struct kfd_image_name *names = image->names + p->first_device;

		for (uint32_t j = 0; r == 0 && j < p->ndevices; j++)
			if (names[j].file == file && h->mapped >> names[j].gpu & 1)
				r = each(arg, h->address, kfd_image_times(h) * h->bytes);
	}
	return r;
}

void kfd_dump_give(struct kfd_dump *d, uint32_t buffer)
{
	d->image.buffers[buffer].owner = KFD_IMAGE_NONE;
}

/*
 * ROCm's library makes memory of a GPU with flags that no import has. So if all holders look like
 * importers, the maker is not among them, and a restore would not share the memory with it any
 * more. Memory of the host may be made with those flags, and then any holder can make it again.
 */
static int dump_check_owners(const struct kfd_dump *d, char why[KFD_WHY_BYTES])
{
	for (uint32_t i = 0; i < d->image.n[KFD_IMAGE_BUFFERS]; i++) {
		const struct kfd_image_holder *owner;

		if (d->image.buffers[i].owner == KFD_IMAGE_NONE)
			continue;
		owner = &d->image.holders[d->image.buffers[i].owner];
		if (owner->flags & KFD_IOC_ALLOC_MEM_FLAGS_VRAM && !kfd_dump_is_made(d, i))
			return kfd_say(why, -EXDEV,
				       "process %u has buffer %#x of GPU %u from a process that is "
				       "not among those that are saved",
				       d->image.processes[owner->process].pid, owner->index,
				       owner->gpu_id);
	}
	return 0;
}

static int dump_dmabuf(void *arg, uint32_t buffer, uint32_t *ret_minor)
{
	const struct kfd_dump *d = arg;

	*ret_minor = d->image.gpus[d->image.buffers[buffer].gpu].render_minor;
	return d->identities[buffer].dmabuf;
}

/* A state that no restore can make is refused now, while the processes can continue. */
static int dump_check_handles(const struct kfd_dump *d, char why[KFD_WHY_BYTES])
{
	for (uint32_t i = 0; i < d->image.n[KFD_IMAGE_PROCESSES]; i++) {
		struct kfd_plan plan;
		int r = kfd_plan_make(&d->image, i, &plan);

		if (r < 0)
			return kfd_say(why, r, "the handles of process %u cannot be restored%s",
				       d->image.processes[i].pid, r == -EFBIG ? KFD_PLAN_SPARSE : "");
		kfd_plan_done(&plan);
	}
	return 0;
}

int kfd_dump_write(struct kfd_dump *d, int dir, int level, char why[KFD_WHY_BYTES])
{
	struct contents_seal seal;
	void *file;
	size_t len;
	int r = dump_check_owners(d, why);

	if (r < 0)
		return r;
	r = kfd_image_pack(&d->image, &file, &len);
	if (r < 0)
		return kfd_say(why, r, "what the kernel says of the processes makes no sense");
	r = dump_check_handles(d, why);
	if (r < 0) {
		free(file);
		return r;
	}
	seal = (struct contents_seal){len, crc32c(0, file, len)};
	r = kfd_content_save(d->calls, &d->image, dump_dmabuf, d, dir, level, &seal, why);
	if (r == 0 && (r = contents_put_file(dir, KFD_IMAGE_FILE, file, len)) < 0)
		kfd_say(why, r, "%s cannot be written", KFD_IMAGE_FILE);
	free(file);
	return r;
}
