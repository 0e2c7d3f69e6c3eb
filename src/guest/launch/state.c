/* SPDX-License-Identifier: Apache-2.0 */
#include "guest/launch/state.h"

#include "sched/tuning.h"

struct launch_device *state_of_context(struct guest *guest, CUcontext context)
{
	struct launch_state *state = state_get(guest);

	for (int i = 0; state && i < guest->ndevices; i++)
		if (atomic_load_explicit(&state->context[i], memory_order_acquire) == context)
			return state_device(guest, i);
	return NULL;
}

void state_forget_context(struct guest *guest, CUcontext context)
{
	struct launch_state *state = state_get(guest);

	for (int i = 0; state && i < guest->ndevices; i++) {
		CUcontext expected = context;

		atomic_compare_exchange_strong(&state->context[i], &expected, NULL);
	}
}

unsigned int state_processes(struct launch_device *device, uint64_t now_ns)
{
	const struct meter *meter = &device->meter;

	if (now_ns >= atomic_load(&device->counted_ns) + TUNING_COUNT_NS) {
		atomic_store(&device->processes, device_time_active(meter->guest->ledger,
								    meter->device->ledger, now_ns));
		atomic_store(&device->counted_ns, now_ns);
	}
	return atomic_load(&device->processes);
}

void state_active(struct launch_device *device, uint64_t now_ns)
{
	const struct meter *meter = &device->meter;
	uint64_t until = now_ns + TUNING_ACTIVE_NS;

	if (until < atomic_load(&device->active_ns) + TUNING_ACTIVE_EVERY_NS)
		return;
	atomic_store(&device->active_ns, until);
	device_time_set_active(atomic_load(&meter->guest->slot), meter->device->ledger, until);
}
