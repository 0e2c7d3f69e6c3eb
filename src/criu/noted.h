/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/*
 * Addresses of buffers that a tenant's process noted (amd/gem_addresses.h), read out of its memory.
 * The process may have written anything there: all that is checked here is that the numbers make
 * sense. The kernel then tells if they are true (occupied.h).
 */
#ifndef ALLOT_CRIU_NOTED_H
#define ALLOT_CRIU_NOTED_H

#include <stdint.h>

#include "amd/gem_addresses.h"

/*
 * The notes of that open file, malloc'ed, by handle and address; NULL if its process noted nothing
 * of it. -EAGAIN: the process was stopped while it noted. -EPROTO: the notes make no sense;
 * -EOVERFLOW: it had no room for all. Or an error of reading.
 */
int noted_read(int fd, struct amd_address **ret, uint32_t *ret_n);

#endif
