/* SPDX-License-Identifier: Apache-2.0 */
#include "guest/launch/attach.h"

#include <sys/mman.h>

#include "base/pages.h"
#include "guest/core/trace.h"
#include "guest/launch/credit.h"
#include "guest/launch/latch.h"
#include "guest/launch/window.h"

static void attach_billed(struct meter *meter, uint64_t from_ns, uint64_t to_ns)
{
	struct launch_state *state = state_get(meter->guest);

	atomic_fetch_add(&state->bills, 1);
	limits_bill(&state->limits, meter->guest->ledger, meter->device->ledger, from_ns, to_ns);
	trace(meter->guest, TRACE_BILL, meter->device->ledger, to_ns - from_ns,
	      word_read(&meter->time->launches) + word_read(&meter->time->graph_launches), to_ns);
}

static uint64_t attach_ended(struct meter *meter, uint64_t now_ns)
{
	return limits_turn_ended_ns(&state_get(meter->guest)->limits, meter->device->ledger, now_ns);
}

static const struct meter_client client = {
	.billed = attach_billed,
	.launched = window_launched,
	.latch = latch_queue,
	.unlatch = latch_undo,
	.released = window_released,
	.done = window_done,
	.spun = window_spun,
	.ended = attach_ended,
	.looked = window_looked,
	.count = credit_count,
};

static struct launch_state *attach_state(struct guest *guest)
{
	struct launch_state *state = state_get(guest), *expected = NULL;

	if (state)
		return state;
	state = pages_map(sizeof(*state));
	if (!state)
		return NULL;
	limits_open(&state->limits, guest);
	if (atomic_compare_exchange_strong(&guest->launch, &expected, state))
		return state;
	munmap(state, sizeof(*state));
	return expected;
}

static struct launch_device *attach_device_state(struct guest *guest, struct launch_state *state,
						 struct guest_device *device)
{
	struct launch_device *made = state_device(guest, device->ordinal), *expected = NULL;

	if (made)
		return made;
	made = pages_map(sizeof(*made));
	if (!made)
		return NULL;
	made->meter.guest = guest;
	made->meter.device = device;
	made->meter.client = &client;
	made->meter.time = device_time_of(guest->ledger, device->ledger);
	window_init(&made->window);
	atomic_store(&state->limits.blocks[device->ledger], device->stack_threads / 256);
	if (made->meter.time &&
	    atomic_compare_exchange_strong(&state->device[device->ordinal], &expected, made))
		return made;
	munmap(made, sizeof(*made));
	return expected;
}

CUresult attach_device(struct guest *guest, CUcontext *ret_context, struct launch_device **ret)
{
	struct guest_device *device;
	struct launch_state *state;

	*ret = NULL;
	if (DRIVER(cuCtxGetCurrent, (ret_context)) || !*ret_context)
		return CUDA_SUCCESS;
	*ret = state_of_context(guest, *ret_context);
	if (*ret)
		return CUDA_SUCCESS;
	device = guest_current_device(guest);
	if (!device)
		return CUDA_SUCCESS;
	state = attach_state(guest);
	*ret = state ? attach_device_state(guest, state, device) : NULL;
	if (!*ret)
		return CUDA_ERROR_OUT_OF_MEMORY;
	atomic_store_explicit(&state->context[device->ordinal], *ret_context,
			      memory_order_release);
	return CUDA_SUCCESS;
}
