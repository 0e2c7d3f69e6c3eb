/* SPDX-License-Identifier: Apache-2.0 */
#include "guest/core/limited.h"
#include "guest/memory/allocator.h"
#include "guest/memory/context_limits.h"
#include "guest/memory/graph.h"
#include "guest/memory/memory.h"
#include "guest/memory/pool.h"
#include "guest/movable/backing.h"
#include "guest/movable/handle.h"
#include "guest/movable/linear.h"
#include "guest/movable/own_alloc.h"
#include "guest/movable/own_pool.h"
#include "guest/movable/shown.h"

static const struct holder *const movable_holders[] = {
	&memory_holder, &linear_holder, &pool_holder, &own_pool_holder, &graph_holder,
	&context_limits_holder, NULL};

static const struct allocator allocator_movable = {
	.alloc = linear_alloc,
	.alloc_pitched = linear_alloc_pitched,
	.free = linear_free,
	.free_in_stream = linear_free_in_stream,
	.alloc_from_pool = own_alloc,
	.pool_made = own_pool_made,
	.pool_ends = own_pool_ends,
	.pool_trim = own_pool_trim,
	.pool_set = own_pool_set,
	.pool_figure = own_pool_figure,
	.pool_set_access = own_pool_set_access,
	.holds = backing_device,
	.find = shown_find,
	.mark = backing_mark,
	.ipc_name = shown_name,
	.ipc_close = shown_close,
	.ipc_open = shown_open,
	.adopt = handle_adopt,
	.abandon = handle_abandon,
	.real_handle = backing_handle,
	.mapped_handle = handle_mapped,
	.export_handle = handle_export,
	.import_handle = handle_import,
	.map_tiles = handle_map_tiles,
	.end_spare = linear_end_spare,
	.show_spare = linear_show_spare,
	.frees = own_pools_number,
	.waited = own_pools_waited,
	.waited_context = own_pools_waited_context,
	.settle = own_pools_settle,
	.stream_ends = own_pools_stream_ends,
	.context_ended = own_pools_forget_context,
	.holders = movable_holders,
	.release = linear_release,
};

void allocator_choose(struct guest *guest)
{
	guest->allocator = guest->swappable ? &allocator_movable : &allocator_driver;
	guest->holders = guest->allocator->holders;
}
