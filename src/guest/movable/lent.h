/* SPDX-License-Identifier: Apache-2.0 */
/* The part of the memory that we back (backing.h) that other processes have, see lend/exporter.h. */
#ifndef ALLOT_GUEST_MOVABLE_LENT_H
#define ALLOT_GUEST_MOVABLE_LENT_H

#include "guest/lend/share_name.h"

/*
 * The name of the piece that has an address, but for offset and size. CUDA_ERROR_NOT_SUPPORTED:
 * there is none to be had.
 */
CUresult lent_name(struct guest *guest, CUdeviceptr at, struct share_name *ret);

#endif
