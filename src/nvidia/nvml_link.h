/* SPDX-License-Identifier: Apache-2.0 */
/* How devices reach each other's memory, as the driver tells it. For allot's tools, as nvml.h is.
 */
#ifndef ALLOT_NVIDIA_NVML_LINK_H
#define ALLOT_NVIDIA_NVML_LINK_H

#include <stdbool.h>
#include <stdint.h>

#include "nvidia/nvml.h"

struct nvml_link {
	bool reach;	   /* the driver lets the one read and write memory of the other */
	bool nvlink;	   /* by NVLink; else by PCIe */
	uint32_t nvlinks;  /* how many; through a switch, those of the device that has fewer */
	const char *path;  /* what PCIe passes between them: "one switch", ...; NULL: not known */
	uint32_t mb_per_s; /* one way by their specification, in 10^6 bytes; 0: not known */
};

/* From one device to another one, by NVML's indices. */
int nvml_link_get(struct nvml *nvml, unsigned int from, unsigned int to,
		  struct nvml_link *ret_link);

#endif
