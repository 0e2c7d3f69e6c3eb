/* SPDX-License-Identifier: Apache-2.0 */
#include "guest/core/limited.h"
#include "guest/memory/allocator.h"
#include "guest/movable/linear.h"

static const struct allocator allocator_movable = {
	.alloc = linear_alloc,
	.end_spare = linear_end_spare,
	.release = linear_release,
};

void allocator_choose(struct guest *guest)
{
	guest->allocator = guest->swappable ? &allocator_movable : &allocator_driver;
}
