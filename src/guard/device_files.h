/* SPDX-License-Identifier: Apache-2.0 */
/* The device files of AMD's driver, told by their numbers: which one, and of which GPU. */
#ifndef ALLOT_GUARD_DEVICE_FILES_H
#define ALLOT_GUARD_DEVICE_FILES_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "amd/topology.h"

struct device_files;

/* Keeps the topology, which must outlive it. 0, or -errno: there is no /dev/kfd. */
int device_files_open(const struct topology *topology, struct device_files **ret);
void device_files_close(struct device_files *files);

/*
 * True if a device is one of them: /dev/kfd, which is of no GPU (0), or the render node or the
 * display node of a GPU.
 */
bool device_files_find(const struct device_files *files, dev_t device, uint32_t *ret_gpu_id);

#endif
