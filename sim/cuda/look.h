/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ALLOT_SIM_CUDA_LOOK_H
#define ALLOT_SIM_CUDA_LOOK_H

#include "nvidia/look_code.h"

/* The result of allot's kernel for looking at memory, for a granule: by its formula, not by its code. */
struct look_seen sim_look(const void *granule, const struct look_key *key);

#endif
