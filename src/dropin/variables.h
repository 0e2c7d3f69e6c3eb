/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The variables by which other systems limit programs: CUDA_DEVICE_MEMORY_LIMIT[_<i>],
 * CUDA_DEVICE_SM_LIMIT[_<i>], GPU_CORE_UTILIZATION_POLICY, CUDA_DEVICE_MEMORY_SHARED_CACHE,
 * CUDA_TASK_PRIORITY and CUDA_OVERSUBSCRIBE; and those of theirs that do nothing here. Pure.
 */
#ifndef ALLOT_DROPIN_VARIABLES_H
#define ALLOT_DROPIN_VARIABLES_H

#include <stdbool.h>

#include "dropin/config.h"

/*
 * Reads an environment block (NULL-terminated, as environ). Other programs' variables are passed
 * over; a variable that is there twice binds twice. 0, or -EINVAL with `complaint` set.
 */
int variables_read(struct config *config, char *const *environment);

/*
 * True if a variable ("NAME=value") is one of those that are read, or its name begins like theirs.
 */
bool variables_matter(const char *variable);

/*
 * Why a variable of other systems ("NAME=value") does nothing here, and what does, in one sentence;
 * NULL: it is none, or does what it says.
 */
const char *variables_why_unheeded(const char *variable);

#endif
