/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Moves a whole tenant off its devices, and back: the part of `allot suspend` and similar commands.
 */
#ifndef ALLOT_CLI_CHECKPOINT_AWAY_H
#define ALLOT_CLI_CHECKPOINT_AWAY_H

#include <stdint.h>

#include "cli/tenant/moving.h"
#include "cli/tenant/remote.h"

#define AWAY_TIMEOUT_US (MOVING_PATIENCE_NS / NS_PER_US)

/* Parses the value of --timeout; 0, or an exit status after a message. */
int away_parse_timeout(const char *text, uint64_t *ret_us);

/* The same of --notice. */
int away_parse_notice(const char *text, uint64_t *ret_us);

/*
 * Suspends a running tenant, after notice if that is asked for; with `contexts` also moves the
 * contexts of a suspended one. 0, or an exit status after a message: then the tenant is as it was,
 * and *moving may be closed. Says on stdout how long it took.
 */
int away_send(struct moving *moving, const struct away_options *options);

/* From suspended to running. 0, or an exit status after a message: it stays suspended. */
int away_return(struct moving *moving);

#endif
