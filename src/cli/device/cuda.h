/* SPDX-License-Identifier: Apache-2.0 */
/* What is known of CUDA here without a driver being asked. */
#ifndef ALLOT_CLI_DEVICE_CUDA_H
#define ALLOT_CLI_DEVICE_CUDA_H

#include <stdint.h>

/*
 * What a program's first context takes, about; on simulated devices what they were told. 0 where
 * there are no NVIDIA devices.
 */
uint64_t cuda_context_bytes(void);

#endif
