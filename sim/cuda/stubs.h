/* SPDX-License-Identifier: Apache-2.0 */
/* Every row of the list has a definition (stubs.c) and an entry point (entries.c). */
#ifndef ALLOT_SIM_CUDA_STUBS_H
#define ALLOT_SIM_CUDA_STUBS_H

#include <stdint.h>

#include "nvidia/cuda_api.h"

/* The exported address of each row, in the order of enum cuda_fn. */
void *sim_entry(enum cuda_fn fn);

/* Count a call that the simulator does not know how to answer: CUDA_ERROR_NOT_SUPPORTED. */
CUresult sim_unsupported(enum cuda_fn fn);

#endif
