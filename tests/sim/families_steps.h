/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Stories: each takes and gives memory in an order that could be counted wrong, and tells what is
 * there at each step. A program plays one of them.
 */
#ifndef ALLOT_TESTS_FAMILIES_STEPS_H
#define ALLOT_TESTS_FAMILIES_STEPS_H

#include "families_guest.h"

#define GRANULE (2 * MIB)

/* What stories are made of (families_steps.c). All must succeed. */
CUdeviceptr alloc(uint64_t bytes);
CUdeviceptr alloc_async(uint64_t bytes, CUstream stream);
CUmemGenericAllocationHandle create(uint64_t bytes);
CUstream new_stream(void);
/* The pool gives nothing back by itself. */
void keep_all(CUmemoryPool pool);
/* Allocates until it is refused at any size, and tells so. */
void fill_rest(void);

/* families_frees.c */
void frees_of_async(void);
void frees_in_stream(void);
void wrong_frees(void);

/* families_contexts.c */
void destroyed_context(void);
void reset_primary(void);
void attached_context(void);

/* families_handles.c */
void handle_orders(void);
void sparse_array(void);
void multicast(void);

/* families_pools.c */
void idle_pools_go_first(void);
void pools_exchanged(void);
void pools_in_pieces(void);
void pool_destroyed_early(void);
void pool_threshold(void);
void managed_pool(void);

/* families_graphs.c */
void graphs_take_turns(void);
void graphs_nested(void);
void graph_relaunched(void);
void refused_in_capture(void);

#endif
