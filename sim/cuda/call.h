/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What keeps a process from being locked by cuCheckpointProcessLock: calls of the driver that are
 * in progress, and work in its streams. Both are counted in its row of the region.
 */
#ifndef ALLOT_SIM_CUDA_CALL_H
#define ALLOT_SIM_CUDA_CALL_H

#include <stdbool.h>
#include <stdint.h>

#include "nvidia/abi/cuda.h"

/*
 * A call begins, as soon as the process is not locked. In *ret_noted whether it was counted, and
 * sim_call_end is due: it is not before cuInit. CUDA_ERROR_UNKNOWN, and not counted, in a process
 * that a restore has lost.
 */
CUresult sim_call_begin(bool *ret_noted);
void sim_call_end(void);

/* Works were put into a stream, or ended. */
void sim_works_begin(uint32_t n);
void sim_works_end(uint32_t n);

#endif
