/* SPDX-License-Identifier: Apache-2.0 */
#include "guest/launch/steer.h"

#include <string.h>

#include "guest/account/figure.h"
#include "guest/launch/state.h"

/* State that another controller left means nothing to this one: tokens are no distance. */
static void steer_take_over(struct device_time *time, const struct controller *controller)
{
	uint64_t owner = (uint64_t)controller->id + 1;

	if (word_read(&time->cold_owner) == owner)
		return;
	memset(time->cold, 0, sizeof(time->cold));
	word_write(&time->hot, 0);
	word_write(&time->cold_owner, owner);
}

static void steer_device(struct launch_state *state, struct launch_device *device, uint64_t now_ns)
{
	struct guest *guest = device->meter.guest;
	struct device_time *time = device->meter.time;
	int ledger = device->meter.device->ledger, percent;
	struct share_params params;
	const struct controller *controller = limits_controller(&state->limits, ledger, &params);
	uint64_t due = word_read(&time->tick_ns), old, hot;

	if (!controller->tick_ns)
		return;
	/* The process that moves the tick on steers; an instant far ahead is damage. */
	if (due > now_ns && due - now_ns < 10 * controller->tick_ns)
		return;
	if (!word_swap_if(&time->tick_ns, due, now_ns + controller->tick_ns))
		return;
	percent = figure_utilisation(guest, device->meter.device->uuid, ledger);
	if (percent < 0)
		return;
	steer_take_over(time, controller);
	controller->steer(time->cold, &params, now_ns, (unsigned int)percent);
	do {
		old = word_read(&time->hot);
		hot = controller->refill(old, time->cold, &params, now_ns);
	} while (hot != old && !word_swap_if(&time->hot, old, hot));
}

void steer_all(struct guest *guest, uint64_t now_ns)
{
	for (int i = 0; i < guest->ndevices; i++) {
		struct launch_device *device = state_device(guest, i);

		if (device)
			steer_device(state_get(guest), device, now_ns);
	}
}
