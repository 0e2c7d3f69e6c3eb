/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/vulkan/gpu.h"

#include <pthread.h>
#include <unistd.h>

#include "sim/region.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct sim_region *region;
static int row;
static pid_t owner; /* who mapped it: the mapping is not inherited */

int gpu_open(void)
{
	int r = 0;

	pthread_mutex_lock(&lock);
	if (owner != getpid())
		r = sim_region_open(NULL, true, &region, &row);
	if (r == 0)
		owner = getpid();
	pthread_mutex_unlock(&lock);
	return r;
}

int gpu_count(void)
{
	return (int)region->ndevices;
}

const char *gpu_name(int gpu)
{
	return region->device[gpu].name;
}

const uint8_t *gpu_uuid(int gpu)
{
	return region->device[gpu].uuid;
}

uint64_t gpu_total(int gpu)
{
	return region->device[gpu].total_bytes;
}

void gpu_read(int gpu, uint64_t *ret_own, uint64_t *ret_free)
{
	sim_region_lock(region);
	sim_region_reap(region);
	*ret_own = sim_process_figure(region, row, gpu);
	*ret_free = region->device[gpu].total_bytes - sim_region_used(region, gpu);
	sim_region_unlock(region);
}

int gpu_charge(int gpu, uint64_t bytes)
{
	return sim_charge(region, row, gpu, bytes);
}

void gpu_uncharge(int gpu, uint64_t bytes)
{
	sim_uncharge(region, row, gpu, bytes, 0);
}

void gpu_note_device(int gpu, bool begins)
{
	region->row[row].use[gpu].graphics += begins ? 1 : -1u;
}
