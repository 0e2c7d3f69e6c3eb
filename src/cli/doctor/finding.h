/* SPDX-License-Identifier: Apache-2.0 */
/* Findings of `allot doctor`, one line each. */
#ifndef ALLOT_CLI_DOCTOR_FINDING_H
#define ALLOT_CLI_DOCTOR_FINDING_H

#include <stdbool.h>

enum finding { FINDING_OK, FINDING_WARN, FINDING_FAIL };

/* `todo` says what to do, or is NULL. */
void finding_say(enum finding finding, const char *todo, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

/* Was any of them a FAIL? */
bool finding_failed(void);

#endif
