/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/*
 * Links between GPUs through CPUs. Kernels since 6.0 list them (p2p_links); older ones leave that
 * to ROCm's library, which derives them from the direct ones. This does so by the same rules, so
 * that GPUs reach the same GPUs there as here. Pure.
 */
#ifndef ALLOT_AMD_TOPOLOGY_INDIRECT_H
#define ALLOT_AMD_TOPOLOGY_INDIRECT_H

#include "amd/topology.h"

/*
 * Adds to each node's links those that lead to another node by way of one or two CPUs. A GPU is
 * reached so only if the CPU sees its memory (a bank of TOPOLOGY_HEAP_VRAM_VISIBLE); GPUs of one
 * hive have xGMI instead; sockets that QPI joins at a weight of more than 20 let nothing through.
 * The weight is that of the whole way, the bandwidth is not known. 0 or -ENOMEM.
 */
int topology_add_indirect(struct topology *topology);

#endif
