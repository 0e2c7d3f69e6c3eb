/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where a program has mapped its own handles (cuMemMap), for who moves what is behind them. Only
 * while the gate is shut (pass.h).
 */
#ifndef ALLOT_GUEST_MOVABLE_MAPPING_H
#define ALLOT_GUEST_MOVABLE_MAPPING_H

#include "guest/core/guest.h"

/*
 * Unmaps all mappings of handles that are ours (backing.h), and notes who may reach each of them; the
 * addresses stay reserved. An error: all are as they were.
 */
CUresult mapping_detach(struct guest *guest);

/* Maps them again. An error: all are away. */
CUresult mapping_attach(struct guest *guest);

#endif
