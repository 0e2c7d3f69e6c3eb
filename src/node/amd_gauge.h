/* SPDX-License-Identifier: Apache-2.0 */
/* Figures that the kernel has in sysfs for an AMD GPU, as a decimal number in a file of its device. */
#ifndef ALLOT_NODE_AMD_GAUGE_H
#define ALLOT_NODE_AMD_GAUGE_H

#include <stdint.h>

/* Of the device with that render node; `unknown` where the kernel does not tell, or more than `most`. */
uint64_t amd_gauge(uint32_t render_minor, const char *file, uint64_t most, uint64_t unknown);

#define AMD_GAUGE_BUSY "gpu_busy_percent" /* of the last moments; what computes and what draws */
#define AMD_GAUGE_USED "mem_info_vram_used"

#endif
