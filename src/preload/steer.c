/* SPDX-License-Identifier: Apache-2.0 */
/* Controllers that follow NVML's utilisation: one thread of a tenant at a time runs them. */
#include <string.h>

#include "preload/gate.h"
#include "preload/truth.h"

/* What another controller left says nothing to this one: tokens are no distance. */
static void take_over(struct compute *compute, const struct controller *controller)
{
	uint64_t owner = (uint64_t)controller->id + 1;

	if (atomic_peek(&compute->cold_owner) == owner)
		return;
	memset(compute->cold, 0, sizeof(compute->cold));
	atomic_poke(&compute->hot, 0);
	atomic_poke(&compute->cold_owner, owner);
}

static void steer(struct guest *guest, struct meter_device *md, uint64_t now_ns)
{
	struct compute *compute = md->compute;
	struct share_params params;
	const struct controller *controller = gate_controller(guest, md, &params);
	uint64_t due = atomic_peek(&compute->tick_ns), old, hot;
	int percent;

	if (!controller->tick_ns)
		return;
	/* Who moves it on is who steers; an instant far ahead is damage. */
	if (due > now_ns && due - now_ns < 10 * controller->tick_ns)
		return;
	if (!atomic_swap_if_u64(&compute->tick_ns, due, now_ns + controller->tick_ns))
		return;
	percent = truth_utilisation(guest, md->device->uuid, md->device->ledger);
	if (percent < 0)
		return;
	take_over(compute, controller);
	controller->steer(compute->cold, &params, now_ns, (unsigned int)percent);
	do {
		old = atomic_peek(&compute->hot);
		hot = controller->refill(old, compute->cold, &params, now_ns);
	} while (hot != old && !atomic_swap_if_u64(&compute->hot, old, hot));
}

void gate_steer(struct guest *guest, uint64_t now_ns)
{
	for (int i = 0; i < guest->ndevices; i++) {
		struct meter_device *md = gate_device_made(guest, i);

		if (md)
			steer(guest, md, now_ns);
	}
}
