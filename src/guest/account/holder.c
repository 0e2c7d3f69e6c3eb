/* SPDX-License-Identifier: Apache-2.0 */
#include "guest/account/holder.h"

void holder_catch_up(struct guest *guest, struct guest_device *device)
{
	for (const struct holder *const *holder = guest->holders; *holder; holder++)
		if ((*holder)->catch_up)
			(*holder)->catch_up(guest, device);
}

uint64_t holder_doubtful(struct guest *guest, struct guest_device *device)
{
	uint64_t bytes = 0;

	for (const struct holder *const *holder = guest->holders; *holder; holder++)
		if ((*holder)->doubtful)
			bytes += (*holder)->doubtful(guest, device);
	return bytes;
}

void holder_give_back(struct guest *guest, struct guest_device *device)
{
	CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;

	DRIVER(cuThreadExchangeStreamCaptureMode, (&mode));
	for (const struct holder *const *holder = guest->holders; *holder; holder++)
		(*holder)->give_back(guest, device);
	DRIVER(cuThreadExchangeStreamCaptureMode, (&mode));
}
