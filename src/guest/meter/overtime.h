/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Work that goes on after the end of its tenant's turn, while another tenant has its own: the
 * device serves both in slices, and an event of either tells when it was done, not for how long it
 * worked.
 *
 *	turn ends            next turn
 *	  |own|other |own|other |own|		the device
 *	  |own|own|own|..............		what is billed: as much as it worked
 *
 * An instant in that time is billed as the one by which the device would have done as much alone.
 * The collecting thread alone writes and reads this, see collect.h.
 */
#ifndef ALLOT_GUEST_METER_OVERTIME_H
#define ALLOT_GUEST_METER_OVERTIME_H

#include <stdbool.h>
#include <stdint.h>

#define OVERTIMES 8

struct overtime {
	struct {
		uint64_t from_ns, to_ns;
	} span[OVERTIMES];  /* the last ones */
	uint32_t n;	    /* of all */
	bool on;	    /* the last one is not over */
	uint64_t looked_ns; /* when it was not, the last time */
};

/* The tenant's turn ended then, and another may have the device since; 0: neither. */
void overtime_look(struct overtime *overtime, uint64_t ended_ns, uint64_t now_ns);

/*
 * Returns the first part of a time, as it is to be billed, and moves *from_ns to the rest; its end:
 * that is all. False: nothing of it is left.
 */
bool overtime_next(const struct overtime *overtime, uint64_t *from_ns, uint64_t to_ns,
		   uint64_t *ret_from_ns, uint64_t *ret_to_ns);

#endif
