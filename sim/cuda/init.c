/* SPDX-License-Identifier: Apache-2.0 */
/* cuInit, the process's state, and which devices it sees. */
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/now.h"
#include "sim/cuda/api.h"
#include "sim/cuda/mps.h"
#include "sim/cuda/report.h"
#include "sim/cuda/settings.h"
#include "sim/cuda/sim.h"
#include "sim/cuda/stream.h"

struct sim_process sim;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_mutex_t init_lock = PTHREAD_MUTEX_INITIALIZER;

/*
 * One page that reads as zeroes in a forked child: its first word says "initialised here". The
 * pointer itself is inherited, which tells a child of an initialised process from a fresh one.
 */
static _Atomic(atomic_int *) here;

void sim_lock(void)
{
	pthread_mutex_lock(&lock);
}

void sim_unlock(void)
{
	pthread_mutex_unlock(&lock);
}

CUresult sim_ready(void)
{
	atomic_int *word = atomic_load_explicit(&here, memory_order_acquire);

	if (!word || !atomic_load_explicit(word, memory_order_acquire))
		return CUDA_ERROR_NOT_INITIALIZED;
	return CUDA_SUCCESS;
}

static bool init_uuid_matches(const uint8_t uuid[16], const char *token, size_t len)
{
	char text[48] = "GPU-";
	size_t n = 4;

	for (int i = 0; i < 16; i++) {
		if (i == 4 || i == 6 || i == 8 || i == 10)
			text[n++] = '-';
		n += (size_t)snprintf(text + n, sizeof(text) - n, "%02x", uuid[i]);
	}
	return len > 4 && len <= n && !strncasecmp(text, token, len);
}

/* An index or a UUID (a prefix will do) to a device of the region, or -1. */
static int init_find_visible(const char *token, size_t len)
{
	char *end;
	long v;

	if (!strncasecmp(token, "GPU-", 4)) {
		int found = -1;

		for (uint32_t i = 0; i < sim.region->ndevices; i++) {
			if (!init_uuid_matches(sim.region->device[i].uuid, token, len))
				continue;
			if (found >= 0)
				return -1; /* the prefix is not unique */
			found = (int)i;
		}
		return found;
	}
	v = strtol(token, &end, 10);
	if (!len || end != token + len || v < 0 || v >= (long)sim.region->ndevices)
		return -1;
	return (int)v;
}

static void init_add_device(int index)
{
	struct sim_device *d = &sim.device[sim.ndevices];

	*d = (struct sim_device){.ordinal = sim.ndevices, .index = index,
				 .row = &sim.region->device[index]};
	sim.ndevices++;
}

/* The driver's rules: the list ends at the first entry that names no device; twice is none. */
static void init_choose_devices(void)
{
	const char *s = getenv("CUDA_VISIBLE_DEVICES");

	sim.ndevices = 0;
	if (!s) {
		for (uint32_t i = 0; i < sim.region->ndevices; i++)
			init_add_device((int)i);
		return;
	}
	while (*s) {
		size_t len;
		int index;

		s += strspn(s, " \t");
		len = strcspn(s, ", \t");
		index = init_find_visible(s, len);
		if (index < 0)
			return;
		for (int i = 0; i < sim.ndevices; i++)
			if (sim.device[i].index == index) {
				sim.ndevices = 0;
				return;
			}
		init_add_device(index);
		s += len;
		s += strspn(s, " \t");
		if (*s == ',')
			s++;
	}
}

static CUresult init_from_errno(int r)
{
	switch (r) {
	case -ENOSPC:
	case -ENOMEM:
		return CUDA_ERROR_OUT_OF_MEMORY;
	case -EINVAL:
		return CUDA_ERROR_INVALID_VALUE;
	case -EPROTO:
		return CUDA_ERROR_SYSTEM_DRIVER_MISMATCH;
	default:
		return CUDA_ERROR_OPERATING_SYSTEM;
	}
}

static CUresult init_process(void)
{
	atomic_int *word = atomic_load_explicit(&here, memory_order_acquire);
	int r;

	if (word)
		return sim_ready(); /* ours, or inherited and so for ever unusable */
	word = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (word == MAP_FAILED)
		return CUDA_ERROR_OUT_OF_MEMORY;
	if (madvise(word, 4096, MADV_WIPEONFORK)) {
		munmap(word, 4096);
		return CUDA_ERROR_OPERATING_SYSTEM;
	}
	r = sim_region_open(NULL, true, &sim.region, &sim.row);
	if (r) {
		if (r == -EPROTO)
			fprintf(stderr, "allot sim: the region in ALLOT_SIM_DIR is another "
					"version's; stop its users and remove it\n");
		munmap(word, 4096);
		return init_from_errno(r);
	}
	init_choose_devices();
	if (!sim.ndevices) {
		sim_region_close(sim.region);
		munmap(word, 4096);
		return CUDA_ERROR_NO_DEVICE;
	}
	sim_mps_begin();
	sim_report_begin();
	atomic_store_explicit(word, 1, memory_order_release);
	atomic_store_explicit(&here, word, memory_order_release);
	return CUDA_SUCCESS;
}

CUresult cuInit(unsigned int Flags)
{
	CUresult r = sim_ready();

	if (!r || Flags)
		return Flags ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
	/* An inherited word is checked before the lock, which fork may have caught held. */
	if (atomic_load_explicit(&here, memory_order_acquire))
		return sim_ready();
	pthread_mutex_lock(&init_lock);
	r = init_process();
	pthread_mutex_unlock(&init_lock);
	return r;
}

CUresult sim_device_get(CUdevice ordinal, struct sim_device **ret_device)
{
	CUresult r = sim_ready();

	if (r)
		return r;
	if (ordinal < 0 || ordinal >= sim.ndevices)
		return CUDA_ERROR_INVALID_DEVICE;
	*ret_device = &sim.device[ordinal];
	return CUDA_SUCCESS;
}

bool sim_location(const CUmemLocation *location, struct sim_device **ret_device)
{
	switch (location->type) {
	case CU_MEM_LOCATION_TYPE_DEVICE:
		return !sim_device_get(location->id, ret_device);
	case CU_MEM_LOCATION_TYPE_HOST:
	case CU_MEM_LOCATION_TYPE_HOST_NUMA:
	case CU_MEM_LOCATION_TYPE_HOST_NUMA_CURRENT:
		*ret_device = NULL;
		return true;
	default:
		return false;
	}
}

CUresult sim_device_take(struct sim_device *device, uint64_t bytes)
{
	if (sim_charge(sim.region, sim.row, device->index, bytes))
		return CUDA_ERROR_OUT_OF_MEMORY;
	sim_report_take(device->index, bytes);
	return CUDA_SUCCESS;
}

void sim_device_give(struct sim_device *device, uint64_t bytes)
{
	uint64_t most = sim_settings()->figure_late_ns;

	sim_report_give(device->index, bytes);
	sim_uncharge(sim.region, sim.row, device->index, bytes,
		     most ? now_monotonic_ns() * 2654435761u % most : 0);
}

/* The execution half numbers devices as the program does. */
struct sim_engine_shared *sim_region_engine(unsigned int device)
{
	return &sim.device[device].row->engine;
}

unsigned int sim_region_row(void)
{
	return (unsigned int)sim.row;
}

unsigned int sim_region_account(void)
{
	return sim.region->row[sim.row].account;
}

bool sim_region_row_alive(unsigned int row)
{
	/* One that may come back from an image keeps what it has of the device's queue. */
	return sim.region->row[row].state == SIM_ROW_GONE || sim_row_alive(sim.region, (int)row);
}
