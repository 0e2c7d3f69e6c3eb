/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A thread may be cancelled (pthread_cancel) where it waits, opens a file or asks the driver. In the
 * middle of our work it would keep for ever what it has begun: a lock, a reservation, a once. So it is
 * cancelled behind that.
 */
#ifndef ALLOT_BASE_CANCEL_H
#define ALLOT_BASE_CANCEL_H

#include <pthread.h>

/* Returns what cancel_release is given by the same thread. Holds may be nested. */
static inline int cancel_hold(void)
{
	int state;

	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &state);
	return state;
}

static inline void cancel_release(int state)
{
	pthread_setcancelstate(state, NULL);
}

#endif
