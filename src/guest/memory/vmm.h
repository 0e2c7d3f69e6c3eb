/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ALLOT_GUEST_MEMORY_VMM_H
#define ALLOT_GUEST_MEMORY_VMM_H

#include "guest/core/guest.h"

/* After a sparse array was destroyed: handles that backed its parts are mapped there no more. */
void vmm_forget_array(struct guest *guest, uint64_t array);

#endif
