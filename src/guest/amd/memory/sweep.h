/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sweeping: finds memory that this process is charged for and no longer has. An AMD GPU's memory
 * also goes without an ioctl, when a render node or a dma-buf is closed. A sweep is before each
 * refusal, and never counts off what is not gone.
 */
#ifndef ALLOT_GUEST_AMD_MEMORY_SWEEP_H
#define ALLOT_GUEST_AMD_MEMORY_SWEEP_H

#include "guest/amd/amd.h"

/* Counts off all such memory. `fd`: of one of AMD's files. Slow: to be called before a refusal. */
void amd_sweep(struct guest *guest, struct amd *amd, int fd);

/* The same for memory that only descriptors of dma-bufs hold. Quick when there is none. */
void amd_sweep_dmabufs(struct guest *guest, struct amd *amd);

#endif
