/* SPDX-License-Identifier: Apache-2.0 */
/* Which events are done, and what lies between them: bills. Any thread, without the lock. */
#ifndef ALLOT_GUEST_METER_COLLECT_H
#define ALLOT_GUEST_METER_COLLECT_H

#include "guest/meter/state.h"

/* Looks which events are done, and bills. Answers at once when another thread is at it. */
void collect_done(struct meter *meter);

/*
 * The process's work, with a brief pause before it, in which nothing worked in any stream; and work
 * whose end nobody measured.
 */
void collect_bill(struct meter *meter, const struct span *span);
void collect_bill_unmeasured(struct meter *meter, uint64_t from_ns, uint64_t to_ns);

#endif
