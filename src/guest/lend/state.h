/* SPDX-License-Identifier: Apache-2.0 */
/* The words of the process about what it lends to the tenant's others: guest->lend. */
#ifndef ALLOT_GUEST_LEND_STATE_H
#define ALLOT_GUEST_LEND_STATE_H

#include "guest/core/guest.h"

struct exporter;

struct lend_state {
	struct once exporter_once; /* see exporter.h */
	_Atomic(struct exporter *) exporter;
	_Atomic uint64_t stamps;      /* numbers given out, see stamp.h */
	_Atomic int64_t stamp_random; /* 0: not drawn yet */
	_Atomic uint64_t tenant_before; /* the tenant's number when the process began, likewise */
};

#endif
