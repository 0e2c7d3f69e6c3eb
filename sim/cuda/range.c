/* SPDX-License-Identifier: Apache-2.0 */
/* The table of addresses: libc's balanced tree, where two ranges are equal when they overlap. */
#include <search.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "sim/cuda/block.h"
#include "sim/cuda/report.h"

static void *root;
static uint64_t next_id = 1;

/* False: it is none that a program is to free. */
static bool range_report_kind(const struct sim_range *range, enum sim_report_kind *ret)
{
	switch (range->kind) {
	case SIM_RANGE_DEVICE:
	case SIM_RANGE_SMALL:
		*ret = SIM_REPORT_MEMORY;
		return range->device;
	case SIM_RANGE_POOL:
		*ret = SIM_REPORT_ASYNC;
		return range->device;
	case SIM_RANGE_MANAGED:
		*ret = SIM_REPORT_MANAGED;
		return range->device;
	case SIM_RANGE_HOST:
		*ret = SIM_REPORT_HOST;
		return range->device;
	default:
		return false;
	}
}

static int range_compare(const void *a, const void *b)
{
	const struct sim_range *x = a, *y = b;

	if (x->base + x->bytes <= y->base)
		return -1;
	return x->base >= y->base + y->bytes;
}

struct sim_range *sim_range_add(uint64_t base, uint64_t bytes, enum sim_range_kind kind,
				struct sim_device *device, struct sim_context *ctx)
{
	struct sim_range *range = calloc(1, sizeof(*range));
	enum sim_report_kind report;
	void *node;

	if (!range)
		return NULL;
	range->base = base;
	range->bytes = bytes;
	range->kind = kind;
	range->device = device;
	range->ctx = ctx;
	range->id = next_id++;
	range->readable = range->writable = true;
	node = tsearch(range, &root, range_compare);
	if (!node || *(struct sim_range **)node != range) {
		free(range);
		return NULL;
	}
	if (range_report_kind(range, &report))
		sim_report_hold(report, device->index, bytes);
	return range;
}

void sim_range_part(struct sim_range *range)
{
	enum sim_report_kind report;

	if (!range->freeing && range_report_kind(range, &report))
		sim_report_drop(report, range->device->index, range->bytes);
	range->freeing = true;
}

struct sim_range *sim_range_find(uint64_t address)
{
	struct sim_range key = {.base = address, .bytes = 1};
	void *node = tfind(&key, &root, range_compare);

	return node ? *(struct sim_range **)node : NULL;
}

void sim_range_remove(struct sim_range *range)
{
	sim_range_part(range);
	tdelete(range, &root, range_compare);
	free(range);
}

struct sim_range *sim_range_add_block(struct sim_block *block, void *address, uint64_t offset,
				      uint64_t bytes, enum sim_range_kind kind,
				      struct sim_context *ctx)
{
	struct sim_range *range =
		sim_range_add((uint64_t)address + offset, bytes, kind, block->device, ctx);

	if (range) {
		range->block = block;
		range->map_base = (uint64_t)address;
		range->map_bytes = block->bytes;
	}
	return range;
}

struct visit {
	bool (*fn)(struct sim_range *range, void *arg);
	void *arg;
	struct sim_range *found;
};

static void range_visit(const void *node, VISIT which, void *closure)
{
	struct visit *v = closure;

	if ((which == postorder || which == leaf) && !v->found &&
	    v->fn(*(struct sim_range *const *)node, v->arg))
		v->found = *(struct sim_range *const *)node;
}

struct sim_range *sim_range_each(bool (*fn)(struct sim_range *range, void *arg), void *arg)
{
	struct visit v = {.fn = fn, .arg = arg};

	twalk_r(root, range_visit, &v);
	return v.found;
}
