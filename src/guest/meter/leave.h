/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The meter at the end of a stream, a context or the process. Measured work is billed as always;
 * the rest is known to be done by then.
 */
#ifndef ALLOT_GUEST_METER_LEAVE_H
#define ALLOT_GUEST_METER_LEAVE_H

#include <stdbool.h>

#include "guest/meter/state.h"

/* Around the end of a stream. */
void leave_stream_before(struct meter *meter, CUcontext context, CUstream stream);
void leave_stream_after(struct meter *meter, CUcontext context, CUstream stream, bool gone);

/*
 * Around a call that may end a context: nobody looks at its events meanwhile. If it is gone they
 * are forgotten, and what was not done before is billed until now.
 */
void leave_context_before(struct meter *meter, CUcontext context);
void leave_context_after(struct meter *meter, CUcontext context, bool gone);

/* The process ends, and nobody looks any more: what was seen to work is billed as far as that. */
void leave_process(struct meter *meter);

#endif
