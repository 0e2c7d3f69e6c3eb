/* SPDX-License-Identifier: Apache-2.0 */
/* Arrays that grow. */
#ifndef ALLOT_SIM_KFD_ARRAY_H
#define ALLOT_SIM_KFD_ARRAY_H

#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

/*
 * An array with room for one more than the `n` it has, of `each` bytes: the same, or a larger copy
 * of it. NULL: there is no memory, and it stays as it was.
 */
static inline void *array_grow(void *array, uint32_t *room, uint32_t n, size_t each)
{
	uint32_t more = *room ? 2 * *room : 32;
	void *grown;

	if (n < *room)
		return array;
	grown = reallocarray(array, more, each);
	if (grown)
		*room = more;
	return grown;
}

#endif
