/* SPDX-License-Identifier: Apache-2.0 */
/* Logs, and counts in a metric, which users reached a limit of reading (node/process/allowance.h). */
#ifndef ALLOT_DAEMON_WEB_PUT_OFF_H
#define ALLOT_DAEMON_WEB_PUT_OFF_H

#include <stdint.h>
#include <stdio.h>

/*
 * Logs a line for each bound that was reached since the last line about it, at most one a minute.
 * For one thread.
 */
void put_off_say(uint64_t now_ns);

void put_off_write(FILE *out);

#endif
