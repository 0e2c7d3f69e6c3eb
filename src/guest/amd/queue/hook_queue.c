/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Calls about queues. A new queue has the tenant's mask before the program learns its number, and
 * so before the program can put work into it. A mask of the program's own is narrowed to the
 * tenant's.
 */
#include "guest/amd/queue/queue.h"

#include <errno.h>
#include <string.h>
#include <sys/ioctl.h>

#include "guest/amd/ask.h"
#include "guest/amd/queue/hold.h"
#include "guest/amd/queue/keeper.h"
#include "guest/amd/user.h"

static bool amd_queue_copies(uint32_t type)
{
	return type == KFD_IOC_QUEUE_TYPE_SDMA || type == KFD_IOC_QUEUE_TYPE_SDMA_XGMI ||
	       type == KFD_IOC_QUEUE_TYPE_SDMA_BY_ENG_ID;
}

static struct queue amd_queue_describe(const struct kfd_ioctl_create_queue_args *a, int device)
{
	return (struct queue){
		.kind = amd_queue_copies(a->queue_type) ? QUEUE_COPIES : QUEUE_COMPUTES,
		.device = device,
		.duty.wanted = {.ring_base_address = a->ring_base_address,
				.ring_size = a->ring_size,
				.queue_percentage = a->queue_percentage,
				.queue_priority = a->queue_priority},
		.read_pointer = a->read_pointer_address,
		.write_pointer = a->write_pointer_address,
		.eop = a->eop_buffer_address,
		.saves = a->ctx_save_restore_address,
		.aql = a->queue_type == KFD_IOC_QUEUE_TYPE_COMPUTE_AQL,
		.stack_bytes = a->ctl_stack_size,
	};
}

static int amd_queue_destroy_as(struct amd_call *call, uint32_t id)
{
	struct kfd_ioctl_destroy_queue_args a = {.queue_id = id};

	return amd_ask(call->fd, _IOWR('K', KFD_NR_DESTROY_QUEUE, a), &a);
}

/*
 * A queue that the kernel has just made gets its mask, and a keeper. Where either fails, the queue
 * is destroyed again.
 */
static int amd_queue_adopt(struct amd_call *call, struct queues *queues, const struct queue *queue)
{
	uint32_t id = queue->duty.wanted.queue_id;
	uint64_t version;
	int r;

	if (id >= QUEUES) {
		amd_queue_destroy_as(call, id);
		queues_expect_no_more(queues, queue->device);
		return -ENOMEM;
	}
	version = queues_add(queues, queue, call->fd);
	r = queues_settle(queues, call->fd, id);
	if (!r && queue_keeper_need(queues, queue->device))
		r = -ENOMEM;
	if (!r) {
		queues_release(queues, id, version);
	} else {
		amd_queue_destroy_as(call, id);
		queues_remove(queues, id, version);
	}
	return r;
}

/* Makes `queue` as the program wants it, but off the hardware while the tenant's turn is over. */
static int amd_queue_create_as(struct amd_call *call, struct queues *queues, struct queue *queue)
{
	struct kfd_ioctl_create_queue_args *a = call->block;
	int r;

	lock_take(&queues->lock);
	queue->duty.told = duty_percentage(a->queue_percentage, queues_open(queues, queue));
	lock_drop(&queues->lock);
	a->queue_percentage = queue->duty.told;
	r = amd_call_kernel(call);
	a->queue_percentage = queue->duty.wanted.queue_percentage;
	if (r < 0) {
		queues_expect_no_more(queues, queue->device);
		return r;
	}
	queue->duty.wanted.queue_id = a->queue_id;
	return amd_queue_adopt(call, queues, queue);
}

/* A block without room for the kernel's answer is refused: nobody could tell which queue it is. */
static int amd_queue_create(struct amd_call *call, struct queues *queues)
{
	const struct kfd_ioctl_create_queue_args *a = call->block;
	struct amd_device *device = amd_device(call->amd, a->gpu_id);
	struct queue queue;
	int i;

	if (!device || !device->ours || !AMD_CALL_HAS(call, kfd_ioctl_create_queue_args, queue_id))
		return -EINVAL;
	i = (int)(device - call->amd->device);
	call->request = _IOC(_IOC_READ | _IOC_WRITE, 'K', KFD_NR_CREATE_QUEUE, call->bytes);
	queue = amd_queue_describe(a, i);
	/* Without a keeper nobody has looked lately what other tenants do. */
	if (queues_expect(queues, i) || queue_hold_is_old(queues, i))
		queue_hold_refresh(queues, i, true);
	return amd_queue_create_as(call, queues, &queue);
}

static int amd_queue_destroy(struct amd_call *call, struct queues *queues)
{
	const struct kfd_ioctl_destroy_queue_args *a = call->block;
	uint64_t version;
	int r;

	if (!queues_claim(queues, a->queue_id, &version))
		return amd_call_kernel(call);
	r = amd_call_kernel(call);
	if (r < 0)
		queues_release(queues, a->queue_id, version);
	else
		queues_remove(queues, a->queue_id, version);
	return r;
}

/*
 * Notes what the program wants as soon as the kernel has accepted it. Another thread may have
 * destroyed the queue meanwhile, and its number may be another queue's: the version tells.
 */
static int amd_queue_update(struct amd_call *call, struct queues *queues)
{
	struct kfd_ioctl_update_queue_args *a = call->block;
	const struct kfd_ioctl_update_queue_args wanted = *a;
	struct queue *q;
	uint64_t version;
	int r;

	if (!queues_claim(queues, a->queue_id, &version))
		return amd_call_kernel(call);
	q = &queues->queue[wanted.queue_id];
	lock_take(&queues->lock);
	a->queue_percentage = duty_percentage(a->queue_percentage, queues_open(queues, q));
	lock_drop(&queues->lock);
	r = amd_call_kernel(call);
	if (r >= 0) {
		lock_take(&queues->lock);
		if (q->version == version)
			q->duty = (struct duty_queue){.wanted = wanted,
						      .told = a->queue_percentage};
		lock_drop(&queues->lock);
		queues_settle(queues, call->fd, wanted.queue_id); /* else the keeper does */
	}
	a->queue_percentage = wanted.queue_percentage;
	queues_release(queues, wanted.queue_id, version);
	return r;
}

/* The program's mask is narrowed where the tenant has one, and else told as it is. */
static int amd_queue_set_mask(struct amd_call *call, struct queues *queues, uint32_t id,
			      uint64_t version, const uint32_t *words, uint32_t bits)
{
	struct kfd_ioctl_set_cu_mask_args args = {.queue_id = id, .num_cu_mask = bits};
	struct queue *q = &queues->queue[id];
	const struct queue_device *d;
	struct cu_mask mask = {{0}};
	int r = 0;

	memcpy(mask.word, words, sizeof(mask.word));
	lock_take(&queues->lock);
	d = &queues->device[q->device];
	if (d->hold.limited && d->hold.masks) {
		r = cu_mask_narrow(&d->map, &d->hold.mask, words, bits, &mask);
		args.num_cu_mask = cu_mask_bits(&d->map);
	}
	lock_drop(&queues->lock);
	args.cu_mask_ptr = (uintptr_t)mask.word;
	if (!r)
		r = amd_ask(call->fd, _IOW('K', KFD_NR_SET_CU_MASK, args), &args);
	if (r)
		return r;
	lock_take(&queues->lock);
	if (q->version == version) {
		q->own_bits = bits;
		memcpy(q->own, words, sizeof(q->own));
		q->masked = true;
		q->mask = mask;
	}
	lock_drop(&queues->lock);
	return queues_settle(queues, call->fd, id);
}

static int amd_queue_mask_call(struct amd_call *call, struct queues *queues)
{
	const struct kfd_ioctl_set_cu_mask_args *a = call->block;
	uint32_t words[CU_MASK_WORDS] = {0}, bits = a->num_cu_mask;
	uint64_t version;
	int r;

	if (!bits || bits % 32)
		return -EINVAL;
	if (bits > CU_MASK_BITS) /* what is beyond the kernel drops */
		bits = CU_MASK_BITS;
	if (user_read(words, a->cu_mask_ptr, bits / 8))
		return -EFAULT;
	if (!queues_claim(queues, a->queue_id, &version))
		return -EFAULT; /* as the kernel says of one that is not there */
	r = amd_queue_set_mask(call, queues, a->queue_id, version, words, bits);
	queues_release(queues, a->queue_id, version);
	return r;
}

int amd_queue_call(struct amd_call *call)
{
	struct queues *queues = queues_get(call->guest, call->amd);

	if (!queues)
		return -ENOMEM;
	switch (_IOC_NR(call->request)) {
	case KFD_NR_CREATE_QUEUE:
		return amd_queue_create(call, queues);
	case KFD_NR_DESTROY_QUEUE:
		return amd_queue_destroy(call, queues);
	case KFD_NR_UPDATE_QUEUE:
		return amd_queue_update(call, queues);
	default:
		return amd_queue_mask_call(call, queues);
	}
}
