/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A tenant's user can truncate the ledger that the daemon has mapped, and touching pages after its
 * end raises SIGBUS. The daemon then continues with zeroes in such a page: that tenant wants
 * nothing, and holds nothing.
 */
#ifndef ALLOT_DAEMON_CUT_H
#define ALLOT_DAEMON_CUT_H

/* For the whole process, from now on. 0 or -errno. */
int cut_survive(void);

#endif
