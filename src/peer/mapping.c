/* SPDX-License-Identifier: Apache-2.0 */
#include "peer/mapping.h"

#include <errno.h>

#include "base/number.h"

uint32_t mapping_list(uint64_t set, uint32_t first, uint32_t ret_list[MAPPING_DEVICES])
{
	uint32_t n = 0;

	if (first < MAPPING_DEVICES && set >> first & 1)
		ret_list[n++] = first;
	for (uint32_t i = 0; i < MAPPING_DEVICES; i++)
		if (set >> i & 1 && i != first)
			ret_list[n++] = i;
	return n;
}

/* Notes how many the driver says are done: no fewer than before, and no more than all. */
static uint32_t mapping_note_done(uint64_t *devices, const struct mapping_call *call, uint32_t done)
{
	if (done > call->n)
		done = call->n;
	for (uint32_t i = call->done; i < done; i++) {
		uint64_t bit = UINT64_C(1) << call->devices[i];

		*devices = call->unmap ? *devices & ~bit : *devices | bit;
	}
	return max_u64(done, call->done);
}

/* Tries until all devices are done, or until an error that another try does not mend. */
static int mapping_go_over(uint64_t *devices, struct mapping_call *at, mapping_fn *call,
			   void *context)
{
	uint32_t interrupted = 0, again = 0;

	for (;;) {
		uint32_t before = at->done, done = before;
		int r = call(context, at, &done);

		at->done = mapping_note_done(devices, at, r == 0 ? at->n : done);
		if (at->done > before)
			interrupted = again = at->wait_us = 0;
		if (r == -EINTR && interrupted++ < MAPPING_INTERRUPTED_MOST)
			continue;
		if (r != -EAGAIN || again++ >= MAPPING_AGAIN_MOST)
			return r;
		at->wait_us = at->wait_us ? at->wait_us * 2 : 1;
		if (at->wait_us > MAPPING_WAIT_MOST_US)
			at->wait_us = MAPPING_WAIT_MOST_US;
	}
}

int mapping_run(uint64_t *devices, bool unmap, const uint32_t *list, uint32_t n, mapping_fn *call,
		void *context)
{
	struct mapping_call at = {.unmap = unmap, .devices = list, .n = n};
	int r = n ? mapping_go_over(devices, &at, call, context) : 0;

	if (r < 0 && !unmap && at.done) {
		struct mapping_call undo = {.unmap = true, .devices = list, .n = at.done};

		mapping_go_over(devices, &undo, call, context);
	}
	return r;
}
