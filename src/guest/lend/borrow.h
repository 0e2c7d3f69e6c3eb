/* SPDX-License-Identifier: Apache-2.0 */
/* Asks another process of the tenant for memory that it lends (exporter.h). */
#ifndef ALLOT_GUEST_LEND_BORROW_H
#define ALLOT_GUEST_LEND_BORROW_H

#include <errno.h>

#include "base/now.h"
#include "guest/lend/share_name.h"
#include "ledger/records.h"

/* In a program's own call: an exporter that lives answers within microseconds, or is stopped. */
#define BORROW_CALL_NS (20 * NS_PER_S)

/* Until when, and for whom, an exporter is waited for. */
struct borrow_patience {
	struct guest *guest;
	uint64_t until_ns; /* UINT64_MAX: as long as `request` stands */
	uint32_t request;
};

/* True if the exporter lives. A child of a dead one may have its socket, and answers nothing. */
bool borrow_lives(struct guest *guest, const struct share_name *name);

/*
 * Waits until the exporter answers: with a descriptor, where one is wanted, else `ret_fd` is
 * NULL. 0; -ESRCH: it is gone, or has it no more; -ECANCELED: nobody asks for it any more.
 */
int borrow(const struct borrow_patience *patience, const struct share_name *name,
	   enum share_want want, int *ret_fd);

/* The same error as a reason for a process that moves memory. */
static inline enum swap_why borrow_why(int r)
{
	switch (r) {
	case 0:
		return SWAP_FINE;
	case -ESRCH:
		return SWAP_SHARED;
	case -ECANCELED:
		return SWAP_BUSY;
	default:
		return SWAP_DRIVER;
	}
}

#endif
