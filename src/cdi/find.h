/* SPDX-License-Identifier: Apache-2.0 */
/* Devices of CDI that others describe: NVIDIA's tools write their files as JSON or as YAML. */
#ifndef ALLOT_CDI_FIND_H
#define ALLOT_CDI_FIND_H

#include <stdbool.h>

/* Returns true if a file in `dir` that is not ours has the device: by kind "nvidia.com/gpu" and name. */
bool cdi_dir_has(const char *dir, const char *kind, const char *name);

#endif
