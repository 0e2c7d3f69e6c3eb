/* SPDX-License-Identifier: Apache-2.0 */
/*
 * CRIU's RESTORE: this process becomes what another one was, from its buckets and private data, in
 * the order of the kernel and with its checks. The process's GPUs keep the names that they had
 * there. What fails in the middle leaves what is done: the process is to end.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "amd/abi/kfd_criu.h"
#include "base/cleanup.h"
#include "sim/kfd/gem.h"
#include "sim/kfd/memory.h"
#include "sim/kfd/queue.h"
#include "sim/kfd/user.h"

#define MOST_BYTES (UINT64_C(64) << 20) /* of private data */
#define MOST_BOS   (1u << 20)

/* The private data that is still to be read. */
struct rest {
	const char *at;
	uint64_t n;
};

static int restore_take(struct rest *rest, void *ret, size_t len)
{
	if (len > rest->n)
		return -EINVAL;
	memcpy(ret, rest->at, len);
	rest->at += len;
	rest->n -= len;
	return 0;
}

static int restore_head(struct emu_machine *m, struct rest *rest)
{
	struct kfd_criu_process_priv head;
	int r = restore_take(rest, &head, sizeof(head));

	if (r < 0)
		return r;
	if (head.version != KFD_CRIU_PRIV_VERSION)
		return -EINVAL;
	if (head.xnack_mode && !getenv("ALLOT_SIM_AMD_XNACK"))
		return -EPERM;
	m->xnack_off = !head.xnack_mode;
	return 0;
}

static struct emu_gpu *restore_actual(struct emu_machine *m, uint32_t actual_id)
{
	for (uint32_t i = 0; i < m->ngpus; i++)
		if (m->gpu[i].actual_id == actual_id)
			return &m->gpu[i];
	return NULL;
}

static int restore_device(struct emu_machine *m, const struct kfd_criu_device_bucket *bucket)
{
	struct emu_gpu *gpu = restore_actual(m, bucket->actual_gpu_id);

	if (!bucket->user_gpu_id || !gpu || gpu->acquired)
		return -EINVAL;
	gpu->gpu_id = bucket->user_gpu_id;
	if (emu_gpu_of_minor(m, emu_minor_of((int)bucket->drm_fd)) != gpu ||
	    emu_acquire(gpu, (int)bucket->drm_fd) < 0)
		return -EINVAL;
	return 0;
}

static int restore_devices(struct emu_machine *m, const struct kfd_ioctl_criu_args *a,
			   struct rest *rest)
{
	struct kfd_criu_device_bucket buckets[TREE_GPUS];
	struct kfd_criu_device_priv unused;
	int r = 0;

	if (a->num_devices != m->ngpus)
		return -EINVAL;
	if (user_copy_in(buckets, a->devices, a->num_devices * sizeof(buckets[0])) < 0)
		return -EFAULT;
	for (uint32_t i = 0; r == 0 && i < a->num_devices; i++)
		r = restore_device(m, &buckets[i]);
	for (uint32_t i = 0; r == 0 && i < a->num_devices; i++)
		r = restore_take(rest, &unused, sizeof(unused));
	return r;
}

static int restore_map(struct emu_machine *m, struct emu_object *o,
		       const struct kfd_criu_bo_priv *priv)
{
	int r = 0;

	for (uint32_t i = 0; r == 0 && i < m->ngpus && priv->mapped_gpuids[i]; i++)
		r = emu_object_map(m, o, priv->mapped_gpuids[i], true);
	return r;
}

/* Always memory of its own: the kernel imports nothing here. */
static int restore_object(struct emu_machine *m, struct kfd_criu_bo_bucket *bucket,
			  const struct kfd_criu_bo_priv *priv)
{
	struct emu_object o = {.va = bucket->addr,
			       .size = bucket->size,
			       .users = priv->user_addr,
			       .gpu_id = bucket->gpu_id,
			       .flags = bucket->alloc_flags};
	int r = emu_gpu(m, o.gpu_id) ? emu_object_make(m, &o) : -ENODEV;

	if (r < 0)
		return r;
	r = emu_object_add_at(m, &o, priv->idr_handle);
	if (r < 0) {
		bank_drop(m->bank, &o.piece);
		return r;
	}
	bucket->restored_offset = emu_object_offset(emu_gpu(m, o.gpu_id), &o);
	bucket->dmabuf_fd = KFD_INVALID_FD;
	r = restore_map(m, emu_object(m, o.handle), priv);
	if (r < 0 || !o.piece.key)
		return r;
	r = bank_fd(m->bank, &o.piece, BANK_DMABUF, O_RDWR);
	if (r < 0)
		return r;
	bucket->dmabuf_fd = (uint32_t)r;
	return 0;
}

static int restore_objects(struct emu_machine *m, const struct kfd_ioctl_criu_args *a,
			   struct rest *rest)
{
	CLEANUP_FREE struct kfd_criu_bo_bucket *buckets = NULL;
	struct kfd_criu_bo_priv priv;
	uint32_t i = 0;
	int r = 0;

	if (a->num_bos > MOST_BOS || a->num_bos * sizeof(priv) > rest->n)
		return -EINVAL;
	buckets = calloc(a->num_bos + 1, sizeof(*buckets));
	if (!buckets)
		return -ENOMEM;
	if (user_copy_in(buckets, a->bos, a->num_bos * sizeof(*buckets)) < 0)
		return -EFAULT;
	for (; r == 0 && i < a->num_bos; i++) {
		restore_take(rest, &priv, sizeof(priv));
		buckets[i].dmabuf_fd = KFD_INVALID_FD;
		r = restore_object(m, &buckets[i], &priv);
	}
	if (r == 0)
		r = user_copy_out(a->bos, buckets, a->num_bos * sizeof(*buckets));
	while (r < 0 && i--)
		if (buckets[i].dmabuf_fd != KFD_INVALID_FD)
			close((int)buckets[i].dmabuf_fd);
	return r;
}

static int restore_queue(struct emu_machine *m, struct rest *rest)
{
	struct kfd_criu_queue_priv saved;
	struct emu_queue_state state = {0};
	int r = restore_take(rest, &saved, sizeof(saved));

	if (r == 0)
		r = saved.mqd_size == sizeof(state) && !saved.ctl_stack_size ? 0 : -EINVAL;
	if (r == 0)
		r = restore_take(rest, &state, sizeof(state));
	if (r == 0)
		r = emu_engine_start();
	return r < 0 ? r : emu_queue_restore(m, &saved, &state);
}

static int restore_event(struct rest *rest)
{
	struct kfd_criu_event_priv saved;
	int r = restore_take(rest, &saved, sizeof(saved));

	return r < 0 ? r : emu_event_restore(&saved);
}

static int restore_rest(struct emu_machine *m, uint32_t n, struct rest *rest)
{
	int r = 0;

	for (uint32_t i = 0; r == 0 && i < n; i++) {
		uint32_t type;

		if (rest->n < sizeof(type))
			return -EINVAL;
		memcpy(&type, rest->at, sizeof(type));
		if (type == KFD_CRIU_OBJECT_TYPE_QUEUE)
			r = restore_queue(m, rest);
		else if (type == KFD_CRIU_OBJECT_TYPE_EVENT)
			r = restore_event(rest);
		else
			r = -EINVAL;
	}
	return r == 0 && rest->n ? -EINVAL : r;
}

int emu_criu_restore(struct emu_machine *m, const struct kfd_ioctl_criu_args *a)
{
	CLEANUP_FREE char *data = NULL;
	struct rest rest = {.n = a->priv_data_size};
	int r;

	if ((a->num_bos && !a->bos) || !a->devices || !a->priv_data || !a->priv_data_size ||
	    a->priv_data_size > MOST_BYTES || !a->num_devices)
		return -EINVAL;
	rest.at = data = malloc(a->priv_data_size);
	if (!data)
		return -ENOMEM;
	if (user_copy_in(data, a->priv_data, a->priv_data_size) < 0)
		return -EFAULT;
	m->evicted++; /* until RESUME */
	r = restore_head(m, &rest);
	if (r == 0)
		r = restore_devices(m, a, &rest);
	if (r == 0)
		r = restore_objects(m, a, &rest);
	return r < 0 ? r : restore_rest(m, a->num_objects, &rest);
}
