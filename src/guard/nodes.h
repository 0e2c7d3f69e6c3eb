/* SPDX-License-Identifier: Apache-2.0 */
/* The device files of AMD's driver, told by their numbers: which one, and of which GPU. */
#ifndef ALLOT_GUARD_NODES_H
#define ALLOT_GUARD_NODES_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "amd/topology.h"

struct nodes;

/* Keeps the topology, which must outlive it. 0, or -errno: there is no /dev/kfd. */
int nodes_open(const struct topology *topology, struct nodes **ret);
void nodes_close(struct nodes *nodes);

/*
 * Whether a device is one of them: /dev/kfd, which is of no GPU (0), or the render node or the
 * display node of a GPU.
 */
bool nodes_find(const struct nodes *nodes, dev_t device, uint32_t *ret_gpu_id);

#endif
