/* SPDX-License-Identifier: Apache-2.0 */
/* allotd's configuration: is it right, and is what it says in force. */
#ifndef ALLOT_CLI_DOCTOR_SITE_H
#define ALLOT_CLI_DOCTOR_SITE_H

#include "control/message.h"

/* `about`: what allotd goes by; NULL: there is none, or it did not tell. */
void site_check(const struct control_about *about);

#endif
