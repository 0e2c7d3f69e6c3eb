/* SPDX-License-Identifier: Apache-2.0 */
/* Memory of graphs' allocation nodes: the rest of its interface is in stream.h. */
#ifndef ALLOT_SIM_CUDA_GRAPH_MEM_H
#define ALLOT_SIM_CUDA_GRAPH_MEM_H

#include "sim/cuda/block.h"

struct sim_graph_mem;

/* A cuMemFreeAsync outside of the graph got there: on the executor. */
void sim_graph_mem_freed(void *mem);

#endif
