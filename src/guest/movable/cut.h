/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A granule cut into small allocations, as the driver cuts its own: in units of 512 bytes, first
 * fit. Pure: which granule it is, and who may look at it when, is the caller's affair.
 */
#ifndef ALLOT_GUEST_MOVABLE_CUT_H
#define ALLOT_GUEST_MOVABLE_CUT_H

#include <stdbool.h>
#include <stdint.h>

#include "guest/account/granule.h"

#define CUT_UNIT  512u
#define CUT_UNITS (GRANULE_BYTES / CUT_UNIT)
#define CUT_WORDS (CUT_UNITS / 64)

/* Zeroed: all of it is free. */
struct cut {
	uint64_t taken[CUT_WORDS];  /* units of allocations */
	uint64_t begins[CUT_WORDS]; /* the first unit of each */
	uint32_t allocations;
	uint32_t most; /* so many units may be free together; no more are */
};

static inline uint32_t cut_units(uint64_t bytes)
{
	return (uint32_t)((bytes + CUT_UNIT - 1) / CUT_UNIT);
}

/* The first unit of so many, or -1: there is no room. */
int cut_take(struct cut *cut, uint32_t units);

/* Whether an allocation begins at the unit, and if so frees it. */
bool cut_give(struct cut *cut, uint32_t first);

/* The first unit of the allocation that a unit is of, or -1: it is free. */
int cut_first(const struct cut *cut, uint32_t unit);

#endif
