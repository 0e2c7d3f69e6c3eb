/* SPDX-License-Identifier: Apache-2.0 */
/* What has been given of each device: sums over rows and shared objects, never kept twice. */
#include <errno.h>

#include "base/now.h"
#include "sim/region.h"

static bool count_is_away(const struct sim_region *region, int row)
{
	uint32_t checkpoint = region->row[row].checkpoint;

	return checkpoint == SIM_CHECKPOINTED || checkpoint == SIM_LOST;
}

static uint64_t count_private(const struct sim_region *region, int row, int device)
{
	uint64_t bytes = region->row[row].use[device].private_bytes;

	return count_is_away(region, row) && bytes > SIM_CHECKPOINT_BYTES ? SIM_CHECKPOINT_BYTES
									  : bytes;
}

/* An object is where its owner is: a checkpoint takes it along, whoever else holds it. */
static uint64_t count_objects(const struct sim_region *region, int row, int device)
{
	uint64_t sum = 0;

	for (uint32_t i = 0; i < region->nobjects; i++) {
		const struct sim_object *o = &region->object[i];

		if (o->key[0] && o->owner == row && o->device == (uint32_t)device)
			sum += o->bytes;
	}
	return sum;
}

uint64_t sim_row_used(const struct sim_region *region, int row, int device)
{
	return count_private(region, row, device) +
	       (count_is_away(region, row) ? 0 : count_objects(region, row, device));
}

uint64_t sim_row_away(const struct sim_region *region, int row, int device)
{
	return region->row[row].use[device].private_bytes - count_private(region, row, device) +
	       (count_is_away(region, row) ? count_objects(region, row, device) : 0);
}

static bool count_is_shown(const struct sim_region *region, const struct sim_object *o, int row)
{
	return !(o->holders[row / 64] & 1ull << row % 64) || o->shown[row / 64] & 1ull << row % 64;
}

/* It has no managed memory in it, and no objects that the process keeps without being shown. */
uint64_t sim_row_figure(const struct sim_region *region, int row, int device)
{
	const struct sim_use *use = &region->row[row].use[device];
	uint64_t sum = sim_row_used(region, row, device), now = now_monotonic_ns();

	if (count_is_away(region, row))
		return sum;
	sum -= use->managed_bytes;
	for (uint32_t i = 0; i < region->nobjects; i++) {
		const struct sim_object *o = &region->object[i];

		if (o->key[0] && o->owner == row && o->device == (uint32_t)device &&
		    !count_is_shown(region, o, row))
			sum -= o->bytes;
	}
	for (int i = 0; i < SIM_LATE; i++)
		if (use->late[i].until_ns > now)
			sum += use->late[i].bytes;
	return sum;
}

bool sim_row_is_sibling(const struct sim_region *region, int row, int other)
{
	const struct sim_process_row *a = &region->row[row], *b = &region->row[other];

	return a->state == SIM_ROW_LIVE && b->state == SIM_ROW_LIVE && a->pid == b->pid &&
	       a->pid_ns == b->pid_ns;
}

uint64_t sim_process_figure(const struct sim_region *region, int row, int device)
{
	uint64_t sum = 0;

	for (int i = 0; i < (int)region->nrows; i++)
		if (sim_row_is_sibling(region, row, i))
			sum += sim_row_figure(region, i, device);
	return sum;
}

uint64_t sim_region_used(const struct sim_region *region, int device)
{
	uint64_t sum = 0;

	for (uint32_t i = 0; i < region->nrows; i++)
		if (region->row[i].state == SIM_ROW_LIVE)
			sum += count_private(region, (int)i, device);
	for (uint32_t i = 0; i < region->nobjects; i++) {
		const struct sim_object *o = &region->object[i];

		if (o->key[0] && o->device == (uint32_t)device &&
		    !count_is_away(region, o->owner))
			sum += o->bytes;
	}
	return sum;
}

int sim_charge(struct sim_region *region, int row, int device, uint64_t bytes)
{
	struct sim_device_row *d = &region->device[device];
	uint64_t used;
	int r = -ENOMEM;

	sim_region_lock(region);
	used = sim_region_used(region, device);
	/* The dead are looked for before a refusal or a new peak only: that costs system calls. */
	if (bytes > d->total_bytes - used || used + bytes > d->peak_bytes) {
		sim_region_reap(region);
		used = sim_region_used(region, device);
	}
	if (bytes <= d->total_bytes - used) {
		region->row[row].use[device].private_bytes += bytes;
		if (used + bytes > d->peak_bytes)
			d->peak_bytes = used + bytes;
		r = 0;
	}
	sim_region_unlock(region);
	return r;
}

void sim_uncharge(struct sim_region *region, int row, int device, uint64_t bytes, uint64_t late_ns)
{
	struct sim_use *use = &region->row[row].use[device];
	uint64_t now = late_ns ? now_monotonic_ns() : 0;

	sim_region_lock(region);
	use->private_bytes -= bytes;
	for (int i = 0; late_ns && i < SIM_LATE; i++)
		if (use->late[i].until_ns <= now) {
			use->late[i] = (struct sim_late){bytes, now + late_ns};
			break;
		}
	sim_region_unlock(region);
}

static struct sim_object *count_find_object(struct sim_region *region, const uint64_t key[2])
{
	struct sim_object *o;

	if (!key[0] || key[1] >= region->nobjects)
		return NULL;
	o = &region->object[key[1]];
	return o->key[0] == key[0] ? o : NULL;
}

int sim_object_share(struct sim_region *region, int row, int device, uint64_t bytes,
		     uint64_t ret_key[2])
{
	int r = -ENOSPC;

	sim_region_lock(region);
	for (uint32_t i = 0; i < SIM_MAX_OBJECTS; i++) {
		struct sim_object *o = &region->object[i];

		if (o->key[0])
			continue;
		*o = (struct sim_object){.bytes = bytes, .device = (uint32_t)device, .owner = row,
					 .export_row = -1};
		o->key[1] = i;
		o->holders[row / 64] = o->shown[row / 64] = 1ull << row % 64;
		if (i >= region->nobjects)
			region->nobjects = i + 1;
		/*
		 * A kill between the next two stores leaves too little in a row that dies with
		 * it, and never an object that counts twice.
		 */
		region->row[row].use[device].private_bytes -= bytes;
		o->key[0] = ++region->next_key;
		ret_key[0] = o->key[0];
		ret_key[1] = i;
		r = 0;
		break;
	}
	sim_region_unlock(region);
	return r;
}

int sim_object_hold(struct sim_region *region, int row, const uint64_t key[2],
		    uint64_t *ret_bytes, int *ret_device)
{
	struct sim_object *o;
	int r = -ENOENT;

	sim_region_lock(region);
	sim_region_reap(region); /* memory whose last holder died is gone, whoever has its name */
	o = count_find_object(region, key);
	if (o) {
		o->holders[row / 64] |= 1ull << row % 64;
		*ret_bytes = o->bytes;
		*ret_device = (int)o->device;
		r = 0;
	}
	sim_region_unlock(region);
	return r;
}

void sim_object_show(struct sim_region *region, int row, const uint64_t key[2], bool shown)
{
	struct sim_object *o;

	sim_region_lock(region);
	o = count_find_object(region, key);
	if (o) {
		if (shown)
			o->shown[row / 64] |= 1ull << row % 64;
		else
			o->shown[row / 64] &= ~(1ull << row % 64);
		sim_object_settle(region, o);
	}
	sim_region_unlock(region);
}

void sim_object_exported(struct sim_region *region, int row, const uint64_t key[2], int fd)
{
	struct sim_object *o;

	sim_region_lock(region);
	o = count_find_object(region, key);
	if (o) {
		o->export_pid = region->row[row].pid;
		o->export_fd = fd;
		o->export_generation = region->row[row].generation;
		o->export_row = row;
	}
	sim_region_unlock(region);
}

bool sim_object_exists(struct sim_region *region, const uint64_t key[2])
{
	bool exists;

	sim_region_lock(region);
	sim_region_reap(region);
	exists = count_find_object(region, key);
	sim_region_unlock(region);
	return exists;
}

void sim_object_drop(struct sim_region *region, int row, const uint64_t key[2])
{
	struct sim_object *o;

	sim_region_lock(region);
	o = count_find_object(region, key);
	if (o) {
		o->shown[row / 64] &= ~(1ull << row % 64);
		o->holders[row / 64] &= ~(1ull << row % 64);
		sim_object_settle(region, o);
	}
	sim_region_unlock(region);
}
