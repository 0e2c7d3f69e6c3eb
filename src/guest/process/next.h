/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The functions behind our own of libc_api.def: the next library's of that name, which is the C
 * library or another one that stands in front of it.
 */
#ifndef ALLOT_GUEST_PROCESS_NEXT_H
#define ALLOT_GUEST_PROCESS_NEXT_H

#include <spawn.h>
#include <stdio.h>
#include <sys/types.h>

struct next {
#define LIBC_HOOK(name, type, params) type(*name) params;
#include "guest/process/libc_api.def"
};

/*
 * The first call of any hook looks all of them up. A function that no library has is NULL. Keeps
 * errno.
 */
const struct next *next_libc(void);

/* Our own function of that name, and the one behind it in *ret_next; NULL: there is none. */
void *next_hook(const char *name, void **ret_next);

#endif
