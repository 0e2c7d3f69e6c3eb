/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where the program waits, or has a stream wait: what the hooks of such calls tell the meter, so
 * that work is measured to its end there. Nothing limited, each costs one load.
 */
#ifndef ALLOT_GUEST_LAUNCH_WAITS_H
#define ALLOT_GUEST_LAUNCH_WAITS_H

#include "guest/meter/meter.h"

/* Before the driver's call: the program waits for a stream, or has it wait or copy. */
void waits_stream(struct guest *guest, CUstream stream, bool per_thread, enum meter_why why);

/* The same where it records an event there, which it may wait for then. */
void waits_record(struct guest *guest, CUevent event, CUstream stream, bool per_thread);

/* A stream is about to wait for an event that is not done. */
void waits_for_event(struct guest *guest, CUevent event, CUstream stream, bool per_thread);

/* The same for all of a context; NULL: the current one. */
void waits_context(struct guest *guest, CUcontext context, enum meter_why why);

/* After a wait for a stream, or for all of a context (NULL: the current one): it is done. */
void waits_over(struct guest *guest, CUstream stream, bool per_thread);
void waits_context_over(struct guest *guest, CUcontext context);
/* After a copy to or from the host that was done when the driver returned. */
void waits_copied(struct guest *guest, CUstream stream, bool per_thread);
/* After a wait for an event, or a look that found it done. */
void waits_event_over(struct guest *guest, CUevent event);
/* After the program asked whether something is, and it is. */
void waits_answered(struct guest *guest);

/* `bytes` bytes go to or from the host. */
void waits_host_copy(struct guest *guest, uint64_t bytes);

/* Around the end of a stream, and around calls that may end a context (NULL: none). */
void waits_stream_leaves(struct guest *guest, CUstream stream);
void waits_stream_left(struct guest *guest, CUstream stream, bool gone);
void waits_context_leaves(struct guest *guest, CUcontext context);
void waits_context_left(struct guest *guest, CUcontext context, bool gone);

#endif
