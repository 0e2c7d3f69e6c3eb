/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/*
 * Contexts of work in a render node's file, and objects for synchronization. The kernel lists neither,
 * so their numbers are tried. A context comes back under its number. Two things cannot come back and
 * are refused: work that was submitted, because the process may ask for it by numbers that the kernel
 * counts from 1 in a new context; and objects for synchronization, because the kernel does not tell
 * with which processes they are shared.
 */
#ifndef ALLOT_CRIU_CONTEXTS_H
#define ALLOT_CRIU_CONTEXTS_H

#include "criu/catalog.h"

/* Adds the contexts of `fd`, which is that file. -errno; `ret_what` says what it has, or is not written. */
#define CONTEXTS_WHAT_BYTES 160
int contexts_dump(struct catalog *catalog, int fd, uint32_t file,
		  char ret_what[CONTEXTS_WHAT_BYTES]);

/* Makes those of `fd`, a new file that stands for that one. -EEXIST: they get other numbers. */
int contexts_restore(const struct catalog *catalog, int fd, uint32_t file);

#endif
