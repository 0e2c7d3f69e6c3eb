/* SPDX-License-Identifier: Apache-2.0 */
/* Facts about CUDA that need no driver. */
#ifndef ALLOT_CLI_DEVICE_CUDA_H
#define ALLOT_CLI_DEVICE_CUDA_H

#include <stdint.h>

/*
 * Estimated bytes of a program's first context; on simulated devices as configured. 0 without
 * NVIDIA devices.
 */
uint64_t cuda_context_bytes(void);

#endif
