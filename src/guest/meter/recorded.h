/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where the program's events were recorded last. A stream that waits for an event waits either for
 * work of a device, which ends by itself, or for a point after a wait for the program. As many
 * events are remembered as there is room for.
 */
#ifndef ALLOT_GUEST_METER_RECORDED_H
#define ALLOT_GUEST_METER_RECORDED_H

#include "guest/meter/state.h"

/* Before the driver records it. Takes the lock. */
void recorded_note(struct meter *meter, CUevent event, CUcontext context, CUstream stream);

enum recorded_state {
	RECORDED_NOT,	  /* in no stream of this device, as far as is known */
	RECORDED_BLOCKED, /* behind a wait for the program that may not be over */
	RECORDED_FREE,
};

/* Takes the lock. */
enum recorded_state recorded_ask(struct meter *meter, CUevent event);

#endif
