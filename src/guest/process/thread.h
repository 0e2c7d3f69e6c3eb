/* SPDX-License-Identifier: Apache-2.0 */
/* Threads of ours in somebody else's process. */
#ifndef ALLOT_GUEST_PROCESS_THREAD_H
#define ALLOT_GUEST_PROCESS_THREAD_H

/*
 * Starts a thread in which all signals are blocked, and for which nobody waits. 0 or -errno: there
 * may be no room for it, or it is forbidden.
 */
int thread_start(void *(*run)(void *), void *arg);

#endif
