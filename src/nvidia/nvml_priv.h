/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by nvml.c and nvml_link.c. */
#ifndef ALLOT_NVIDIA_NVML_PRIV_H
#define ALLOT_NVIDIA_NVML_PRIV_H

#include "nvidia/nvml.h"
#include "nvidia/nvml_api.h"

struct nvml {
	void *handle;
	struct nvml_library lib;
};

/* The library's answer as one of the errors that nvml.h lists. */
int nvml_errno(nvmlReturn_t r);

#endif
