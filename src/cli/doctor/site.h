/* SPDX-License-Identifier: Apache-2.0 */
/* Checks allotd's configuration: is it right, and is it in force? */
#ifndef ALLOT_CLI_DOCTOR_SITE_H
#define ALLOT_CLI_DOCTOR_SITE_H

#include "control/message.h"

/* `about`: the daemon's configuration; NULL: there is none, or it did not tell. */
void site_check(const struct control_about *about);

#endif
