/* SPDX-License-Identifier: Apache-2.0 */
/* Checks allotd: that it runs and answers, which process arbitrates turns, and its configuration. */
#ifndef ALLOT_CLI_DOCTOR_DAEMON_H
#define ALLOT_CLI_DOCTOR_DAEMON_H

/* Of the machine, and of a runtime directory. To have none is nothing wrong. */
void daemon_check(const char *runtime);

#endif
