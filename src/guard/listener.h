/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The listener of a seccomp filter: the kernel's questions, the answers, and passing the listener
 * on.
 */
#ifndef ALLOT_GUARD_LISTENER_H
#define ALLOT_GUARD_LISTENER_H

#include <linux/seccomp.h>
#include <stdbool.h>

/* Has the kernel wake the guard on the processor of the thread that asks (Linux 6.6). */
void listener_tune(int listener);

/* The next question. -ENOENT: it was taken back; -EINTR. Waits when there is none. */
int listener_receive(int listener, struct seccomp_notif *ret);

/* True if the thread still waits, so that data read about it was its own. */
bool listener_waits(int listener, const struct seccomp_notif *asked);

/*
 * Lets the kernel do it (0), or answers -errno. -ENOENT: the thread waits no more, and nothing was
 * done.
 */
int listener_answer(int listener, const struct seccomp_notif *asked, int error);

/* A descriptor over a socket, and a byte back that says it is there. 0 or -errno. */
int listener_hand_over(int socket, int listener);
int listener_take_over(int socket);

#endif
