/* SPDX-License-Identifier: Apache-2.0 */
#include "guest/amd/queue/queues.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "amd/kfd_ioctl.h"
#include "base/fd.h"
#include "base/futex.h"
#include "base/pages.h"
#include "guest/amd/ask.h"
#include "ledger/cu_grant.h"

/*
 * How often queues_settle looks again at what the kernel is to be told: while it asks the kernel,
 * another call of the program may change what the program wants.
 */
#define TRIES 4

struct queues *queues_made(struct amd *amd)
{
	return atomic_load_explicit(&amd->queues, memory_order_acquire);
}

struct queues *queues_get(struct guest *guest, struct amd *amd)
{
	struct queues *queues = queues_made(amd), *expected = NULL;

	if (queues)
		return queues;
	queues = pages_map(sizeof(*queues));
	if (!queues)
		return NULL;
	queues->guest = guest;
	queues->amd = amd;
	guest_depth++;
	if (allotment_open(guest->dir, &queues->allotment))
		queues->allotment = NULL;
	guest_depth--;
	if (!atomic_compare_exchange_strong(&amd->queues, &expected, queues)) {
		allotment_close(queues->allotment);
		munmap(queues, sizeof(*queues));
		queues = expected;
	}
	return queues;
}

/* Under the lock: the number here and the number in the ledger change together. */
static void queues_count(struct queues *queues, int device, int more)
{
	struct queue_device *d = &queues->device[device];

	d->n += more;
	queues->n += more;
	cu_grant_set_queues(queues->amd->slot, queues->amd->device[device].ledger, d->n);
}

bool queues_expect(struct queues *queues, int device)
{
	bool first;

	lock_take(&queues->lock);
	queues_count(queues, device, 1);
	first = queues->device[device].n == 1 || !queues->kept;
	lock_drop(&queues->lock);
	return first;
}

void queues_expect_no_more(struct queues *queues, int device)
{
	lock_take(&queues->lock);
	queues_count(queues, device, -1);
	lock_drop(&queues->lock);
}

uint64_t queues_add(struct queues *queues, const struct queue *queue, int fd)
{
	struct queue *q = &queues->queue[queue->duty.wanted.queue_id];
	uint64_t version;

	lock_take(&queues->lock);
	if (q->used) /* another thread destroyed it, and has not called queues_remove yet */
		queues_count(queues, q->device, -1);
	*q = *queue;
	q->used = true;
	q->claims = 1;
	q->version = version = ++queues->versions;
	queues->file = fd;
	if (queue->duty.wanted.queue_id >= queues->high)
		queues->high = queue->duty.wanted.queue_id + 1;
	lock_drop(&queues->lock);
	return version;
}

bool queues_claim(struct queues *queues, uint32_t id, uint64_t *ret_version)
{
	struct queue *q;
	bool used;

	if (id >= QUEUES)
		return false;
	q = &queues->queue[id];
	lock_take(&queues->lock);
	used = q->used;
	q->claims += used;
	*ret_version = q->version;
	while (used && q->telling) {
		lock_drop(&queues->lock);
		futex_wait(&q->telling, 1);
		lock_take(&queues->lock);
	}
	lock_drop(&queues->lock);
	return used;
}

void queues_release(struct queues *queues, uint32_t id, uint64_t version)
{
	struct queue *q = &queues->queue[id];

	lock_take(&queues->lock);
	if (q->version == version && q->claims)
		q->claims--;
	lock_drop(&queues->lock);
}

void queues_remove(struct queues *queues, uint32_t id, uint64_t version)
{
	struct queue *q = &queues->queue[id];

	lock_take(&queues->lock);
	if (q->used && q->version == version) {
		q->used = false;
		queues_count(queues, q->device, -1);
	}
	lock_drop(&queues->lock);
}

bool queues_open(const struct queues *queues, const struct queue *q)
{
	const struct queue_device *d = &queues->device[q->device];

	return !queues->held && (!d->hold.limited || !d->turn[q->kind].closed);
}

/* The mask that the kernel is to be told. False: there is none, or the kernel has it. */
static bool queues_mask_due(const struct queues *queues, const struct queue *q, struct cu_mask *ret)
{
	const struct queue_device *d = &queues->device[q->device];

	if (q->kind != QUEUE_COMPUTES || !d->has_map)
		return false;
	if (d->hold.limited && d->hold.masks) {
		*ret = d->hold.mask;
		if (q->own_bits)
			cu_mask_narrow(&d->map, &d->hold.mask, q->own, q->own_bits, ret);
	} else if (!q->masked) {
		return false;
	} else if (q->own_bits) {
		memcpy(ret->word, q->own, sizeof(ret->word));
	} else {
		*ret = cu_mask_all(&d->map);
	}
	return !q->masked || memcmp(ret, &q->mask, sizeof(*ret));
}

/* A copy of what the kernel is to be told of a queue. */
struct due {
	bool mask, update;
	struct kfd_ioctl_set_cu_mask_args set;
	struct cu_mask units;
	struct kfd_ioctl_update_queue_args args;
};

static bool queues_is_due(const struct queues *queues, const struct queue *q, struct due *ret)
{
	const struct queue_device *d = &queues->device[q->device];

	ret->mask = queues_mask_due(queues, q, &ret->units);
	if (ret->mask)
		ret->set = (struct kfd_ioctl_set_cu_mask_args){
			.queue_id = q->duty.wanted.queue_id,
			.num_cu_mask = cu_mask_bits(&d->map),
			.cu_mask_ptr = (uintptr_t)ret->units.word};
	ret->update = duty_queue_update(&q->duty, queues_open(queues, q), &ret->args);
	return ret->mask || ret->update;
}

/* The mask goes first: a queue that is put back on the hardware is bound by it then. */
static int queues_tell_one(struct queues *queues, struct queue *q, int fd, struct due *due)
{
	int r = 0;

	if (due->mask)
		r = amd_ask(fd, _IOW('K', KFD_NR_SET_CU_MASK, due->set), &due->set);
	if (!r && due->mask) {
		lock_take(&queues->lock);
		q->masked = true;
		q->mask = due->units;
		lock_drop(&queues->lock);
	}
	if (!r && due->update)
		r = amd_ask(fd, _IOW('K', KFD_NR_UPDATE_QUEUE, due->args), &due->args);
	if (!r && due->update) {
		lock_take(&queues->lock);
		q->duty.told = due->args.queue_percentage;
		lock_drop(&queues->lock);
	}
	return r;
}

int queues_settle(struct queues *queues, int fd, uint32_t id)
{
	struct queue *q = &queues->queue[id];
	struct due due;
	int r = 0;

	for (int i = 0; !r && i < TRIES; i++) {
		bool is;

		lock_take(&queues->lock);
		is = queues_is_due(queues, q, &due);
		lock_drop(&queues->lock);
		if (!is)
			break;
		r = queues_tell_one(queues, q, fd, &due);
	}
	return r;
}

/*
 * A descriptor of /dev/kfd for a moment. None is kept: the program might close it by its number,
 * and a forked child would hold it open. The program's own descriptor may become another file at
 * any time, so a copy of it is checked. Where no descriptor is free, the program's own has to do.
 */
static int queues_borrow(struct queues *queues, bool *ret_ours)
{
	int program, fd;

	lock_take(&queues->lock);
	program = queues->file;
	lock_drop(&queues->lock);
	*ret_ours = true;
	fd = fcntl(program, F_DUPFD_CLOEXEC, 3);
	if (fd >= 0 && amd_file(fd) == AMD_FILE_KFD)
		return fd;
	if (fd >= 0)
		close(fd);
	fd = fd_openat(AT_FDCWD, "/dev/kfd", O_RDWR, 0);
	if (fd >= 0 && amd_file(fd) == AMD_FILE_KFD)
		return fd;
	if (fd >= 0)
		close(fd);
	*ret_ours = false;
	return amd_file(program) == AMD_FILE_KFD ? program : -ENODEV;
}

/* The keeper sets `telling` if the queue is unclaimed and the kernel is to be told something. */
static bool queues_take(struct queues *queues, int device, struct queue *q, struct due *due)
{
	bool is;

	lock_take(&queues->lock);
	is = q->used && q->device == device && !q->claims && queues_is_due(queues, q, due);
	q->telling = is;
	lock_drop(&queues->lock);
	return is;
}

static void queues_leave(struct queues *queues, struct queue *q)
{
	lock_take(&queues->lock);
	q->telling = 0;
	lock_drop(&queues->lock);
	futex_wake_all(&q->telling);
}

uint32_t queues_high(struct queues *queues)
{
	uint32_t high;

	lock_take(&queues->lock);
	high = queues->high;
	lock_drop(&queues->lock);
	return high;
}

void queues_tell(struct queues *queues, int device)
{
	uint32_t high = queues_high(queues);
	bool ours = false;
	struct due due;
	int fd = -EBADF;

	for (uint32_t i = 0; i < high; i++) {
		struct queue *q = &queues->queue[i];

		if (!queues_take(queues, device, q, &due))
			continue;
		if (fd < 0)
			fd = queues_borrow(queues, &ours);
		if (fd >= 0)
			queues_tell_one(queues, q, fd, &due);
		queues_leave(queues, q);
		if (fd < 0)
			return; /* the next look tries again */
	}
	if (ours)
		close(fd);
}

int queues_hold(struct queues *queues, bool hold)
{
	uint32_t high = queues_high(queues);
	bool ours = false;
	int fd = -EBADF, r = 0;

	lock_take(&queues->lock);
	queues->held = hold;
	lock_drop(&queues->lock);
	for (uint32_t i = 0; i < high; i++) {
		uint64_t version;
		int error;

		/* With a claim the keeper passes over it. */
		if (!queues_claim(queues, i, &version))
			continue;
		if (fd < 0)
			fd = queues_borrow(queues, &ours);
		error = fd < 0 ? fd : queues_settle(queues, fd, i);
		r = error ? error : r;
		queues_release(queues, i, version);
	}
	if (fd >= 0 && ours)
		close(fd);
	return r;
}

bool queues_need(struct queues *queues, uint64_t va, uint64_t bytes)
{
	bool need = false;

	lock_take(&queues->lock);
	for (uint32_t i = 0; i < queues->high && !need; i++) {
		const struct queue *q = &queues->queue[i];
		const uint64_t used[] = {q->duty.wanted.ring_base_address, q->read_pointer,
					 q->write_pointer, q->eop, q->saves};

		for (size_t j = 0; q->used && j < sizeof(used) / sizeof(used[0]); j++)
			need |= used[j] - va < bytes;
	}
	lock_drop(&queues->lock);
	return need;
}
