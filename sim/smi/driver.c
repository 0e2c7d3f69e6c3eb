/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/smi/driver.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define NOT_TOLD "[N/A]"

static bool driver_is_called(struct driver *driver, const struct driver_device *device, const char *word)
{
	char text[DRIVER_TEXT], *end;
	unsigned long index = strtoul(word, &end, 10);

	if (*word && !*end)
		return index == device->index;
	driver_uuid(driver, device, text);
	if (!strcasecmp(text, word))
		return true;
	driver_bus_id(driver, device, text);
	return !strcasecmp(text, word);
}

/* An empty list chooses nothing. */
static bool driver_is_chosen(struct driver *driver, const struct driver_device *device, const char *list)
{
	char copy[1024], *rest = copy, *word;

	snprintf(copy, sizeof(copy), "%s", list);
	while ((word = strsep(&rest, ",")))
		if (driver_is_called(driver, device, word + strspn(word, " ")))
			return true;
	return false;
}

static void driver_find(struct driver *driver, const char *chosen)
{
	unsigned int n = 0;

	if (driver->nvml.nvmlDeviceGetCount_v2(&n))
		n = 0;
	driver->count = n;
	for (unsigned int i = 0; i < n && driver->n < SIM_MAX_DEVICES; i++) {
		struct driver_device device = {.index = i};

		if (driver->nvml.nvmlDeviceGetHandleByIndex_v2(i, &device.handle))
			continue;
		if (!chosen || driver_is_chosen(driver, &device, chosen))
			driver->device[driver->n++] = device;
	}
}

int driver_open(struct driver *driver, const char *chosen)
{
	void *handle = dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);

	driver->n = driver->count = 0;
	if (handle)
		nvml_library_bind(&driver->nvml, handle, dlsym);
	if (!handle || driver->nvml.nvmlInit_v2()) {
		puts("NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver. Make "
		     "sure that it runs under \"allot sim\".");
		return EXIT_NO_DRIVER;
	}
	driver_find(driver, chosen);
	if (driver->n)
		return 0;
	puts("No devices were found");
	driver_close(driver);
	return EXIT_NO_DEVICE;
}

void driver_close(struct driver *driver)
{
	driver->nvml.nvmlShutdown();
}

static void driver_or_not_told(nvmlReturn_t r, char ret[static DRIVER_TEXT])
{
	if (r)
		strcpy(ret, NOT_TOLD);
}

void driver_version(struct driver *driver, char ret[static DRIVER_TEXT])
{
	driver_or_not_told(driver->nvml.nvmlSystemGetDriverVersion(ret, DRIVER_TEXT), ret);
}

void driver_cuda_version(struct driver *driver, char ret[static DRIVER_TEXT])
{
	int version = 0;
	nvmlReturn_t r = driver->nvml.nvmlSystemGetCudaDriverVersion_v2(&version);

	snprintf(ret, DRIVER_TEXT, "%d.%d", version / 1000, version % 1000 / 10);
	driver_or_not_told(r, ret);
}

void driver_name(struct driver *driver, const struct driver_device *device, char ret[static DRIVER_TEXT])
{
	driver_or_not_told(driver->nvml.nvmlDeviceGetName(device->handle, ret, DRIVER_TEXT), ret);
}

void driver_uuid(struct driver *driver, const struct driver_device *device, char ret[static DRIVER_TEXT])
{
	driver_or_not_told(driver->nvml.nvmlDeviceGetUUID(device->handle, ret, DRIVER_TEXT), ret);
}

void driver_bus_id(struct driver *driver, const struct driver_device *device, char ret[static DRIVER_TEXT])
{
	nvmlPciInfo_t pci;
	nvmlReturn_t r = driver->nvml.nvmlDeviceGetPciInfo_v3(device->handle, &pci);

	if (!r)
		snprintf(ret, DRIVER_TEXT, "%.31s", pci.busId);
	driver_or_not_told(r, ret);
}

/* The program alone, as it was called. */
void driver_process_name(struct driver *driver, unsigned int pid, char ret[static DRIVER_TEXT])
{
	char name[1024];
	nvmlReturn_t r = driver->nvml.nvmlSystemGetProcessName(pid, name, sizeof(name));

	name[r ? 0 : strcspn(name, " ")] = 0;
	snprintf(ret, DRIVER_TEXT, "%.*s", DRIVER_TEXT - 1, name);
	driver_or_not_told(r, ret);
}

bool driver_memory(struct driver *driver, const struct driver_device *device, nvmlMemory_v2_t *ret)
{
	nvmlMemory_t plain;

	*ret = (nvmlMemory_v2_t){.version = nvmlMemory_v2};
	if (!driver->nvml.nvmlDeviceGetMemoryInfo_v2(device->handle, ret))
		return true;
	if (driver->nvml.nvmlDeviceGetMemoryInfo(device->handle, &plain))
		return false;
	ret->total = plain.total;
	ret->used = plain.used;
	ret->free = plain.free;
	return true;
}

unsigned int driver_processes(struct driver *driver, const struct driver_device *device,
			      nvmlProcessInfo_t ret[static DRIVER_PROCESSES])
{
	unsigned int n = DRIVER_PROCESSES;

	return driver->nvml.nvmlDeviceGetComputeRunningProcesses_v3(device->handle, &n, ret) ? 0 : n;
}

unsigned int driver_graphics(struct driver *driver, const struct driver_device *device,
			     nvmlProcessInfo_t ret[static DRIVER_PROCESSES])
{
	unsigned int n = DRIVER_PROCESSES;

	return driver->nvml.nvmlDeviceGetGraphicsRunningProcesses_v3(device->handle, &n, ret) ? 0 : n;
}
