/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A tenant's user can cut the ledger short that the daemon has mapped, and touching what is behind
 * the end is SIGBUS. The daemon goes on with zeroes in place of such a page: that tenant wants
 * nothing then, and holds nothing.
 */
#ifndef ALLOT_DAEMON_CUT_H
#define ALLOT_DAEMON_CUT_H

/* For the whole process, from now on. 0 or -errno. */
int cut_survive(void);

#endif
