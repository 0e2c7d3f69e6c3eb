/* SPDX-License-Identifier: Apache-2.0 */
/* Finding devices and describing them. What the region does not say is what an H200 says. */
#include <inttypes.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/now.h"
#include "nvidia/uuid.h"
#include "sim/nvml/entry.h"
#include "sim/nvml/power.h"

/* A handle is an address in here: the same for the life of the library, as the real ones are. */
struct nvmlDevice_st {
	char unused;
};
static struct nvmlDevice_st handles[SIM_MAX_DEVICES];

/* A device falls off the bus while there is a file of this name with the device's index behind it. */
static bool device_is_lost(uint32_t index)
{
	const char *prefix = getenv("ALLOT_SIM_NVML_LOST");
	char path[PATH_MAX];

	if (!prefix)
		return false;
	snprintf(path, sizeof(path), "%s%" PRIu32, prefix, index);
	return !access(path, F_OK);
}

nvmlReturn_t sim_nvml_device(nvmlDevice_t handle, struct sim_region **ret_region, int *ret_index)
{
	struct sim_region *region = sim_nvml_region();

	if (!region)
		return NVML_ERROR_UNINITIALIZED;
	for (uint32_t i = 0; i < region->ndevices; i++)
		if (handle == &handles[i]) {
			if (device_is_lost(i))
				return NVML_ERROR_GPU_IS_LOST;
			*ret_region = region;
			*ret_index = (int)i;
			return NVML_SUCCESS;
		}
	return NVML_ERROR_INVALID_ARGUMENT;
}

nvmlReturn_t nvmlDeviceGetCount_v2(unsigned int *deviceCount)
{
	struct sim_region *region = sim_nvml_region();

	if (!region)
		return NVML_ERROR_UNINITIALIZED;
	if (!deviceCount)
		return NVML_ERROR_INVALID_ARGUMENT;
	*deviceCount = region->ndevices;
	return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetCount(unsigned int *deviceCount)
{
	return nvmlDeviceGetCount_v2(deviceCount);
}

nvmlReturn_t nvmlDeviceGetHandleByIndex_v2(unsigned int index, nvmlDevice_t *device)
{
	struct sim_region *region = sim_nvml_region();

	if (!region)
		return NVML_ERROR_UNINITIALIZED;
	if (!device || index >= region->ndevices)
		return NVML_ERROR_INVALID_ARGUMENT;
	*device = &handles[index];
	return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetHandleByIndex(unsigned int index, nvmlDevice_t *device)
{
	return nvmlDeviceGetHandleByIndex_v2(index, device);
}

static nvmlReturn_t device_by_uuid(const uint8_t uuid[16], nvmlDevice_t *device)
{
	struct sim_region *region = sim_nvml_region();

	if (!region)
		return NVML_ERROR_UNINITIALIZED;
	for (uint32_t i = 0; i < region->ndevices; i++)
		if (!memcmp(region->device[i].uuid, uuid, 16))
			return nvmlDeviceGetHandleByIndex_v2(i, device);
	return NVML_ERROR_NOT_FOUND;
}

nvmlReturn_t nvmlDeviceGetHandleByUUID(const char *uuid, nvmlDevice_t *device)
{
	uint8_t bytes[16];

	if (!uuid || !device)
		return NVML_ERROR_INVALID_ARGUMENT;
	if (strncmp(uuid, "GPU-", 4) || uuid_parse(uuid, bytes) < 0)
		return NVML_ERROR_NOT_FOUND;
	return device_by_uuid(bytes, device);
}

nvmlReturn_t nvmlDeviceGetHandleByUUIDV(const nvmlUUID_t *uuid, nvmlDevice_t *device)
{
	if (!uuid || !device)
		return NVML_ERROR_INVALID_ARGUMENT;
	if (uuid->version != nvmlUUID_v1)
		return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
	if (uuid->type == NVML_UUID_TYPE_BINARY)
		return device_by_uuid(uuid->value.bytes, device);
	if (uuid->type != NVML_UUID_TYPE_ASCII ||
	    !memchr(uuid->value.str, '\0', sizeof(uuid->value.str)))
		return NVML_ERROR_INVALID_ARGUMENT;
	return nvmlDeviceGetHandleByUUID(uuid->value.str, device);
}

nvmlReturn_t nvmlDeviceGetHandleByPciBusId_v2(const char *pciBusId, nvmlDevice_t *device)
{
	struct sim_region *region = sim_nvml_region();
	unsigned int domain = 0, bus, dev;

	if (!region)
		return NVML_ERROR_UNINITIALIZED;
	if (!pciBusId || !device)
		return NVML_ERROR_INVALID_ARGUMENT;
	if (sscanf(pciBusId, "%x:%x:%x", &domain, &bus, &dev) != 3) {
		domain = 0;
		if (sscanf(pciBusId, "%x:%x", &bus, &dev) != 2)
			return NVML_ERROR_INVALID_ARGUMENT;
	}
	for (uint32_t i = 0; i < region->ndevices; i++) {
		const struct sim_device_row *d = &region->device[i];

		if (d->pci_domain == domain && d->pci_bus == bus && d->pci_device == dev)
			return nvmlDeviceGetHandleByIndex_v2(i, device);
	}
	return NVML_ERROR_NOT_FOUND;
}

nvmlReturn_t nvmlDeviceGetHandleByPciBusId(const char *pciBusId, nvmlDevice_t *device)
{
	return nvmlDeviceGetHandleByPciBusId_v2(pciBusId, device);
}

static void device_serial_of(int index, char text[NVML_DEVICE_SERIAL_BUFFER_SIZE])
{
	snprintf(text, NVML_DEVICE_SERIAL_BUFFER_SIZE, "16510000000%02d", index);
}

nvmlReturn_t nvmlDeviceGetHandleBySerial(const char *serial, nvmlDevice_t *device)
{
	struct sim_region *region = sim_nvml_region();

	if (!region)
		return NVML_ERROR_UNINITIALIZED;
	if (!serial || !device)
		return NVML_ERROR_INVALID_ARGUMENT;
	for (uint32_t i = 0; i < region->ndevices; i++) {
		char text[NVML_DEVICE_SERIAL_BUFFER_SIZE];

		device_serial_of((int)i, text);
		if (!strcmp(text, serial))
			return nvmlDeviceGetHandleByIndex_v2(i, device);
	}
	return NVML_ERROR_NOT_FOUND;
}

nvmlReturn_t nvmlDeviceGetName(nvmlDevice_t device, char *name, unsigned int length)
{
	struct sim_region *region;
	int i;
	nvmlReturn_t r = sim_nvml_device(device, &region, &i);

	return r ? r : sim_nvml_text(name, length, region->device[i].name);
}

nvmlReturn_t nvmlDeviceGetUUID(nvmlDevice_t device, char *uuid, unsigned int length)
{
	char text[UUID_TEXT_SIZE];
	struct sim_region *region;
	int i;
	nvmlReturn_t r = sim_nvml_device(device, &region, &i);

	if (r)
		return r;
	uuid_format(region->device[i].uuid, text);
	return sim_nvml_text(uuid, length, text);
}

nvmlReturn_t nvmlDeviceGetSerial(nvmlDevice_t device, char *serial, unsigned int length)
{
	char text[NVML_DEVICE_SERIAL_BUFFER_SIZE];
	struct sim_region *region;
	int i;
	nvmlReturn_t r = sim_nvml_device(device, &region, &i);

	if (r)
		return r;
	device_serial_of(i, text);
	return sim_nvml_text(serial, length, text);
}

nvmlReturn_t nvmlDeviceGetPciInfo_v3(nvmlDevice_t device, nvmlPciInfo_t *pci)
{
	const struct sim_device_row *d;
	struct sim_region *region;
	int i;
	nvmlReturn_t r = sim_nvml_device(device, &region, &i);

	if (r)
		return r;
	if (!pci)
		return NVML_ERROR_INVALID_ARGUMENT;
	d = &region->device[i];
	*pci = (nvmlPciInfo_t){.domain = d->pci_domain,
			       .bus = d->pci_bus,
			       .device = d->pci_device,
			       .pciDeviceId = 0x233510de,
			       .pciSubSystemId = 0x18be10de};
	snprintf(pci->busIdLegacy, sizeof(pci->busIdLegacy), "%04X:%02X:%02X.0",
		 d->pci_domain & 0xffff, d->pci_bus & 0xff, d->pci_device & 0xff);
	snprintf(pci->busId, sizeof(pci->busId), "%08X:%02X:%02X.0", d->pci_domain,
		 d->pci_bus & 0xff, d->pci_device & 0xff);
	return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetPciInfo_v2(nvmlDevice_t device, nvmlPciInfo_t *pci)
{
	return nvmlDeviceGetPciInfo_v3(device, pci);
}

/* The first form ends before busId. */
nvmlReturn_t nvmlDeviceGetPciInfo(nvmlDevice_t device, nvmlPciInfo_t *pci)
{
	nvmlPciInfo_t whole;
	nvmlReturn_t r = nvmlDeviceGetPciInfo_v3(device, &whole);

	if (r)
		return r;
	if (!pci)
		return NVML_ERROR_INVALID_ARGUMENT;
	memcpy(pci, &whole, offsetof(nvmlPciInfo_t, busId));
	return NVML_SUCCESS;
}

/* An entry point that answers one figure: `i` is the device's index, `d` its row. */
#define FIGURE(name, type, parameter, value)                                     \
	nvmlReturn_t name(nvmlDevice_t device, type *parameter)                  \
	{                                                                        \
		struct sim_region *region;                                       \
		int i;                                                           \
		nvmlReturn_t r = sim_nvml_device(device, &region, &i);           \
                                                                                 \
		if (r)                                                           \
			return r;                                                \
		if (!parameter)                                                  \
			return NVML_ERROR_INVALID_ARGUMENT;                      \
		*parameter = (value);                                            \
		return NVML_SUCCESS;                                             \
	}

FIGURE(nvmlDeviceGetIndex, unsigned int, index, (unsigned int)i)
FIGURE(nvmlDeviceGetMinorNumber, unsigned int, minorNumber, (unsigned int)i)
FIGURE(nvmlDeviceGetBrand, nvmlBrandType_t, type, NVML_BRAND_NVIDIA)
FIGURE(nvmlDeviceGetArchitecture, nvmlDeviceArchitecture_t, arch, NVML_DEVICE_ARCH_HOPPER)
FIGURE(nvmlDeviceGetComputeMode, nvmlComputeMode_t, mode, NVML_COMPUTEMODE_DEFAULT)
FIGURE(nvmlDeviceGetPersistenceMode, nvmlEnableState_t, mode, NVML_FEATURE_ENABLED)
FIGURE(nvmlDeviceGetDisplayMode, nvmlEnableState_t, display, NVML_FEATURE_DISABLED)
FIGURE(nvmlDeviceGetDisplayActive, nvmlEnableState_t, isActive, NVML_FEATURE_DISABLED)
FIGURE(nvmlDeviceIsMigDeviceHandle, unsigned int, isMigDevice, 0)
FIGURE(nvmlDeviceGetNumGpuCores, unsigned int, numCores, region->device[i].sm_count * 128)
FIGURE(nvmlDeviceGetPowerUsage, unsigned int, power,
       sim_nvml_power_mw(&region->device[i].engine.power))
FIGURE(nvmlDeviceGetTotalEnergyConsumption, unsigned long long, energy,
       sim_power_mj(&region->device[i].engine.power, now_monotonic_ns()))
FIGURE(nvmlDeviceGetPowerManagementLimit, unsigned int, limit, 700000)
FIGURE(nvmlDeviceGetEnforcedPowerLimit, unsigned int, limit, 700000)
FIGURE(nvmlDeviceGetPerformanceState, nvmlPstates_t, pState, NVML_PSTATE_0)

nvmlReturn_t nvmlDeviceGetMigMode(nvmlDevice_t device, unsigned int *currentMode,
				  unsigned int *pendingMode)
{
	nvmlReturn_t r = nvmlDeviceIsMigDeviceHandle(device, currentMode);

	return r ? r : nvmlDeviceIsMigDeviceHandle(device, pendingMode);
}

nvmlReturn_t nvmlDeviceGetCudaComputeCapability(nvmlDevice_t device, int *major, int *minor)
{
	struct sim_region *region;
	int i;
	nvmlReturn_t r = sim_nvml_device(device, &region, &i);

	if (r)
		return r;
	if (!major || !minor)
		return NVML_ERROR_INVALID_ARGUMENT;
	*major = 9;
	*minor = 0;
	return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetTemperature(nvmlDevice_t device, nvmlTemperatureSensors_t sensorType,
				      unsigned int *temp)
{
	struct sim_region *region;
	int i;
	nvmlReturn_t r = sim_nvml_device(device, &region, &i);

	if (r)
		return r;
	if (!temp || sensorType != NVML_TEMPERATURE_GPU)
		return NVML_ERROR_INVALID_ARGUMENT;
	*temp = 40;
	return NVML_SUCCESS;
}

/* The video engines are not simulated, and idle. */
nvmlReturn_t nvmlDeviceGetEncoderUtilization(nvmlDevice_t device, unsigned int *utilization,
					     unsigned int *samplingPeriodUs)
{
	struct sim_region *region;
	int i;
	nvmlReturn_t r = sim_nvml_device(device, &region, &i);

	if (r)
		return r;
	if (!utilization || !samplingPeriodUs)
		return NVML_ERROR_INVALID_ARGUMENT;
	*utilization = 0;
	*samplingPeriodUs = 167000;
	return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetDecoderUtilization(nvmlDevice_t device, unsigned int *utilization,
					     unsigned int *samplingPeriodUs)
{
	return nvmlDeviceGetEncoderUtilization(device, utilization, samplingPeriodUs);
}

nvmlReturn_t nvmlDeviceGetMaxClockInfo(nvmlDevice_t device, nvmlClockType_t type,
				       unsigned int *clock)
{
	static const unsigned int mhz[NVML_CLOCK_COUNT] = {1980, 1980, 3201, 1545};
	struct sim_region *region;
	int i;
	nvmlReturn_t r = sim_nvml_device(device, &region, &i);

	if (r)
		return r;
	if (!clock || (unsigned int)type >= NVML_CLOCK_COUNT)
		return NVML_ERROR_INVALID_ARGUMENT;
	*clock = mhz[type];
	return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetClockInfo(nvmlDevice_t device, nvmlClockType_t type, unsigned int *clock)
{
	return nvmlDeviceGetMaxClockInfo(device, type, clock);
}
