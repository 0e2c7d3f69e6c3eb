/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/doctor/gpus.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/doctor/finding.h"
#include "cli/say/say.h"
#include "cli/tenant/dmem.h"
#include "node/devices.h"
#include "text/units.h"

/* The first CUDA version whose driver has cuGetProcAddress. */
#define CUDA_OLDEST 11030

#define NVIDIA_MISSING                                                                             \
	"load the driver (modprobe nvidia; nvidia-modprobe -u -c 0), or start the container "      \
	"with the GPU (--gpus)"
#define AMD_MISSING                                                                                \
	"load the driver (modprobe amdgpu), or start the container with --device /dev/kfd "        \
	"--device /dev/dri"

/* `missing` says what to do if there is no such file; NULL if that is no fault. */
static void gpus_check_device_file(const char *path, const char *missing, const char *group)
{
	char what[256], todo[128];

	if (!access(path, R_OK | W_OK))
		return;
	if (errno == ENOENT) {
		snprintf(what, sizeof(what), "%s is missing", path);
		if (missing)
			finding_say(FINDING_FAIL, missing, "%s", what);
		return;
	}
	snprintf(what, sizeof(what), "%s: %s", path, say_errno(errno));
	snprintf(todo, sizeof(todo), "ask for read and write permission (often group %s)", group);
	finding_say(FINDING_FAIL, todo, "%s", what);
}

static void gpus_check_nvidia_files(void)
{
	gpus_check_device_file("/dev/nvidiactl", NVIDIA_MISSING, "video");
	gpus_check_device_file("/dev/nvidia-uvm", NVIDIA_MISSING, "video");
	for (int i = 0; i < 64; i++) {
		char path[32];

		snprintf(path, sizeof(path), "/dev/nvidia%d", i);
		gpus_check_device_file(path, NULL, "video");
	}
}

static void gpus_check_version(void)
{
	char version[80], what[160];
	struct nvml *nvml = NULL;
	int cuda, r;

	if (nvml_open(NULL, &nvml) < 0)
		return;
	r = nvml_driver_version(nvml, version, &cuda);
	nvml_close(nvml);
	if (r < 0) {
		finding_say(FINDING_WARN, NULL, "the driver does not say its version");
		return;
	}
	snprintf(what, sizeof(what), "driver %s, for CUDA %d.%d", version, cuda / 1000,
		 cuda % 1000 / 10);
	if (cuda < CUDA_OLDEST)
		finding_say(FINDING_FAIL, "allot needs a driver for CUDA 11.3 or later", "%s",
			    what);
	else
		finding_say(FINDING_OK, NULL, "%s", what);
}

static void gpus_check_cuda(void)
{
	void *handle = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_LOCAL);

	if (!handle) {
		finding_say(FINDING_FAIL,
			    "install the driver's CUDA part (Debian: libcuda1); in a container, "
			    "NVIDIA_DRIVER_CAPABILITIES must include compute",
			    "libcuda.so.1 is not found, though NVML is");
		return;
	}
	if (!dlsym(handle, "cuGetProcAddress"))
		finding_say(FINDING_WARN, "update the driver: recent programs need it",
			    "libcuda.so.1 has no cuGetProcAddress");
	dlclose(handle);
}

/* Counts them; their order is that of --gpu. */
static unsigned int gpus_list(const struct devices *devices, enum device_vendor vendor,
			      bool simulated)
{
	unsigned int n = 0;

	for (unsigned int i = 0; i < devices->n; i++) {
		const struct device *d = &devices->list[i];

		if (d->vendor != vendor)
			continue;
		finding_say(FINDING_OK, NULL, "GPU %u: %s, %s, %s%s", i, d->model,
			    units_bytes(d->total_bytes).s, units_uuid(d->uuid).s,
			    simulated ? " (simulated)" : "");
		n++;
	}
	return n;
}

#define AROUND                                                                                     \
	"a program that calls the kernel around liballot.so (statically linked, by system calls "  \
	"of its own) is not limited then: use allot run --guard, or give it GPUs of its own"

/* The limit that holds whatever a program does. */
static void gpus_check_dmem(const struct devices *devices)
{
	static struct dmem_trouble trouble;
	char todo[512];
	int r;

	if (!dmem_offered()) {
		finding_say(FINDING_WARN, AROUND,
			    "the kernel limits no memory of AMD GPUs: it has no dmem cgroup "
			    "controller (Linux 6.14 and later), or a container hides it");
		return;
	}
	r = dmem_check(devices, &trouble);
	if (r == 0) {
		finding_say(FINDING_OK, NULL,
			    "the kernel limits memory of AMD GPUs, too (dmem.max)");
	} else if (r == -ENODEV) {
		finding_say(FINDING_WARN, AROUND,
			    "the kernel limits no memory of AMD GPUs: the driver does not tell its "
			    "dmem cgroup controller of them");
	} else {
		snprintf(todo, sizeof(todo), "%s; " AROUND, trouble.todo);
		finding_say(FINDING_WARN, todo, "%s", trouble.what);
	}
}

static bool gpus_tried(const char *architecture)
{
	static const char *const tried[] = {
#define AMD_TRIED(name) name,
#include "cli/doctor/amd_tried.def"
#undef AMD_TRIED
		NULL};

	for (size_t i = 0; tried[i]; i++)
		if (!strcmp(tried[i], architecture))
			return true;
	return false;
}

static bool gpus_said(const struct devices *devices, unsigned int i)
{
	for (unsigned int k = 0; k < i; k++)
		if (devices->list[k].vendor == DEVICE_AMD &&
		    !strcmp(devices->list[k].architecture, devices->list[i].architecture))
			return true;
	return false;
}

/* One line for GPUs of one name; it is "" where that is not known. */
static void gpus_check_tried(const struct devices *devices)
{
	for (unsigned int i = 0; i < devices->n; i++) {
		const struct device *d = &devices->list[i];

		if (d->vendor != DEVICE_AMD || gpus_tried(d->architecture) ||
		    gpus_said(devices, i))
			continue;
		finding_say(
			FINDING_WARN,
			"run that program of allot's source, and send us the table that it prints",
			"AMD: never tried on this GPU%s%s%s: tests/amd/run",
			*d->architecture ? " (" : "", d->architecture, *d->architecture ? ")" : "");
	}
}

void gpus_check(void)
{
	bool simulated = getenv("ALLOT_SIM_DIR") != NULL;
	static struct devices devices;

	devices_read(&devices);
	if (*devices.trouble)
		finding_say(FINDING_FAIL, NULL, "%s", devices.trouble);
	else if (*devices.amd_trouble)
		finding_say(FINDING_WARN, NULL, "%s", devices.amd_trouble);
	if (!devices.nvidia_error)
		gpus_check_version();
	if (gpus_list(&devices, DEVICE_NVIDIA, simulated))
		gpus_check_cuda();
	/* A library without a device is nothing wrong beside AMD's. */
	if (!simulated && devices.nvidia_error != -ENOENT &&
	    (!devices.nvidia_error || *devices.trouble))
		gpus_check_nvidia_files();
	if (gpus_list(&devices, DEVICE_AMD, simulated)) {
		gpus_check_device_file("/dev/kfd", AMD_MISSING, "render");
		gpus_check_dmem(&devices);
		gpus_check_tried(&devices);
	}
}
