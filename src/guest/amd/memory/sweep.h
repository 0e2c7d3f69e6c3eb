/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What this process is charged for and no longer has: an AMD GPU's memory also goes without an
 * ioctl, when a render node or a dma-buf is closed. Found out before a refusal at the latest, and
 * never sooner than the memory is gone.
 */
#ifndef ALLOT_GUEST_AMD_MEMORY_SWEEP_H
#define ALLOT_GUEST_AMD_MEMORY_SWEEP_H

#include "guest/amd/amd.h"

/* Counts it off. `fd`: of one of AMD's files. Slow: for who is about to be refused. */
void amd_sweep(struct guest *guest, struct amd *amd, int fd);

/* The same for memory that only descriptors hold. Quick when there is none. */
void amd_sweep_dmabufs(struct guest *guest, struct amd *amd);

#endif
