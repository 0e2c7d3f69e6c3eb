/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The residency role (roles/residency_host.h): the daemon claims it for as long as it lives, and holds
 * it while tenants wait for memory or move. On a thread of its own, which sleeps otherwise. While
 * another daemon has the claim, this one asks for it once a second.
 */
#ifndef ALLOT_DAEMON_OVERCOMMIT_H
#define ALLOT_DAEMON_OVERCOMMIT_H

#include <stdbool.h>

struct overcommit;

/* 0 or -errno: tenants decide themselves. */
int overcommit_start(const char *runtime, struct overcommit **ret);
/* A tenant's process that waits takes the role. Takes NULL. */
void overcommit_end(struct overcommit *overcommit);

/* True if this daemon has the claim. Takes NULL. */
bool overcommit_claimed(const struct overcommit *overcommit);

#endif
