/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Functions that were looked up before: another look-up loads nothing, so there is nothing to
 * measure. Libraries look their kernels up at every launch (cuBLAS), and near the limit a
 * measurement asks the driver for its figure, 0.2 ms each time.
 *
 * A cache without a lock: an entry that is pushed out is measured again. All are measured again
 * when code, or a context that it was loaded into, may have gone, because handles are reused.
 */
#ifndef ALLOT_GUEST_MEMORY_KNOWN_CODE_H
#define ALLOT_GUEST_MEMORY_KNOWN_CODE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#define KNOWN_CODE_SETS 256
#define KNOWN_CODE_WAYS 4

struct known_code {
	_Atomic uint64_t forgotten; /* times */
	_Atomic uint64_t key[KNOWN_CODE_SETS][KNOWN_CODE_WAYS];
};

/* Of a function by its handle, or by its module's and its name (NULL: none), in a context. */
uint64_t known_code_key(const struct known_code *known, uint64_t handle, const char *name,
			uint64_t context);

bool known_code_has(const struct known_code *known, uint64_t key);

/* The driver looked it up, by a key of before that call. */
void known_code_add(struct known_code *known, uint64_t key);

/* Before the driver is asked to unload code or to end a context; or before another can be made. */
void known_code_forget(struct known_code *known);

#endif
