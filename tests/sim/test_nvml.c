/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The simulated NVML, and allot's view of a driver on top of it: what other processes hold is put
 * into the region directly, so that nothing here depends on the simulated CUDA driver.
 */
#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/now.h"
#include "nvidia/nvml.h"
#include "nvidia/nvml_link.h"
#include "nvidia/uuid.h"
#include "sim/nvml/entry.h"
#include "sim/window.h"
#include "tests/check.h"

#define MIB (1ull << 20)

static char dir[] = "/dev/shm/allot-test-XXXXXX";

/* A process that holds `bytes` and a context on a device until it is killed. */
static pid_t holder(int device, uint64_t bytes)
{
	int ready[2];
	char c;
	pid_t pid;

	CHECK(pipe(ready) == 0);
	pid = fork();
	CHECK(pid >= 0);
	if (pid == 0) {
		struct sim_region *region;
		int row;

		prctl(PR_SET_PDEATHSIG, SIGKILL);
		CHECK_EQ(sim_region_open(NULL, true, &region, &row), 0);
		CHECK_EQ(sim_charge(region, row, device, bytes), 0);
		region->row[row].use[device].contexts = 1;
		CHECK(write(ready[1], "r", 1) == 1);
		for (;;)
			pause();
	}
	CHECK(read(ready[0], &c, 1) == 1);
	close(ready[0]);
	close(ready[1]);
	return pid;
}

static void end(pid_t pid)
{
	kill(pid, SIGKILL);
	CHECK(waitpid(pid, NULL, 0) == pid);
}

/* Who opens the library, and that it is given the time, can be asked for. */
static void starts(void)
{
	char path[sizeof(dir) + 16];
	long pid, tid;
	uint64_t began;
	FILE *f;

	snprintf(path, sizeof(path), "%s/starts", dir);
	setenv("ALLOT_SIM_NVML_STARTS", path, 1);
	setenv("ALLOT_SIM_NVML_INIT_MS", "20", 1);
	began = now_monotonic_ns();
	CHECK_EQ(nvmlInit_v2(), NVML_SUCCESS);
	CHECK(now_monotonic_ns() - began >= 20000000);
	CHECK_EQ(nvmlShutdown(), NVML_SUCCESS);
	unsetenv("ALLOT_SIM_NVML_STARTS");
	unsetenv("ALLOT_SIM_NVML_INIT_MS");
	CHECK_EQ(nvmlInit_v2(), NVML_SUCCESS);
	CHECK_EQ(nvmlShutdown(), NVML_SUCCESS);
	f = fopen(path, "r");
	CHECK(f);
	CHECK_EQ(fscanf(f, "begins %ld %ld\n", &pid, &tid), 2);
	CHECK_EQ(pid, getpid());
	CHECK_EQ(tid, getpid()); /* the first thread's number is the process's */
	CHECK_EQ(fscanf(f, "done %ld %ld\n", &pid, &tid), 2);
	CHECK_EQ(fgetc(f), EOF);
	fclose(f);
}

static void before_init(void)
{
	nvmlDevice_t dev = NULL;
	unsigned int n;

	CHECK_EQ(nvmlShutdown(), NVML_ERROR_UNINITIALIZED);
	CHECK_EQ(nvmlDeviceGetCount_v2(&n), NVML_ERROR_UNINITIALIZED);
	CHECK_EQ(nvmlDeviceGetHandleByIndex_v2(0, &dev), NVML_ERROR_UNINITIALIZED);
	CHECK(!strcmp(nvmlErrorString(NVML_ERROR_UNINITIALIZED), "Uninitialized"));
	CHECK_EQ(nvmlInitWithFlags(64), NVML_ERROR_INVALID_ARGUMENT);

	/* As many shutdowns as inits. */
	CHECK_EQ(nvmlInit_v2(), NVML_SUCCESS);
	CHECK_EQ(nvmlInit(), NVML_SUCCESS);
	CHECK_EQ(nvmlShutdown(), NVML_SUCCESS);
	CHECK_EQ(nvmlDeviceGetCount(&n), NVML_SUCCESS);
	CHECK_EQ(n, 2);
	CHECK_EQ(nvmlShutdown(), NVML_SUCCESS);
	CHECK_EQ(nvmlDeviceGetCount(&n), NVML_ERROR_UNINITIALIZED);
}

static void find(void)
{
	nvmlUUID_t binary = {.version = nvmlUUID_v1, .type = NVML_UUID_TYPE_BINARY};
	char uuid[96], name[96], serial[30];
	nvmlDevice_t dev, again;
	nvmlPciInfo_t pci;
	unsigned int index;

	CHECK_EQ(nvmlDeviceGetHandleByIndex_v2(2, &dev), NVML_ERROR_INVALID_ARGUMENT);
	for (unsigned int i = 0; i < 2; i++) {
		CHECK_EQ(nvmlDeviceGetHandleByIndex_v2(i, &dev), 0);
		CHECK_EQ(nvmlDeviceGetUUID(dev, uuid, 40), NVML_ERROR_INSUFFICIENT_SIZE);
		CHECK_EQ(nvmlDeviceGetUUID(dev, uuid, 41), 0);
		CHECK_EQ(nvmlDeviceGetHandleByUUID(uuid, &again), 0);
		CHECK(again == dev);
		CHECK_EQ(uuid_parse(uuid, binary.value.bytes), 0);
		CHECK_EQ(nvmlDeviceGetHandleByUUIDV(&binary, &again), 0);
		CHECK(again == dev);
		CHECK_EQ(nvmlDeviceGetPciInfo_v3(dev, &pci), 0);
		CHECK_EQ(nvmlDeviceGetHandleByPciBusId_v2(pci.busId, &again), 0);
		CHECK(again == dev);
		CHECK_EQ(nvmlDeviceGetHandleByPciBusId_v2(pci.busIdLegacy, &again), 0);
		CHECK(again == dev);
		CHECK_EQ(nvmlDeviceGetHandleByPciBusId_v2(pci.busIdLegacy + 5, &again), 0);
		CHECK(again == dev);
		CHECK_EQ(nvmlDeviceGetSerial(dev, serial, sizeof(serial)), 0);
		CHECK_EQ(nvmlDeviceGetHandleBySerial(serial, &again), 0);
		CHECK(again == dev);
		CHECK_EQ(nvmlDeviceGetIndex(dev, &index), 0);
		CHECK_EQ(index, i);
		CHECK_EQ(nvmlDeviceGetName(dev, name, sizeof(name)), 0);
		CHECK(!strcmp(name, "a simulated board"));
		/* The first form of the PCI structure ends early: nothing beyond it is written. */
		memset(&pci, 0x55, sizeof(pci));
		CHECK_EQ(nvmlDeviceGetPciInfo(dev, &pci), 0);
		CHECK_EQ(pci.busId[0], 0x55);
	}
	CHECK_EQ(nvmlDeviceGetHandleByUUID("GPU-1", &dev), NVML_ERROR_NOT_FOUND);
	CHECK_EQ(nvmlDeviceGetHandleByPciBusId_v2("ff:1f.0", &dev), NVML_ERROR_NOT_FOUND);
	CHECK_EQ(nvmlDeviceGetName((nvmlDevice_t)&index, name, 96), NVML_ERROR_INVALID_ARGUMENT);
	CHECK_EQ(nvmlDeviceGetTemperature(dev, NVML_TEMPERATURE_GPU, &index), 0);
	CHECK_EQ(nvmlSystemGetDriverVersion(name, 3), NVML_ERROR_INSUFFICIENT_SIZE);
}

nvmlReturn_t nvmlUnitGetCount(void);

/* What the simulator does not know says so. */
static void unsupported(void)
{
	CHECK_EQ(nvmlUnitGetCount(), NVML_ERROR_NOT_SUPPORTED);
}

static void memory(void)
{
	nvmlMemory_v2_t v2 = {.version = nvmlMemory_v2};
	pid_t a = holder(1, 6 * MIB), b = holder(1, 4 * MIB);
	nvmlProcessDetail_v1_t details[4];
	nvmlProcessDetailList_t list = {.version = nvmlProcessDetailList_v1,
					.numProcArrayEntries = 1,
					.procArray = details};
	nvmlProcessInfo_v1_t old[2];
	nvmlProcessInfo_t infos[2];
	nvmlMemory_t v1;
	nvmlDevice_t dev0, dev;
	unsigned int n = 0;

	CHECK_EQ(nvmlDeviceGetHandleByIndex_v2(0, &dev0), 0);
	CHECK_EQ(nvmlDeviceGetHandleByIndex_v2(1, &dev), 0);
	CHECK_EQ(nvmlDeviceGetMemoryInfo(dev, &v1), 0);
	CHECK_EQ(v1.total, 1024 * MIB);
	CHECK_EQ(v1.used, 10 * MIB);
	CHECK_EQ(v1.free, 1014 * MIB);
	CHECK_EQ(nvmlDeviceGetMemoryInfo_v2(dev, &v2), 0);
	CHECK_EQ(v2.used + v2.free, v2.total);
	CHECK_EQ(v2.used, 10 * MIB);
	v2.version = 0;
	CHECK_EQ(nvmlDeviceGetMemoryInfo_v2(dev, &v2), NVML_ERROR_ARGUMENT_VERSION_MISMATCH);
	CHECK_EQ(nvmlDeviceGetMemoryInfo(dev0, &v1), 0);
	CHECK_EQ(v1.used, 0);

	CHECK_EQ(nvmlDeviceGetComputeRunningProcesses_v3(dev, &n, NULL),
		 NVML_ERROR_INSUFFICIENT_SIZE);
	CHECK_EQ(n, 2);
	n = 1;
	CHECK_EQ(nvmlDeviceGetComputeRunningProcesses_v3(dev, &n, infos),
		 NVML_ERROR_INSUFFICIENT_SIZE);
	CHECK_EQ(n, 2);
	CHECK_EQ(nvmlDeviceGetComputeRunningProcesses_v3(dev, &n, infos), 0);
	CHECK_EQ(infos[0].pid + infos[1].pid, a + b);
	CHECK_EQ(infos[infos[1].pid == (unsigned int)a].usedGpuMemory, 6 * MIB);
	CHECK_EQ(infos[infos[1].pid == (unsigned int)b].usedGpuMemory, 4 * MIB);
	CHECK_EQ(nvmlDeviceGetComputeRunningProcesses(dev, &n, old), 0);
	CHECK_EQ(old[0].usedGpuMemory + old[1].usedGpuMemory, 10 * MIB);
	CHECK_EQ(nvmlDeviceGetRunningProcessDetailList(dev, &list), NVML_ERROR_INSUFFICIENT_SIZE);
	CHECK_EQ(list.numProcArrayEntries, 2);
	list.numProcArrayEntries = 4;
	CHECK_EQ(nvmlDeviceGetRunningProcessDetailList(dev, &list), 0);
	CHECK_EQ(list.numProcArrayEntries, 2);
	CHECK_EQ(details[0].usedGpuMemory + details[1].usedGpuMemory, 10 * MIB);
	n = 2;
	CHECK_EQ(nvmlDeviceGetGraphicsRunningProcesses_v3(dev, &n, infos), 0);
	CHECK_EQ(n, 0);
	CHECK_EQ(nvmlDeviceGetComputeRunningProcesses_v3(dev0, &n, NULL), 0);
	CHECK_EQ(n, 0);

	/* Everything of a process goes with it. */
	end(a);
	CHECK_EQ(nvmlDeviceGetMemoryInfo(dev, &v1), 0);
	CHECK_EQ(v1.used, 4 * MIB);
	n = 2;
	CHECK_EQ(nvmlDeviceGetComputeRunningProcesses_v3(dev, &n, infos), 0);
	CHECK_EQ(n, 1);
	CHECK_EQ(infos[0].pid, b);
	end(b);
}

/* As boards with an H200 are joined: all links to switches, which have a PCI address. */
static void links(void)
{
	nvmlFieldValue_t values[3] = {
		{.fieldId = NVML_FI_DEV_NVLINK_GET_SPEED, .scopeId = 17},
		{.fieldId = NVML_FI_DEV_NVLINK_GET_SPEED, .scopeId = 18},
		{.fieldId = 1},
	};
	nvmlIntNvLinkDeviceType_t type;
	nvmlGpuTopologyLevel_t level;
	nvmlGpuP2PStatus_t status;
	nvmlEnableState_t active;
	nvmlDevice_t dev[2];
	unsigned int n = 0;
	nvmlPciInfo_t pci;

	for (unsigned int i = 0; i < 2; i++)
		CHECK_EQ(nvmlDeviceGetHandleByIndex_v2(i, &dev[i]), 0);
	for (unsigned int what = 0; what < NVML_P2P_CAPS_INDEX_UNKNOWN; what++) {
		CHECK_EQ(nvmlDeviceGetP2PStatus(dev[0], dev[1], what, &status), 0);
		CHECK_EQ(status, NVML_P2P_STATUS_OK);
	}
	CHECK_EQ(nvmlDeviceGetP2PStatus(dev[0], dev[1], NVML_P2P_CAPS_INDEX_UNKNOWN, &status),
		 NVML_ERROR_INVALID_ARGUMENT);
	CHECK_EQ(nvmlDeviceGetP2PStatus(dev[0], (nvmlDevice_t)&n, 0, &status),
		 NVML_ERROR_INVALID_ARGUMENT);
	CHECK_EQ(nvmlDeviceGetTopologyCommonAncestor(dev[0], dev[0], &level), 0);
	CHECK_EQ(level, NVML_TOPOLOGY_INTERNAL);
	CHECK_EQ(nvmlDeviceGetTopologyCommonAncestor(dev[0], dev[1], &level), 0);
	CHECK_EQ(level, NVML_TOPOLOGY_NODE);
	while (!nvmlDeviceGetNvLinkState(dev[0], n, &active)) {
		CHECK_EQ(active, NVML_FEATURE_ENABLED);
		CHECK_EQ(nvmlDeviceGetNvLinkRemoteDeviceType(dev[0], n, &type), 0);
		CHECK_EQ(type, NVML_NVLINK_DEVICE_TYPE_SWITCH);
		CHECK_EQ(nvmlDeviceGetNvLinkRemotePciInfo_v2(dev[0], n, &pci), 0);
		CHECK_EQ(nvmlDeviceGetHandleByPciBusId_v2(pci.busId, &dev[1]),
			 NVML_ERROR_NOT_FOUND);
		n++;
	}
	CHECK_EQ(n, 18);
	CHECK_EQ(nvmlDeviceGetFieldValues(dev[0], 0, values), NVML_ERROR_INVALID_ARGUMENT);
	CHECK_EQ(nvmlDeviceGetFieldValues(dev[0], 3, values), 0);
	CHECK_EQ(values[0].nvmlReturn, 0);
	CHECK_EQ(values[0].value.uiVal, 26562);
	CHECK_EQ(values[1].nvmlReturn, NVML_ERROR_NOT_SUPPORTED);
	CHECK_EQ(values[2].nvmlReturn, NVML_ERROR_NOT_SUPPORTED);
	CHECK_EQ(nvmlDeviceGetMaxPcieLinkGeneration(dev[0], &n), 0);
	CHECK_EQ(n, 5);
	CHECK_EQ(nvmlDeviceGetMaxPcieLinkWidth(dev[0], &n), 0);
	CHECK_EQ(n, 16);
}

static void utilization(void)
{
	nvmlProcessUtilizationSample_t samples[72];
	nvmlProcessUtilizationInfo_v1_t infos[72];
	nvmlProcessesUtilizationInfo_t info = {.version = nvmlProcessesUtilizationInfo_v1,
					       .procUtilArray = infos,
					       .processSamplesCount = 72};
	struct sim_region *region;
	pid_t a = holder(0, MIB), b = holder(0, MIB);
	nvmlUtilization_t rates;
	nvmlDevice_t dev;
	unsigned int n = 71;

	CHECK_EQ(sim_region_open(NULL, false, &region, NULL), 0);
	CHECK_EQ(nvmlDeviceGetHandleByIndex_v2(0, &dev), 0);
	CHECK_EQ(nvmlDeviceGetProcessUtilization(dev, samples, &n, 0),
		 NVML_ERROR_INSUFFICIENT_SIZE);
	CHECK_EQ(n, 72);
	CHECK_EQ(nvmlDeviceGetProcessUtilization(dev, NULL, &n, 0), NVML_ERROR_INSUFFICIENT_SIZE);

	/* Busy for long before and after now, so that no window boundary matters here. */
	for (uint32_t i = 0; i < region->nrows; i++) {
		struct sim_windows *w = &region->device[0].engine.windows[i];
		uint64_t now = now_monotonic_ns();

		if (region->row[i].pid == a || region->row[i].pid == b)
			sim_windows_add(w, now - 20 * SIM_WINDOW_EVERY_NS,
					now - 15 * SIM_WINDOW_EVERY_NS);
		for (uint64_t k = sim_window_at(now_monotonic_ns()) - 1;
		     k < sim_window_at(now_monotonic_ns()) + 6; k++)
			if (region->row[i].pid == a)
				sim_windows_add(w, k * SIM_WINDOW_EVERY_NS - SIM_WINDOW_NS / 4,
						k * SIM_WINDOW_EVERY_NS);
			else if (region->row[i].pid == b)
				sim_windows_add(w, k * SIM_WINDOW_EVERY_NS - SIM_WINDOW_NS / 2,
						k * SIM_WINDOW_EVERY_NS);
	}
	CHECK_EQ(nvmlDeviceGetUtilizationRates(dev, &rates), 0);
	CHECK_EQ(rates.gpu, 75);
	/* A process's figure is the mean of what the caller has not seen, however old. */
	CHECK_EQ(nvmlDeviceGetProcessUtilization(dev, samples, &n, 0), 0);
	CHECK_EQ(n, 2);
	for (unsigned int i = 0; i < n; i++)
		CHECK(samples[i].smUtil > (samples[i].pid == (unsigned int)a ? 25u : 50u));
	n = 72;
	CHECK_EQ(nvmlDeviceGetProcessUtilization(dev, samples, &n, samples[0].timeStamp - 300000),
		 0);
	CHECK_EQ(n, 2);
	for (unsigned int i = 0; i < n; i++)
		CHECK_EQ(samples[i].smUtil, samples[i].pid == (unsigned int)a ? 25 : 50);
	n = 72;
	CHECK_EQ(nvmlDeviceGetProcessUtilization(dev, samples, &n, samples[0].timeStamp + 1000000),
		 NVML_ERROR_NOT_FOUND);
	info.lastSeenTimeStamp = samples[0].timeStamp - 300000;
	CHECK_EQ(nvmlDeviceGetProcessesUtilizationInfo(dev, &info), 0);
	CHECK_EQ(info.processSamplesCount, 2);
	CHECK_EQ(infos[0].smUtil + infos[1].smUtil, 75);
	info.processSamplesCount = 2;
	CHECK_EQ(nvmlDeviceGetProcessesUtilizationInfo(dev, &info), NVML_ERROR_INSUFFICIENT_SIZE);
	info.version++;
	CHECK_EQ(nvmlDeviceGetProcessesUtilizationInfo(dev, &info),
		 NVML_ERROR_ARGUMENT_VERSION_MISMATCH);
	sim_region_close(region);
	end(a);
	end(b);
}

/* A child of an initialised process is initialised, too: the mapping is not inherited, but made. */
static void forked(void)
{
	int status;
	pid_t pid = fork();

	if (pid == 0) {
		nvmlDevice_t dev;
		nvmlMemory_t v1;

		CHECK_EQ(nvmlDeviceGetHandleByIndex_v2(0, &dev), 0);
		CHECK_EQ(nvmlDeviceGetMemoryInfo(dev, &v1), 0);
		CHECK_EQ(nvmlShutdown(), 0);
		_exit(0);
	}
	CHECK(waitpid(pid, &status, 0) == pid);
	CHECK_EQ(status, 0);
}

static void view(const char *library)
{
	pid_t a = holder(1, 6 * MIB), b = holder(1, 4 * MIB);
	struct nvml_process *processes;
	struct nvml_device device;
	struct nvml_gauges gauges;
	struct nvml_link link;
	struct nvml *nvml = NULL;
	char version[80];
	unsigned int count;
	int cuda;
	size_t n;

	CHECK_EQ(nvml_open("libno-such-library.so.1", &nvml), -ENOENT);
	CHECK_EQ(nvml_open("libc.so.6", &nvml), -ENOENT);
	CHECK(!nvml);
	CHECK_EQ(nvml_open(library, &nvml), 0);
	CHECK_EQ(nvml_device_count(nvml, &count), 0);
	CHECK_EQ(count, 2);
	CHECK_EQ(nvml_device_get(nvml, 2, &device), -ENODEV);
	CHECK_EQ(nvml_device_get(nvml, 1, &device), 0);
	CHECK_EQ(device.index, 1);
	CHECK_EQ(device.total_bytes, 1024 * MIB);
	CHECK_EQ(device.used_bytes, 10 * MIB);
	CHECK(!strcmp(device.name, "a simulated board"));
	CHECK(strchr(device.pci, ':'));
	gauges = nvml_device_gauges(nvml, 1);
	CHECK_EQ(gauges.busy_percent, 0);
	CHECK_EQ(gauges.celsius, 40);
	CHECK_EQ(gauges.milliwatt, 120000);
	gauges = nvml_device_gauges(nvml, 2);
	CHECK_EQ(gauges.busy_percent, NVML_GAUGE_UNKNOWN);
	CHECK_EQ(gauges.celsius, NVML_GAUGE_UNKNOWN);
	CHECK_EQ(gauges.milliwatt, NVML_GAUGE_UNKNOWN);
	CHECK_EQ(nvml_device_processes(nvml, 1, &processes, &n), 0);
	CHECK_EQ(n, 2);
	CHECK_EQ(processes[processes[1].pid == a].used_bytes, 6 * MIB);
	CHECK_EQ(processes[processes[1].pid == b].used_bytes, 4 * MIB);
	free(processes);
	CHECK_EQ(nvml_device_processes(nvml, 0, &processes, &n), 0);
	CHECK_EQ(n, 0);
	free(processes);
	CHECK_EQ(nvml_link_get(nvml, 0, 2, &link), -ENODEV);
	CHECK_EQ(nvml_link_get(nvml, 0, 1, &link), 0);
	CHECK(link.reach && link.nvlink && link.nvlinks == 18);
	CHECK_EQ(link.mb_per_s, 18 * 26562);
	CHECK(!strcmp(link.path, "NUMA node"));
	CHECK_EQ(nvml_driver_version(nvml, version, &cuda), 0);
	CHECK_EQ(cuda, 13000);
	nvml_close(nvml);
	nvml_close(NULL);
	end(a);
	end(b);
}

int main(int argc, char **argv)
{
	char command[64];

	CHECK(mkdtemp(dir));
	setenv("ALLOT_SIM_DIR", dir, 1);
	setenv("ALLOT_SIM_GPUS", "2", 1);
	setenv("ALLOT_SIM_MEMORY", "1GiB", 1);
	setenv("ALLOT_SIM_NAME", "a simulated board", 1);
	starts();
	before_init();
	CHECK_EQ(nvmlInit_v2(), 0);
	find();
	unsupported();
	memory();
	links();
	utilization();
	forked();
	CHECK_EQ(nvmlShutdown(), 0);
	if (argc > 1)
		view(argv[1]);
	snprintf(command, sizeof(command), "rm -r %s", dir);
	CHECK_EQ(system(command), 0);
	return 0;
}
