/* SPDX-License-Identifier: Apache-2.0 */
#include "guest/swap/touch.h"

#include <sched.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/prctl.h>

#include "base/futex.h"
#include "guest/core/thread.h"

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

/*
 * One thread finds 5.6 GB/s of huge pages, and a device copies 55 (H200, PCIe 5). More than these
 * are in each other's way.
 */
#define MOST 10

static void *touch_work(void *arg)
{
	struct touch *touch = arg;
	uint64_t at;

	prctl(PR_SET_NAME, "allot-touch");
	while ((at = atomic_fetch_add(&touch->next, touch->step)) < touch->bytes) {
		uint64_t left = touch->bytes - at;

		/* Older kernels do not know it; nothing else leaves content as it is. */
		if (madvise(touch->at + at, left < touch->step ? left : touch->step,
			    MADV_POPULATE_WRITE))
			break;
	}
	if (atomic_fetch_sub(&touch->working, 1) == 1)
		futex_wake_all(&touch->working);
	return NULL;
}

void touch_begin(struct touch *touch, char *at, uint64_t bytes, uint64_t step)
{
	cpu_set_t cpus;
	uint64_t n = 0;

	touch->at = at;
	touch->bytes = bytes;
	touch->step = step;
	atomic_store(&touch->next, 0);
	if (!sched_getaffinity(0, sizeof(cpus), &cpus))
		n = (uint64_t)CPU_COUNT(&cpus) - 1; /* the one that copies needs one, too */
	n = n < MOST ? n : MOST;
	n = n < bytes / step ? n : bytes / step;
	for (; n; n--) {
		atomic_fetch_add(&touch->working, 1);
		if (thread_start(touch_work, touch)) {
			atomic_fetch_sub(&touch->working, 1);
			break;
		}
	}
}

void touch_end(struct touch *touch)
{
	uint32_t working;

	atomic_store(&touch->next, UINT64_MAX / 2);
	while ((working = atomic_load(&touch->working)))
		futex_wait(&touch->working, working);
}
