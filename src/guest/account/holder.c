/* SPDX-License-Identifier: Apache-2.0 */
#include "guest/account/holder.h"

static const struct holder *const holders[] = {&memory_holder, &pool_holder, &own_pool_holder,
					       &graph_holder, &context_limits_holder};

#define HOLDERS (sizeof(holders) / sizeof(holders[0]))

void holder_catch_up(struct guest *guest, struct guest_device *device)
{
	for (unsigned int i = 0; i < HOLDERS; i++)
		holders[i]->catch_up(guest, device);
}

uint64_t holder_doubtful(struct guest *guest, struct guest_device *device)
{
	uint64_t bytes = 0;

	for (unsigned int i = 0; i < HOLDERS; i++)
		if (holders[i]->doubtful)
			bytes += holders[i]->doubtful(guest, device);
	return bytes;
}

void holder_give_back(struct guest *guest, struct guest_device *device)
{
	CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;

	DRIVER(cuThreadExchangeStreamCaptureMode, (&mode));
	for (unsigned int i = 0; i < HOLDERS; i++)
		holders[i]->give_back(guest, device);
	DRIVER(cuThreadExchangeStreamCaptureMode, (&mode));
}
