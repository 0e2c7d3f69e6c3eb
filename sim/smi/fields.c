/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/smi/fields.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

#define MIB(bytes) ((unsigned long long)(bytes) >> 20)

/* A field whose value is a text of the device, which driver.h has by that name. */
#define TEXT(name)                                                                               \
	static bool fields_put_##name(const struct fields_line *l, char ret[static DRIVER_TEXT]) \
	{                                                                                        \
		driver_##name(l->driver, l->device, ret);                                        \
		return strcmp(ret, "[N/A]") != 0;                                                \
	}

/* A field whose value is made of one figure of NVML's, `v`. */
#define FIGURE(name, type, call, ...)                                                          \
	static bool fields_put_##name(const struct fields_line *l, char ret[static DRIVER_TEXT]) \
	{                                                                                      \
		struct nvml_library *nvml = &l->driver->nvml;                                  \
		nvmlDevice_t device = l->device->handle;                                       \
		type v;                                                                        \
                                                                                               \
		if (nvml->call)                                                                \
			return false;                                                          \
		snprintf(ret, DRIVER_TEXT, __VA_ARGS__);                                       \
		return true;                                                                   \
	}

/* A part of the device's memory, in MiB. */
#define MEMORY(part)                                                                             \
	static bool fields_put_##part(const struct fields_line *l, char ret[static DRIVER_TEXT]) \
	{                                                                                        \
		nvmlMemory_v2_t memory;                                                          \
                                                                                                 \
		if (!driver_memory(l->driver, l->device, &memory))                               \
			return false;                                                            \
		snprintf(ret, DRIVER_TEXT, "%llu", MIB(memory.part));                            \
		return true;                                                                     \
	}

TEXT(name)
TEXT(uuid)
TEXT(bus_id)

MEMORY(total)
MEMORY(reserved)
MEMORY(used)
MEMORY(free)

FIGURE(domain, nvmlPciInfo_t, nvmlDeviceGetPciInfo_v3(device, &v), "0x%04X", v.domain)
FIGURE(bus, nvmlPciInfo_t, nvmlDeviceGetPciInfo_v3(device, &v), "0x%02X", v.bus)
FIGURE(device, nvmlPciInfo_t, nvmlDeviceGetPciInfo_v3(device, &v), "0x%02X", v.device)
FIGURE(device_id, nvmlPciInfo_t, nvmlDeviceGetPciInfo_v3(device, &v), "0x%08X", v.pciDeviceId)
FIGURE(utilization, nvmlUtilization_t, nvmlDeviceGetUtilizationRates(device, &v), "%u", v.gpu)
FIGURE(traffic, nvmlUtilization_t, nvmlDeviceGetUtilizationRates(device, &v), "%u", v.memory)
FIGURE(temperature, unsigned int, nvmlDeviceGetTemperature(device, NVML_TEMPERATURE_GPU, &v), "%u", v)
FIGURE(power, unsigned int, nvmlDeviceGetPowerUsage(device, &v), "%.2f", v / 1000.0)
FIGURE(power_limit, unsigned int, nvmlDeviceGetPowerManagementLimit(device, &v), "%.2f", v / 1000.0)
FIGURE(enforced, unsigned int, nvmlDeviceGetEnforcedPowerLimit(device, &v), "%.2f", v / 1000.0)
FIGURE(graphics, unsigned int, nvmlDeviceGetClockInfo(device, NVML_CLOCK_GRAPHICS, &v), "%u", v)
FIGURE(sm, unsigned int, nvmlDeviceGetClockInfo(device, NVML_CLOCK_SM, &v), "%u", v)
FIGURE(mem, unsigned int, nvmlDeviceGetClockInfo(device, NVML_CLOCK_MEM, &v), "%u", v)
FIGURE(max_graphics, unsigned int, nvmlDeviceGetMaxClockInfo(device, NVML_CLOCK_GRAPHICS, &v), "%u", v)
FIGURE(max_sm, unsigned int, nvmlDeviceGetMaxClockInfo(device, NVML_CLOCK_SM, &v), "%u", v)
FIGURE(max_mem, unsigned int, nvmlDeviceGetMaxClockInfo(device, NVML_CLOCK_MEM, &v), "%u", v)
FIGURE(link_gen, unsigned int, nvmlDeviceGetMaxPcieLinkGeneration(device, &v), "%u", v)
FIGURE(link_width, unsigned int, nvmlDeviceGetMaxPcieLinkWidth(device, &v), "%u", v)
FIGURE(pstate, nvmlPstates_t, nvmlDeviceGetPerformanceState(device, &v), "P%d", (int)v)
FIGURE(persistence, nvmlEnableState_t, nvmlDeviceGetPersistenceMode(device, &v), "%s",
       v ? "Enabled" : "Disabled")

static bool fields_put_driver_version(const struct fields_line *l, char ret[static DRIVER_TEXT])
{
	driver_version(l->driver, ret);
	return true;
}

static bool fields_put_process_name(const struct fields_line *l, char ret[static DRIVER_TEXT])
{
	driver_process_name(l->driver, l->process->pid, ret);
	return true;
}

static bool fields_put_serial(const struct fields_line *l, char ret[static DRIVER_TEXT])
{
	return l->driver->nvml.nvmlDeviceGetSerial(l->device->handle, ret, DRIVER_TEXT) == NVML_SUCCESS;
}

static bool fields_put_index(const struct fields_line *l, char ret[static DRIVER_TEXT])
{
	snprintf(ret, DRIVER_TEXT, "%u", l->device->index);
	return true;
}

static bool fields_put_count(const struct fields_line *l, char ret[static DRIVER_TEXT])
{
	snprintf(ret, DRIVER_TEXT, "%u", l->driver->count);
	return true;
}

static bool fields_put_timestamp(const struct fields_line *l, char ret[static DRIVER_TEXT])
{
	struct timespec now;
	char text[64];
	struct tm tm;

	(void)l;
	clock_gettime(CLOCK_REALTIME, &now);
	if (!localtime_r(&now.tv_sec, &tm) || !strftime(text, sizeof(text), "%Y/%m/%d %H:%M:%S", &tm))
		return false;
	snprintf(ret, DRIVER_TEXT, "%s.%03ld", text, now.tv_nsec / 1000000);
	return true;
}

static bool fields_put_compute_cap(const struct fields_line *l, char ret[static DRIVER_TEXT])
{
	int major, minor;

	if (l->driver->nvml.nvmlDeviceGetCudaComputeCapability(l->device->handle, &major, &minor))
		return false;
	snprintf(ret, DRIVER_TEXT, "%d.%d", major, minor);
	return true;
}

static bool fields_put_mode(const struct fields_line *l, char ret[static DRIVER_TEXT])
{
	static const char *const words[] = {"Default", "Exclusive_Thread", "Prohibited", "Exclusive_Process"};
	nvmlComputeMode_t mode;

	if (l->driver->nvml.nvmlDeviceGetComputeMode(l->device->handle, &mode) || (unsigned int)mode > 3)
		return false;
	strcpy(ret, words[mode]);
	return true;
}

static bool fields_put_mig(const struct fields_line *l, char ret[static DRIVER_TEXT])
{
	unsigned int now, later;

	if (l->driver->nvml.nvmlDeviceGetMigMode(l->device->handle, &now, &later))
		return false;
	strcpy(ret, now ? "Enabled" : "Disabled");
	return true;
}

/* The simulated device has none of these. */
static bool fields_put_nothing(const struct fields_line *l, char ret[static DRIVER_TEXT])
{
	(void)l;
	ret[0] = 0;
	return false;
}

static bool fields_put_pid(const struct fields_line *l, char ret[static DRIVER_TEXT])
{
	snprintf(ret, DRIVER_TEXT, "%u", l->process->pid);
	return true;
}

static bool fields_put_process_memory(const struct fields_line *l, char ret[static DRIVER_TEXT])
{
	if (l->process->usedGpuMemory == ~0ull)
		return false;
	snprintf(ret, DRIVER_TEXT, "%llu", MIB(l->process->usedGpuMemory));
	return true;
}

const struct field fields_gpu[] = {
	{"timestamp", NULL, NULL, fields_put_timestamp},
	{"driver_version", NULL, NULL, fields_put_driver_version},
	{"count", NULL, NULL, fields_put_count},
	{"name", "gpu_name", NULL, fields_put_name},
	{"serial", "gpu_serial", NULL, fields_put_serial},
	{"uuid", "gpu_uuid", NULL, fields_put_uuid},
	{"index", NULL, NULL, fields_put_index},
	{"pci.bus_id", "gpu_bus_id", NULL, fields_put_bus_id},
	{"pci.domain", NULL, NULL, fields_put_domain},
	{"pci.bus", NULL, NULL, fields_put_bus},
	{"pci.device", NULL, NULL, fields_put_device},
	{"pci.device_id", NULL, NULL, fields_put_device_id},
	{"pcie.link.gen.max", NULL, NULL, fields_put_link_gen},
	{"pcie.link.width.max", NULL, NULL, fields_put_link_width},
	{"persistence_mode", NULL, NULL, fields_put_persistence},
	{"pstate", NULL, NULL, fields_put_pstate},
	{"fan.speed", NULL, "%", fields_put_nothing},
	{"memory.total", NULL, "MiB", fields_put_total},
	{"memory.reserved", NULL, "MiB", fields_put_reserved},
	{"memory.used", NULL, "MiB", fields_put_used},
	{"memory.free", NULL, "MiB", fields_put_free},
	{"compute_mode", NULL, NULL, fields_put_mode},
	{"compute_cap", NULL, NULL, fields_put_compute_cap},
	{"utilization.gpu", NULL, "%", fields_put_utilization},
	{"utilization.memory", NULL, "%", fields_put_traffic},
	{"temperature.gpu", NULL, NULL, fields_put_temperature},
	{"power.draw", NULL, "W", fields_put_power},
	{"power.limit", NULL, "W", fields_put_power_limit},
	{"enforced.power.limit", NULL, "W", fields_put_enforced},
	{"clocks.current.graphics", "clocks.gr", "MHz", fields_put_graphics},
	{"clocks.current.sm", "clocks.sm", "MHz", fields_put_sm},
	{"clocks.current.memory", "clocks.mem", "MHz", fields_put_mem},
	{"clocks.max.graphics", "clocks.max.gr", "MHz", fields_put_max_graphics},
	{"clocks.max.sm", NULL, "MHz", fields_put_max_sm},
	{"clocks.max.memory", "clocks.max.mem", "MHz", fields_put_max_mem},
	{"mig.mode.current", NULL, NULL, fields_put_mig},
	{"mig.mode.pending", NULL, NULL, fields_put_mig},
	{"ecc.mode.current", NULL, NULL, fields_put_nothing},
	{"ecc.errors.uncorrected.volatile.total", NULL, NULL, fields_put_nothing},
	{"vbios_version", NULL, NULL, fields_put_nothing},
	{"display_mode", NULL, NULL, fields_put_nothing},
	{"display_active", NULL, NULL, fields_put_nothing},
	{NULL, NULL, NULL, NULL},
};

const struct field fields_apps[] = {
	{"timestamp", NULL, NULL, fields_put_timestamp},
	{"gpu_name", NULL, NULL, fields_put_name},
	{"gpu_bus_id", NULL, NULL, fields_put_bus_id},
	{"gpu_serial", NULL, NULL, fields_put_serial},
	{"gpu_uuid", NULL, NULL, fields_put_uuid},
	{"pid", NULL, NULL, fields_put_pid},
	{"process_name", "name", NULL, fields_put_process_name},
	{"used_gpu_memory", "used_memory", "MiB", fields_put_process_memory},
	{NULL, NULL, NULL, NULL},
};

const struct field *fields_find(const struct field *table, const char *name)
{
	for (; table->name; table++)
		if (!strcmp(table->name, name) || (table->alias && !strcmp(table->alias, name)))
			return table;
	return NULL;
}

void fields_put(const struct field *field, const struct fields_line *line, bool units,
		char ret[static DRIVER_TEXT])
{
	if (!field->put(line, ret)) {
		strcpy(ret, "[N/A]");
		return;
	}
	if (units && field->unit)
		snprintf(ret + strlen(ret), DRIVER_TEXT - strlen(ret), " %s", field->unit);
}
