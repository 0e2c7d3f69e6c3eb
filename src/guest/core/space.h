/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Mode space: the tenant's part of the SMs is kept by the driver, under MPS. A driver that finds no
 * MPS daemon gives the program the whole device and says nothing, so that is for us to refuse.
 */
#ifndef ALLOT_GUEST_CORE_SPACE_H
#define ALLOT_GUEST_CORE_SPACE_H

#include "guest/core/guest.h"

/*
 * Before the driver's cuInit: a daemon listens, and the environment asks for no more than the
 * tenant's part, and for no higher priority. CUDA_SUCCESS too where the tenant's mode is not space;
 * else CUDA_ERROR_MPS_CONNECTION_FAILED, with a line on stderr the first time.
 */
CUresult space_expect(struct guest *guest);

/* After it, for the first `count` devices: the driver says that it runs under MPS. Likewise. */
CUresult space_confirm(struct guest *guest, int count);

/* Before a context is made: the environment asks for no more than it did at cuInit. Likewise. */
CUresult space_context(struct guest *guest);

#endif
