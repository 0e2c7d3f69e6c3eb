/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where the library was loaded from, and the tenant that is beside it: what stays with a process
 * whatever becomes of its environment. A process may have several copies of the library, each under
 * any name; the answers are the same in all of them.
 */
#ifndef ALLOT_GUEST_PROCESS_HOME_H
#define ALLOT_GUEST_PROCESS_HOME_H

#include <stdbool.h>
#include <stddef.h>

/*
 * Returns true if allot had a copy loaded: `allot run` and the containers' /etc/ld.so.preload name it
 * by a path with a "/./" in it, which means the same file.
 */
bool home_is_run(void);

/* The path, with that mark, by which a copy was loaded; NULL: there is none such. */
const char *home_run_name(void);

/*
 * The directory of the tenant that each process here is of, whatever its environment says: a
 * container's own (base/container.h), else the one beside the file of a copy. False: there is none.
 */
bool home_find_tenant(char *ret, size_t len);

#endif
