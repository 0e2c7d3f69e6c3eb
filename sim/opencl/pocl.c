/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/opencl/pocl.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define VENDOR_FILE "/etc/OpenCL/vendors/pocl.icd"
#define SONAME	    "libpocl.so.2"
#define TABLE_CONTEXT_DESTRUCTOR 148

#define EXPORT __attribute__((visibility("default")))

struct sim_pocl sim_pocl;
struct sim_region *sim_opencl_region;
int sim_opencl_row = -1;

static pthread_once_t once = PTHREAD_ONCE_INIT;
static bool opened;
static pid_t owner;

bool sim_opencl_owns(void)
{
	return owner == getpid();
}

static void *pocl_load(void)
{
	char line[256] = SONAME;
	FILE *file = fopen(VENDOR_FILE, "re");
	void *handle;

	if (file && !fgets(line, sizeof(line), file))
		memcpy(line, SONAME, sizeof(SONAME));
	if (file)
		fclose(file);
	line[strcspn(line, "\r\n")] = '\0';
	handle = dlopen(line, RTLD_NOW | RTLD_LOCAL);
	return handle ? handle : dlopen(SONAME, RTLD_NOW | RTLD_LOCAL);
}

static void pocl_read(void *const *table)
{
#define OPENCL_HOOK(index, version, result, name, params) \
	sim_pocl.name = (__typeof__(sim_pocl.name))table[index];
#define OPENCL_CALL(index, version, result, name, params) \
	sim_pocl.name = (__typeof__(sim_pocl.name))table[index];
#include "opencl/opencl_api.def"
	sim_pocl.clSetContextDestructorCallback =
		(__typeof__(sim_pocl.clSetContextDestructorCallback))table[TABLE_CONTEXT_DESTRUCTOR];
}

static bool pocl_write(void **table, const struct sim_entry *entries)
{
	uintptr_t size = (uintptr_t)sysconf(_SC_PAGESIZE);

	for (; entries->function; entries++) {
		void **entry = &table[entries->index];

		if (mprotect((void *)((uintptr_t)entry & ~(size - 1)), size, PROT_READ | PROT_WRITE))
			return false;
		*entry = entries->function;
	}
	return true;
}

static bool pocl_bind(void *handle)
{
	cl_platform_id platform;
	cl_uint n = 0;
	void **table;

	sim_pocl.extension = (__typeof__(sim_pocl.extension))dlsym(handle, "clGetExtensionFunctionAddress");
	if (!sim_pocl.extension)
		return false;
	sim_pocl.platforms =
		(__typeof__(sim_pocl.platforms))sim_pocl.extension("clIcdGetPlatformIDsKHR");
	if (!sim_pocl.platforms || sim_pocl.platforms(1, &platform, &n) || !n)
		return false;
	table = *(void ***)platform;
	pocl_read(table);
	return pocl_write(table, sim_device_entries) && pocl_write(table, sim_memory_entries);
}

static void pocl_open(void)
{
	void *handle = pocl_load();

	if (!handle || sim_region_open(NULL, true, &sim_opencl_region, &sim_opencl_row))
		return;
	owner = getpid();
	opened = sim_opencl_region->ndevices && pocl_bind(handle);
}

bool sim_opencl_open(void)
{
	pthread_once(&once, pocl_open);
	return opened;
}

/* The simulated driver's own entry of the table, in which the guest's hooks may stand by now. */
static void *pocl_entry(unsigned int index, void *own)
{
	const struct sim_entry *const lists[] = {sim_device_entries, sim_memory_entries};

	for (size_t i = 0; i < sizeof(lists) / sizeof(lists[0]); i++)
		for (const struct sim_entry *entry = lists[i]; entry->function; entry++)
			if (entry->index == index)
				return entry->function;
	return own;
}

/* A driver may answer for any of its functions. */
void *sim_opencl_find(const char *name)
{
#define OPENCL_HOOK(index, version, result, own, params) \
	if (!strcmp(name, #own))                         \
		return pocl_entry(index, (void *)sim_pocl.own);
#include "opencl/opencl_api.def"
	return sim_pocl.extension(name);
}

EXPORT cl_int clIcdGetPlatformIDsKHR(cl_uint num_entries, cl_platform_id *platforms, cl_uint *num_platforms)
{
	if (!sim_opencl_open()) {
		if (num_platforms)
			*num_platforms = 0;
		return CL_PLATFORM_NOT_FOUND_KHR;
	}
	return sim_pocl.platforms(num_entries, platforms, num_platforms);
}

EXPORT void *clGetExtensionFunctionAddress(const char *name)
{
	if (!strcmp(name, "clIcdGetPlatformIDsKHR"))
		return (void *)clIcdGetPlatformIDsKHR;
	return sim_opencl_open() ? sim_opencl_find(name) : NULL;
}
