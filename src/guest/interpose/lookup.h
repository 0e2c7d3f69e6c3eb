/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ways in: whoever asks for a driver function by name (dlsym, dlvsym, cuGetProcAddress) is given
 * the hook if, and only if, the answer without us would have been the very function that is hooked.
 * The answer is compared by address, never guessed from the name, so versions, flags and unknown
 * names stay the driver's own business. Nothing here runs before it is called.
 */
#ifndef ALLOT_GUEST_INTERPOSE_LOOKUP_H
#define ALLOT_GUEST_INTERPOSE_LOOKUP_H

#include <stdbool.h>

/*
 * Is the driver (NVML) in this process? The first true answer fills cuda_real (nvml_real) and
 * keeps the library loaded from then on, since its addresses are handed out. One load afterwards.
 * Never loads a library that the program did not.
 */
bool lookup_cuda(void);
bool lookup_nvml(void);

#endif
