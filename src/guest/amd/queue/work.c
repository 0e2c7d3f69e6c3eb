/* SPDX-License-Identifier: Apache-2.0 */
#include "guest/amd/queue/work.h"

#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "amd/kfd_ioctl.h"
#include "base/pages.h"
#include "guest/amd/ask.h"
#include "guest/amd/user.h"

/* Of an AQL packet, and of the signal whose address stands in it. */
#define PACKET_BYTES  64
#define AT_COMPLETION 56
#define AT_VALUE      8

bool queue_has_more(const struct queue *q)
{
	uint32_t read, written;

	return user_peek(&read, q->read_pointer, sizeof(read)) ||
	       user_peek(&written, q->write_pointer, sizeof(written)) || read != written;
}

/*
 * Runtimes end what they wait for with a packet that has a signal, which counts down to 0. It is
 * left in the ring until others follow.
 */
static bool queue_last_is_done(const struct queue *q, uint64_t written)
{
	uint64_t packets = q->duty.wanted.ring_size / PACKET_BYTES, at, signal;
	int64_t value;

	if (!written)
		return true;
	if (!q->aql || !packets)
		return false;
	at = q->duty.wanted.ring_base_address + (written - 1) % packets * PACKET_BYTES;
	return !user_peek(&signal, at + AT_COMPLETION, sizeof(signal)) && signal &&
	       !user_peek(&value, signal + AT_VALUE, sizeof(value)) && value <= 0;
}

static bool queue_works(const struct queue *q, uint64_t written)
{
	return queue_has_more(q) || written != q->seen ||
	       (q->kind == QUEUE_COMPUTES && !queue_last_is_done(q, written));
}

/* A copy, as the queue may be destroyed at any time. False: there is none of the number. */
static bool queues_copy(struct queues *queues, uint32_t id, struct queue *ret)
{
	lock_take(&queues->lock);
	*ret = queues->queue[id];
	lock_drop(&queues->lock);
	return ret->used;
}

static void queues_see(struct queues *queues, const struct queue *is, uint64_t written)
{
	struct queue *q = &queues->queue[is->duty.wanted.queue_id];

	lock_take(&queues->lock);
	if (q->version == is->version)
		q->seen = written;
	lock_drop(&queues->lock);
}

bool queues_work(struct queues *queues)
{
	uint32_t high = queues_high(queues);
	bool work = false;
	struct queue is;

	for (uint32_t i = 0; i < high; i++) {
		uint64_t written;

		if (!queues_copy(queues, i, &is))
			continue;
		if (user_peek(&written, is.write_pointer, sizeof(written)))
			written = is.seen + 1;
		work |= queue_works(&is, written);
		queues_see(queues, &is, written);
	}
	return work;
}

bool queues_have_more(struct queues *queues)
{
	uint32_t high = queues_high(queues);
	bool more = false;
	struct queue is;

	for (uint32_t i = 0; i < high && !more; i++)
		more = queues_copy(queues, i, &is) && queue_has_more(&is);
	return more;
}

/* The kernel writes the waves' stack, of which nothing is needed. */
static bool queue_is_amid(int fd, const struct queue *q)
{
	size_t bytes = q->stack_bytes ? q->stack_bytes : PACKET_BYTES;
	struct kfd_ioctl_get_queue_wave_state_args args = {.queue_id = q->duty.wanted.queue_id};
	void *stack = pages_reserve(bytes);
	int r;

	if (!stack)
		return true;
	args.ctl_stack_address = (uintptr_t)stack;
	r = amd_ask(fd, _IOWR('K', KFD_NR_GET_QUEUE_WAVE_STATE, args), &args);
	munmap(stack, bytes);
	return r < 0 || args.ctl_stack_used_size || args.save_area_used_size;
}

bool queues_are_amid(struct queues *queues, int fd)
{
	uint32_t high = queues_high(queues);
	bool amid = false;
	struct queue is;

	for (uint32_t i = 0; i < high && !amid; i++)
		amid = queues_copy(queues, i, &is) && is.kind == QUEUE_COMPUTES &&
		       queue_is_amid(fd, &is);
	return amid;
}
