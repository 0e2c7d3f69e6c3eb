/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Use of devices and tenants over the last minutes, a sample each HISTORY_STEP_NS, for pages that
 * show more than this moment. Pure: the caller gives the clock and the figures.
 */
#ifndef ALLOT_DAEMON_WEB_HISTORY_H
#define ALLOT_DAEMON_WEB_HISTORY_H

#include <stdint.h>
#include <stdio.h>

#include "base/now.h"
#include "daemon/audit/audit.h"
#include "node/devices.h"
#include "node/tenants.h"

/*
 * The ledgers keep a minute of device time, second by second, so a sample can stand for many
 * seconds and misses none. A look at 80 tenants' ledgers takes 8 ms: every 20 s that is 0.04 % of a
 * processor.
 */
#define HISTORY_STEP_S	20
#define HISTORY_STEP_NS (HISTORY_STEP_S * NS_PER_S)
#define HISTORY_SAMPLES 30

/*
 * Series of tenants on devices, 0.6 KiB each; further ones are not kept. One user has only a part
 * of them: a ledger can name devices that do not exist.
 */
#define HISTORY_SERIES	1024
#define HISTORY_OF_USER 256

struct history;

/* -ENOMEM. */
int history_open(struct history **ret);
void history_close(struct history *history); /* takes NULL */

/*
 * Takes a sample. Samples that were missed before it stay blank; a tenant that is gone is
 * forgotten. `audit` is NULL without an audit.
 */
void history_note(struct history *history, uint64_t now_ns, const struct devices *devices,
		  const struct tenants *tenants, const struct audit_report *audit);

/* As JSON: docs/json.md has the format, which is stable. */
void history_write(const struct history *history, uint64_t now_ns, FILE *out);

#endif
