/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Keeps a tenant alive although none of its processes uses a GPU: a lock on one byte of its ledger,
 * behind those of the slots, that any number of descriptions share. `allot run` leaves one to the
 * command, whose whole tree inherits it; the kernel drops it with the last of them.
 */
#ifndef ALLOT_LEDGER_LIFE_H
#define ALLOT_LEDGER_LIFE_H

#include <stdbool.h>

/*
 * Keeps the tenant from being removed for as long as the description lives: a descriptor that is
 * closed on exec, or -errno; -ESTALE and -ENOENT: it was removed meanwhile.
 */
int life_hold(const char *dir);

/*
 * The same for as long as this process lives or until it calls exec, with no descriptor and no part
 * of it for children. 0 or the errors of life_hold.
 */
int life_keep(const char *dir);

/* True if a process holds it. True when that cannot be found out; false when there is no ledger. */
bool life_is_held(const char *dir);

#endif
