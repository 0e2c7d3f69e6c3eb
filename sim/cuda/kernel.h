/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ALLOT_SIM_KERNEL_H
#define ALLOT_SIM_KERNEL_H

#include "sim/cuda/work.h"

/*
 * A launch's description, parameters copied, from kernelParams or the `extra` buffer. Loads the
 * function if it is not loaded yet.
 */
CUresult kernel_describe(struct sim_launch *ret_launch, const CUlaunchConfig *config,
			 CUfunction function, void **params, void **extra);

/* How many parameters the kernel has, and where each lies in launch->arg. */
unsigned int kernel_params(struct sim_launch *launch, void *ret_params[SIM_KERNEL_ARGS]);

#endif
