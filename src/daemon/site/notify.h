/* SPDX-License-Identifier: Apache-2.0 */
/* Tells the service manager how the daemon is, by the protocol of sd_notify(3). */
#ifndef ALLOT_DAEMON_SITE_NOTIFY_H
#define ALLOT_DAEMON_SITE_NOTIFY_H

/* `state` as "READY=1". Nothing where no manager asks, or it cannot be reached: then it sees. */
void notify_send(const char *state);

#endif
