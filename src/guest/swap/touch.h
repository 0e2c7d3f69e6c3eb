/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Threads that have the kernel find pages for host memory ahead of the copies into it: one thread
 * alone does that several times slower than the device copies. They change no content, so nobody
 * waits for them but before the memory goes; who copies makes sure of each page by itself.
 */
#ifndef ALLOT_GUEST_SWAP_TOUCH_H
#define ALLOT_GUEST_SWAP_TOUCH_H

#include <stdint.h>

struct touch {
	char *at;
	uint64_t bytes, step;
	_Atomic uint64_t next;	  /* what nobody has begun with */
	_Atomic uint32_t working; /* threads; a futex */
};

/* As many as are of use, and as can be had; none for little memory. By steps from the beginning. */
void touch_begin(struct touch *touch, char *at, uint64_t bytes, uint64_t step);

/* They are gone when it returns. Also where none was begun. */
void touch_end(struct touch *touch);

#endif
