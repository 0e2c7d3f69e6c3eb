/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
#include "criu/kfd_reach.h"

#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdlib.h>

#include "criu/gpu/mover.h"
#include "criu/say.h"

/* A thread's way to the memory of one GPU. */
struct reached {
	struct mover mover;
	uint32_t minor;
	struct reached *next;
};

static _Thread_local struct reached *reached;

/* Of all threads since the last line about it. */
static pthread_mutex_t count_lock = PTHREAD_MUTEX_INITIALIZER;
static struct mover_count all;
static uint64_t host_bytes;

static struct mover *kfd_reach_mover(uint32_t minor)
{
	struct reached *r = reached;

	while (r && r->minor != minor)
		r = r->next;
	if (r)
		return &r->mover;
	r = calloc(1, sizeof(*r));
	if (!r)
		return NULL;
	r->minor = minor;
	r->next = reached;
	reached = r;
	return &r->mover;
}

static void kfd_reach_add(const struct mover_count *count)
{
	pthread_mutex_lock(&count_lock);
	all.engine_bytes += count->engine_bytes;
	all.engine_requests += count->engine_requests;
	all.cpu_bytes += count->cpu_bytes;
	all.cpu_requests += count->cpu_requests;
	all.most = count->most > all.most ? count->most : all.most;
	pthread_mutex_unlock(&count_lock);
}

static int kfd_reach_done(void)
{
	int first = 0;

	while (reached) {
		struct reached *last = reached;
		int r = mover_flush(&last->mover);
		struct mover_count count = mover_close(&last->mover);

		first = first < 0 ? first : r;
		kfd_reach_add(&count);
		reached = last->next;
		free(last);
	}
	return first;
}

void kfd_reach_close(void)
{
	kfd_reach_done();
	if (all.engine_requests || all.cpu_requests || host_bytes)
		SAY_INFO("content of /dev/kfd: %" PRIu64 " bytes by GPUs' engines in %" PRIu64
			 " requests, %" PRIu64 " by threads of the CPU in %" PRIu64
			 ", at most %u under way of a GPU; %" PRIu64 " of the machine's memory",
			 all.engine_bytes, all.engine_requests, all.cpu_bytes, all.cpu_requests,
			 all.most, host_bytes);
	all = (struct mover_count){0};
	host_bytes = 0;
}

static void kfd_reach_count_host(size_t len)
{
	pthread_mutex_lock(&count_lock);
	host_bytes += len;
	pthread_mutex_unlock(&count_lock);
}

static int kfd_reach_read(const struct kfd_place *place, uint64_t offset, void *memory, size_t len)
{
	struct mover *mover = place->vram ? kfd_reach_mover(place->minor) : NULL;

	if (mover)
		return mover_read(mover, place, offset, memory, len);
	kfd_reach_count_host(len);
	return place->vram ? -ENOMEM : kfd_calls.read(place, offset, memory, len);
}

static int kfd_reach_write(const struct kfd_place *place, uint64_t offset, const void *memory,
			   size_t len)
{
	struct mover *mover = place->vram ? kfd_reach_mover(place->minor) : NULL;

	if (mover)
		return mover_write(mover, place, offset, memory, len);
	kfd_reach_count_host(len);
	return place->vram ? -ENOMEM : kfd_calls.write(place, offset, memory, len);
}

static int kfd_reach_open(const char *path)
{
	return kfd_calls.open(path);
}

static int kfd_reach_ioctl(int fd, unsigned long request, void *arg)
{
	return kfd_calls.ioctl(fd, request, arg);
}

const struct kfd_calls kfd_reach = {.open = kfd_reach_open,
				    .ioctl = kfd_reach_ioctl,
				    .read = kfd_reach_read,
				    .write = kfd_reach_write,
				    .done = kfd_reach_done};
