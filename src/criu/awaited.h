/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/*
 * Files of GPUs that CRIU has still to hand over. All processes of a dump stand still from its
 * beginning on, so their descriptors say which files will come. Nothing else does: up to CRIU 4.2
 * no hook is called behind the last one.
 */
#ifndef ALLOT_CRIU_AWAITED_H
#define ALLOT_CRIU_AWAITED_H

#include <stdbool.h>
#include <stdint.h>

struct awaited {
	struct awaited_descriptor {
		long pid;
		int fd;
	} *list;
	uint32_t n;
	bool known; /* false: no process is held, or there is no memory */
};

/* Looks at all processes that are held. */
void awaited_open(struct awaited *ret);
void awaited_close(struct awaited *awaited); /* takes a zeroed one */

/* CRIU handed over the file of this descriptor: whoever else has it is not waited for, either. */
void awaited_seen(struct awaited *awaited, int fd);

/* Returns true if no file is to come. */
bool awaited_none(const struct awaited *awaited);

#endif
