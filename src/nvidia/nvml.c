/* SPDX-License-Identifier: Apache-2.0 */
#include "nvidia/nvml.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/number.h"
#include "nvidia/nvml_priv.h"
#include "nvidia/uuid.h"

int nvml_errno(nvmlReturn_t r)
{
	switch (r) {
	case NVML_SUCCESS:
		return 0;
	case NVML_ERROR_DRIVER_NOT_LOADED:
	case NVML_ERROR_LIB_RM_VERSION_MISMATCH:
	case NVML_ERROR_GPU_IS_LOST:
	case NVML_ERROR_GPU_NOT_FOUND:
	case NVML_ERROR_NOT_FOUND:
	case NVML_ERROR_INVALID_ARGUMENT: /* an index that is no device */
		return -ENODEV;
	case NVML_ERROR_NO_PERMISSION:
		return -EACCES;
	case NVML_ERROR_NOT_SUPPORTED:
	case NVML_ERROR_FUNCTION_NOT_FOUND:
	case NVML_ERROR_DEPRECATED:
		return -ENOTSUP;
	case NVML_ERROR_MEMORY:
		return -ENOMEM;
	default:
		return -EIO;
	}
}

int nvml_open(const char *library, struct nvml **ret_nvml)
{
	struct nvml *nvml = calloc(1, sizeof(*nvml));
	int r;

	if (!nvml)
		return -ENOMEM;
	nvml->handle = dlopen(library ? library : "libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
	if (!nvml->handle) {
		free(nvml);
		return -ENOENT;
	}
	nvml_library_bind(&nvml->lib, nvml->handle, dlsym);
	r = nvml_errno(nvml->lib.nvmlInit_v2());
	if (r < 0) {
		dlclose(nvml->handle);
		free(nvml);
		return r == -ENOTSUP ? -ENOENT : r; /* a library of that name, but not NVML */
	}
	*ret_nvml = nvml;
	return 0;
}

void nvml_close(struct nvml *nvml)
{
	if (!nvml)
		return;
	nvml->lib.nvmlShutdown();
	dlclose(nvml->handle);
	free(nvml);
}

int nvml_device_count(struct nvml *nvml, unsigned int *ret_count)
{
	unsigned int n;
	int r = nvml_errno(nvml->lib.nvmlDeviceGetCount_v2(&n));

	if (r == 0)
		*ret_count = n;
	return r;
}

static int nvml_get_memory(struct nvml *nvml, nvmlDevice_t dev, struct nvml_device *d)
{
	nvmlMemory_v2_t v2 = {.version = nvmlMemory_v2};
	nvmlMemory_t v1;
	nvmlReturn_t r = nvml->lib.nvmlDeviceGetMemoryInfo_v2(dev, &v2);

	if (r == NVML_SUCCESS) {
		d->total_bytes = v2.total;
		d->used_bytes = v2.used;
		return 0;
	}
	/* Drivers before 510 have only the first form, whose `used` includes the reserved part. */
	r = nvml->lib.nvmlDeviceGetMemoryInfo(dev, &v1);
	if (r == NVML_SUCCESS) {
		d->total_bytes = v1.total;
		d->used_bytes = v1.used;
	}
	return nvml_errno(r);
}

/* By NVML's numbers, in the words that NVIDIA's own drivers for Kubernetes have for them. */
static const char *nvml_architecture(struct nvml *nvml, nvmlDevice_t dev)
{
	static const char *const names[] = {
		"",	  "",	    "Kepler",	    "Maxwell", "Pascal",   "Volta",
		"Turing", "Ampere", "Ada Lovelace", "Hopper",  "Blackwell"};
	nvmlDeviceArchitecture_t number = 0;

	if (nvml->lib.nvmlDeviceGetArchitecture(dev, &number) ||
	    number >= sizeof(names) / sizeof(*names))
		return "";
	return names[number];
}

int nvml_device_get(struct nvml *nvml, unsigned int index, struct nvml_device *ret_device)
{
	struct nvml_device d = {.index = index};
	char text[NVML_DEVICE_UUID_V2_BUFFER_SIZE];
	nvmlPciInfo_t pci;
	nvmlDevice_t dev;
	int r;

	if ((r = nvml_errno(nvml->lib.nvmlDeviceGetHandleByIndex_v2(index, &dev))) < 0 ||
	    (r = nvml_errno(nvml->lib.nvmlDeviceGetUUID(dev, text, sizeof(text)))) < 0 ||
	    (r = nvml_errno(nvml->lib.nvmlDeviceGetName(dev, d.name, sizeof(d.name)))) < 0 ||
	    (r = nvml_errno(nvml->lib.nvmlDeviceGetPciInfo_v3(dev, &pci))) < 0 ||
	    (r = nvml_get_memory(nvml, dev, &d)) < 0)
		return r;
	if (uuid_parse(text, d.uuid) < 0)
		return -EIO;
	memcpy(d.pci, pci.busId, sizeof(d.pci));
	d.pci[sizeof(d.pci) - 1] = '\0';
	d.architecture = nvml_architecture(nvml, dev);
	*ret_device = d;
	return 0;
}

uint32_t nvml_device_busy(struct nvml *nvml, unsigned int index)
{
	nvmlUtilization_t utilization;
	nvmlDevice_t dev;

	if (nvml->lib.nvmlDeviceGetHandleByIndex_v2(index, &dev) ||
	    nvml->lib.nvmlDeviceGetUtilizationRates(dev, &utilization))
		return NVML_GAUGE_UNKNOWN;
	return utilization.gpu;
}

struct nvml_gauges nvml_device_gauges(struct nvml *nvml, unsigned int index)
{
	const struct nvml_library *lib = &nvml->lib;
	struct nvml_gauges g;
	unsigned int x, period;
	nvmlDevice_t dev;

	memset(&g, 0xff, sizeof(g)); /* NVML_GAUGE_UNKNOWN */
	if (lib->nvmlDeviceGetHandleByIndex_v2(index, &dev))
		return g;
	g.busy_percent = nvml_device_busy(nvml, index);
	g.celsius = lib->nvmlDeviceGetTemperature(dev, NVML_TEMPERATURE_GPU, &x)
			    ? NVML_GAUGE_UNKNOWN
			    : x;
	g.milliwatt = lib->nvmlDeviceGetPowerUsage(dev, &x) ? NVML_GAUGE_UNKNOWN : x;
	g.limit_milliwatt = lib->nvmlDeviceGetEnforcedPowerLimit(dev, &x) ? NVML_GAUGE_UNKNOWN : x;
	g.sm_mhz = lib->nvmlDeviceGetClockInfo(dev, NVML_CLOCK_SM, &x) ? NVML_GAUGE_UNKNOWN : x;
	g.memory_mhz =
		lib->nvmlDeviceGetClockInfo(dev, NVML_CLOCK_MEM, &x) ? NVML_GAUGE_UNKNOWN : x;
	g.encoder_percent =
		lib->nvmlDeviceGetEncoderUtilization(dev, &x, &period) ? NVML_GAUGE_UNKNOWN : x;
	g.decoder_percent =
		lib->nvmlDeviceGetDecoderUtilization(dev, &x, &period) ? NVML_GAUGE_UNKNOWN : x;
	g.pcie_generation =
		lib->nvmlDeviceGetCurrPcieLinkGeneration(dev, &x) ? NVML_GAUGE_UNKNOWN : x;
	g.pcie_lanes = lib->nvmlDeviceGetCurrPcieLinkWidth(dev, &x) ? NVML_GAUGE_UNKNOWN : x;
	return g;
}

struct nvml_traffic nvml_device_traffic(struct nvml *nvml, unsigned int index)
{
	const struct nvml_library *lib = &nvml->lib;
	struct nvml_traffic t = {NVML_GAUGE_UNKNOWN, NVML_GAUGE_UNKNOWN};
	nvmlDevice_t dev;
	unsigned int x;

	if (lib->nvmlDeviceGetHandleByIndex_v2(index, &dev))
		return t;
	t.sent_kbps = lib->nvmlDeviceGetPcieThroughput(dev, NVML_PCIE_UTIL_TX_BYTES, &x)
			      ? NVML_GAUGE_UNKNOWN
			      : x;
	t.received_kbps = lib->nvmlDeviceGetPcieThroughput(dev, NVML_PCIE_UTIL_RX_BYTES, &x)
				  ? NVML_GAUGE_UNKNOWN
				  : x;
	return t;
}

int nvml_device_energy(struct nvml *nvml, unsigned int index, uint64_t *ret_mj)
{
	unsigned long long mj;
	nvmlDevice_t dev;
	int r = nvml_errno(nvml->lib.nvmlDeviceGetHandleByIndex_v2(index, &dev));

	if (!r)
		r = nvml_errno(nvml->lib.nvmlDeviceGetTotalEnergyConsumption(dev, &mj));
	if (!r)
		*ret_mj = mj;
	return r;
}

int nvml_device_power(struct nvml *nvml, unsigned int index, uint64_t since_us,
		      struct nvml_power *ret, unsigned int room)
{
	nvmlSample_t *samples = calloc(room, sizeof(*samples));
	unsigned int n = room;
	nvmlValueType_t type;
	nvmlDevice_t dev;
	nvmlReturn_t r;

	if (!samples)
		return -ENOMEM;
	r = nvml->lib.nvmlDeviceGetHandleByIndex_v2(index, &dev);
	if (!r)
		r = nvml->lib.nvmlDeviceGetSamples(dev, NVML_TOTAL_POWER_SAMPLES, since_us, &type, &n,
						   samples);
	/* The type says which part of a value was written. */
	if (!r && type != NVML_VALUE_TYPE_UNSIGNED_INT)
		r = NVML_ERROR_NOT_SUPPORTED;
	for (unsigned int i = 0; !r && i < n && i < room; i++)
		ret[i] = (struct nvml_power){samples[i].timeStamp, samples[i].sampleValue.uiVal};
	free(samples);
	if (r == NVML_ERROR_NOT_FOUND) /* no newer one */
		return 0;
	return r ? nvml_errno(r) : (int)min_u64(n, room);
}

/* The library refuses less room than for this many samples, however few there are. */
#define BUSY_ROOM 128

static int nvml_get_samples(struct nvml *nvml, nvmlDevice_t dev, uint64_t since_us,
			    nvmlProcessUtilizationSample_t **ret, unsigned int *ret_n)
{
	unsigned int n = BUSY_ROOM;

	for (int tries = 0; tries < 4; tries++) {
		unsigned int room = n;
		nvmlProcessUtilizationSample_t *samples = calloc(room, sizeof(*samples));
		nvmlReturn_t r;

		if (!samples)
			return -ENOMEM;
		r = nvml->lib.nvmlDeviceGetProcessUtilization(dev, samples, &n, since_us);
		if (r == NVML_SUCCESS && n <= room) {
			*ret = samples;
			*ret_n = n;
			return 0;
		}
		free(samples);
		if (r != NVML_ERROR_INSUFFICIENT_SIZE || n > 1u << 16)
			return r == NVML_SUCCESS ? -EIO : nvml_errno(r);
		n = (unsigned int)max_u64(n, room) * 2;
	}
	return -EIO;
}

int nvml_device_busy_processes(struct nvml *nvml, unsigned int index, uint64_t since_us,
			       struct nvml_busy_process **ret, size_t *ret_n)
{
	nvmlProcessUtilizationSample_t *samples = NULL;
	struct nvml_busy_process *list;
	unsigned int n = 0;
	nvmlDevice_t dev;
	int r = nvml_errno(nvml->lib.nvmlDeviceGetHandleByIndex_v2(index, &dev));

	if (!r)
		r = nvml_get_samples(nvml, dev, since_us, &samples, &n);
	if (r < 0)
		return r;
	list = n ? calloc(n, sizeof(*list)) : NULL;
	for (unsigned int i = 0; list && i < n; i++)
		list[i] = (struct nvml_busy_process){(pid_t)samples[i].pid, samples[i].smUtil};
	free(samples);
	if (n && !list)
		return -ENOMEM;
	*ret = list;
	*ret_n = n;
	return 0;
}

typedef nvmlReturn_t (*list_fn)(nvmlDevice_t device, unsigned int *count, nvmlProcessInfo_t *infos);

/*
 * The library says how many there are, and there may be more by the time it is asked for them:
 * ask with room to spare, and again while the room is too small.
 */
static int nvml_get_list(list_fn list, nvmlDevice_t dev, nvmlProcessInfo_t **ret_infos,
			 size_t *ret_count)
{
	nvmlProcessInfo_t *infos = NULL;
	unsigned int room = 64;

	for (int tries = 0; tries < 8; tries++) {
		nvmlProcessInfo_t *more = realloc(infos, room * sizeof(*infos));
		unsigned int n = room;
		nvmlReturn_t r;

		if (!more) {
			free(infos);
			return -ENOMEM;
		}
		infos = more;
		r = list(dev, &n, infos);
		if (r == NVML_SUCCESS && n <= room) {
			*ret_infos = infos;
			*ret_count = n;
			return 0;
		}
		if (r != NVML_ERROR_INSUFFICIENT_SIZE || n > 1u << 20) {
			free(infos);
			return r == NVML_SUCCESS ? -EIO : nvml_errno(r);
		}
		room = max_u64(n, room) * 2;
	}
	free(infos);
	return -EIO;
}

/* A process that computes and draws is in more than one list, with the same figure: keep one. */
static size_t nvml_add_unique(struct nvml_process *all, size_t n, const nvmlProcessInfo_t *infos,
			      size_t more)
{
	for (size_t i = 0; i < more; i++) {
		uint64_t bytes = infos[i].usedGpuMemory;
		size_t j = 0;

		while (j < n && all[j].pid != (pid_t)infos[i].pid)
			j++;
		if (j < n && all[j].used_bytes != NVML_BYTES_UNKNOWN &&
		    (bytes == NVML_BYTES_UNKNOWN || bytes <= all[j].used_bytes))
			continue;
		all[j] = (struct nvml_process){.pid = (pid_t)infos[i].pid, .used_bytes = bytes};
		n += j == n;
	}
	return n;
}

int nvml_device_processes(struct nvml *nvml, unsigned int index,
			  struct nvml_process **ret_processes, size_t *ret_count)
{
	const list_fn lists[] = {nvml->lib.nvmlDeviceGetComputeRunningProcesses_v3,
				 nvml->lib.nvmlDeviceGetGraphicsRunningProcesses_v3,
				 nvml->lib.nvmlDeviceGetMPSComputeRunningProcesses_v3};
	struct nvml_process *all = NULL;
	nvmlDevice_t dev;
	size_t n = 0;
	int r;

	r = nvml_errno(nvml->lib.nvmlDeviceGetHandleByIndex_v2(index, &dev));
	if (r < 0)
		return r;
	for (size_t i = 0; i < sizeof(lists) / sizeof(lists[0]); i++) {
		nvmlProcessInfo_t *infos = NULL;
		struct nvml_process *more;
		size_t count = 0;

		r = nvml_get_list(lists[i], dev, &infos, &count);
		if (r == -ENOTSUP && i > 0)
			continue; /* devices without graphics or MPS have no such list */
		if (r < 0)
			goto fail;
		more = count ? realloc(all, (n + count) * sizeof(*all)) : all;
		if (count && !more) {
			free(infos);
			r = -ENOMEM;
			goto fail;
		}
		all = more;
		n = nvml_add_unique(all, n, infos, count);
		free(infos);
	}
	*ret_processes = all;
	*ret_count = n;
	return 0;
fail:
	free(all);
	return r;
}

int nvml_driver_version(struct nvml *nvml, char ret_version[80], int *ret_cuda)
{
	char version[NVML_SYSTEM_DRIVER_VERSION_BUFFER_SIZE];
	int cuda, r;

	if ((r = nvml_errno(nvml->lib.nvmlSystemGetDriverVersion(version, sizeof(version)))) < 0 ||
	    (r = nvml_errno(nvml->lib.nvmlSystemGetCudaDriverVersion_v2(&cuda))) < 0)
		return r;
	memcpy(ret_version, version, sizeof(version));
	ret_version[sizeof(version) - 1] = '\0';
	*ret_cuda = cuda;
	return 0;
}
