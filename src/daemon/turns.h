/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The arbiter's role, while the daemon lives (roles/arbiter_host.h); if another daemon has it, this
 * one waits for that one's end. On a thread of its own, which sleeps without work: a turn begins
 * and ends within microseconds, and a page or a driver takes milliseconds.
 */
#ifndef ALLOT_DAEMON_TURNS_H
#define ALLOT_DAEMON_TURNS_H

#include <stdbool.h>

#include "base/loop.h"
#include "node/devices.h"

struct turns;

/* Called on the loop's thread. */
typedef void turns_taken(void *arg);

/*
 * `devices` are this machine's. 0: the role is this daemon's; 1: another daemon has it, and when that
 * ends, `taken` is called when it is this one's; or -errno.
 */
int turns_start(const char *runtime, const struct devices *devices, struct loop *loop,
		turns_taken *taken, void *arg, struct turns **ret);
/* Tells of the devices that the machine has now: the role is given up, and taken again at once. */
void turns_know(struct turns *turns, const struct devices *devices); /* takes NULL */
/* A tenant takes the role at once. Takes NULL. */
void turns_end(struct turns *turns);

/* True once the role is ours: its holder hands it over within a turn. Takes NULL. */
bool turns_held(const struct turns *turns);

#endif
