/* SPDX-License-Identifier: Apache-2.0 */
/* Our calls of the driver while a thread of the program captures a graph. */
#ifndef ALLOT_GUEST_METER_CAPTURE_H
#define ALLOT_GUEST_METER_CAPTURE_H

#include "guest/core/guest.h"
#include "nvidia/cuda_api.h"

/* Calls that capturing threads forbid endanger no capture here: ours are about our events. */
struct capture_mode {
	CUstreamCaptureMode saved;
};

static inline struct capture_mode capture_relax(void)
{
	struct capture_mode mode = {CU_STREAM_CAPTURE_MODE_RELAXED};

	DRIVER(cuThreadExchangeStreamCaptureMode, (&mode.saved));
	return mode;
}

static inline void capture_restore(struct capture_mode mode)
{
	DRIVER(cuThreadExchangeStreamCaptureMode, (&mode.saved));
}

#endif
