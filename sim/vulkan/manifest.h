/* SPDX-License-Identifier: Apache-2.0 */
/* Where lavapipe is installed, as the loader's manifests say. */
#ifndef ALLOT_SIM_VULKAN_MANIFEST_H
#define ALLOT_SIM_VULKAN_MANIFEST_H

#include <limits.h>

/* Our own manifest, which lies beside the simulated driver. */
#define MANIFEST_OWN "vulkan_allot_sim_icd.json"

/* Writes lavapipe's path, or its name where the manifest has no folder. 0, or -ENOENT. */
int manifest_find_lavapipe(char ret[static PATH_MAX]);

#endif
