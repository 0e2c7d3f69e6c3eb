/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/* Errors go to CRIU's log; `allot checkpoint` shows the first of them. */
#ifndef ALLOT_CRIU_SAY_H
#define ALLOT_CRIU_SAY_H

#include "criu/abi.h"

#define SAY_ERROR(format, ...) print_on_level(1, "Error (allot_amdgpu): " format "\n", ##__VA_ARGS__)

/* For CRIU's log alone, at the level of information. */
#define SAY_INFO(format, ...) print_on_level(3, "allot_amdgpu: " format "\n", ##__VA_ARGS__)

#endif
