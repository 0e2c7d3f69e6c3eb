/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ALLOT_GUEST_MEMORY_VMM_H
#define ALLOT_GUEST_MEMORY_VMM_H

#include "guest/core/guest.h"

/* After a sparse array was destroyed: handles that backed its parts are mapped there no more. */
void vmm_forget_array(struct guest *guest, uint64_t array);

/* Somebody else has what the program maps there, by a dma-buf: it stays on the device. */
void vmm_give(struct guest *guest, CUdeviceptr at, uint64_t size);

#endif
