/* SPDX-License-Identifier: Apache-2.0 */
#include "guest/core/limited.h"
#include "guest/memory/allocator.h"
#include "guest/movable/backing.h"
#include "guest/movable/handle.h"
#include "guest/movable/linear.h"
#include "guest/movable/own_alloc.h"
#include "guest/movable/own_pool.h"

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
	.adopt = handle_adopt,
	.abandon = handle_abandon,
	.real_handle = backing_handle,
	.mapped_handle = handle_mapped,
	.export_handle = handle_export,
	.import_handle = handle_import,
	.map_tiles = handle_map_tiles,
	.end_spare = linear_end_spare,
	.release = linear_release,
};

void allocator_choose(struct guest *guest)
{
	guest->allocator = guest->swappable ? &allocator_movable : &allocator_driver;
}
