/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A number that differs between a process and its forked child. A pid does not: the child may have the
 * same one, in a PID namespace of its own.
 */
#ifndef ALLOT_TENANT_FORKED_H
#define ALLOT_TENANT_FORKED_H

#include <stdint.h>

/* At least 1; 0: there is no memory for it. A thread of the process may call it at any time. */
uint32_t forked_number(void);

#endif
