/* SPDX-License-Identifier: Apache-2.0 */
/* The machine's memory for content that is moved off devices. */
#ifndef ALLOT_BASE_HOST_MEMORY_H
#define ALLOT_BASE_HOST_MEMORY_H

#include <stdint.h>

/* All that the machine has; 0: not known. */
uint64_t host_memory_total(void);

/* Free memory, less a tenth; 0: not known, so that nothing is moved. */
uint64_t host_memory_room(void);

#endif
