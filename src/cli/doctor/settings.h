/* SPDX-License-Identifier: Apache-2.0 */
/* Limits of other systems (dropin/config.h) that hold for programs started here. */
#ifndef ALLOT_CLI_DOCTOR_SETTINGS_H
#define ALLOT_CLI_DOCTOR_SETTINGS_H

/* A line for each variable that is in force, that does nothing, and that is malformed. */
void settings_check(void);

#endif
