/* SPDX-License-Identifier: Apache-2.0 */
/* What of users' was not read, for a bound (node/allowance.h): in the log, and as a metric. */
#ifndef ALLOT_DAEMON_PUT_OFF_H
#define ALLOT_DAEMON_PUT_OFF_H

#include <stdint.h>
#include <stdio.h>

/* A line where a bound was reached since it was last called, and none was written of late. For one thread. */
void put_off_say(uint64_t now_ns);

void put_off_write(FILE *out);

#endif
