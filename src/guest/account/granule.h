/* SPDX-License-Identifier: Apache-2.0 */
/* The sizes in which the driver takes device memory and gives it out. */
#ifndef ALLOT_GUEST_ACCOUNT_GRANULE_H
#define ALLOT_GUEST_ACCOUNT_GRANULE_H

#include <stdint.h>

/* What the driver takes device memory by, and gives it out in, on every GPU since 2010. */
#define GRANULE_BYTES (UINT64_C(2) << 20)
/* The largest allocation that shares a granule with others. */
#define SMALL_BYTES (UINT64_C(1) << 20)
/* What a stream-ordered pool and graph memory grow by. */
#define POOL_BYTES (UINT64_C(32) << 20)

/* Rounds up; saturates instead of wrapping, so that an absurd size is refused, not admitted. */
static inline uint64_t round_up(uint64_t bytes, uint64_t unit)
{
	return bytes > UINT64_MAX - unit ? UINT64_MAX / unit * unit
					 : (bytes + unit - 1) / unit * unit;
}

#endif
