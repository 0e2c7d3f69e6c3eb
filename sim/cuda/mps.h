/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A program under MPS, as far as it sees that itself: where a control daemon takes connections in
 * CUDA_MPS_PIPE_DIRECTORY, devices have fewer SMs. Nothing is run by a server. Where none answers
 * the program has the whole device and is not told, as with the real driver.
 */
#ifndef ALLOT_SIM_CUDA_MPS_H
#define ALLOT_SIM_CUDA_MPS_H

#include <stdbool.h>
#include <stdint.h>

/* By cuInit, once. */
void sim_mps_begin(void);
bool sim_mps_enabled(void);
/* How many of a device's SMs this program has; at least one. */
uint32_t sim_mps_sms(uint32_t sms);

#endif
