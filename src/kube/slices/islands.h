/* SPDX-License-Identifier: Apache-2.0 */
/*
 * NVLink islands: groups of a node's devices of which each two have NVLinks between them, directly or through
 * switches. Pure.
 */
#ifndef ALLOT_KUBE_SLICES_ISLANDS_H
#define ALLOT_KUBE_SLICES_ISLANDS_H

#include "kube/state/node.h"

/* The place of its island's first device, by the place of each device; ISLAND_NONE: it is in none. */
#define ISLAND_NONE (-1)
void islands_find(const struct node_devices *devices, int ret[static POLICY_DEVICES]);

#endif
