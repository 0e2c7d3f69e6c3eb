/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The driver's own view of its devices, for allot's tools: what NVML says of memory and of
 * processes on this machine. Never used inside a tenant's process.
 *
 * Errors: -ENOENT no such library, -ENODEV library without a working driver or without a device,
 * -EACCES refused by the driver, -ENOTSUP not offered by this driver, -ENOMEM, -EIO anything else.
 */
#ifndef ALLOT_NVIDIA_NVML_H
#define ALLOT_NVIDIA_NVML_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* Figures that the driver does not tell, as on some virtual machines. */
#define NVML_BYTES_UNKNOWN UINT64_MAX

struct nvml;

struct nvml_device {
	unsigned int index; /* NVML's numbering: by PCI address */
	uint8_t uuid[16];
	char name[96];
	char pci[32]; /* domain:bus:device.function */
	const char *architecture; /* "Hopper"; "": the driver does not tell, or it is a new one */
	uint64_t total_bytes;
	uint64_t used_bytes; /* without what the driver keeps for itself */
};

struct nvml_process {
	pid_t pid; /* as the driver says it: in the initial PID namespace on most systems */
	uint64_t used_bytes;
};

/* `library` is a path or a soname; NULL is libnvidia-ml.so.1. */
int nvml_open(const char *library, struct nvml **ret_nvml);
void nvml_close(struct nvml *nvml);

int nvml_device_count(struct nvml *nvml, unsigned int *ret_count);
int nvml_device_get(struct nvml *nvml, unsigned int index, struct nvml_device *ret_device);

/* The readings of its sensors; NVML_GAUGE_UNKNOWN where the driver does not tell. */
#define NVML_GAUGE_UNKNOWN UINT32_MAX
struct nvml_gauges {
	uint32_t busy_percent; /* the part of the driver's last window in which a kernel ran */
	uint32_t celsius;
	uint32_t milliwatt, limit_milliwatt;
	uint32_t sm_mhz, memory_mhz;
	uint32_t encoder_percent, decoder_percent;
	uint32_t pcie_generation, pcie_lanes; /* of the link as it is now: it saves power when idle */
};
uint32_t nvml_device_busy(struct nvml *nvml, unsigned int index); /* that alone */
struct nvml_gauges nvml_device_gauges(struct nvml *nvml, unsigned int index);

/*
 * Traffic on PCIe, in 1000 bytes a second: sent by the device, and received. The driver
 * measures for 20 ms for each of them, and the caller waits.
 */
struct nvml_traffic {
	uint32_t sent_kbps, received_kbps;
};
struct nvml_traffic nvml_device_traffic(struct nvml *nvml, unsigned int index);

/*
 * All energy that the device took since its driver was loaded, in millijoules: a figure that moves about
 * ten times a second. -ENOTSUP: it does not tell.
 */
int nvml_device_energy(struct nvml *nvml, unsigned int index, uint64_t *ret_mj);

/*
 * The device's power in each of the driver's samples after `since_us`, wall time in microseconds: the
 * oldest first, some 20 ms each, of the last seconds. How many, or -ENOTSUP and the like.
 */
struct nvml_power {
	uint64_t at_us; /* its end */
	uint32_t milliwatt;
};
int nvml_device_power(struct nvml *nvml, unsigned int index, uint64_t since_us,
		      struct nvml_power *ret, unsigned int room);

/*
 * The part of the driver's windows since then in which a process had SMs busy, for each that did;
 * for free(). An empty list is NULL. `since_us` is wall time, in microseconds.
 */
struct nvml_busy_process {
	pid_t pid; /* as in nvml_process */
	uint32_t busy_percent;
};
int nvml_device_busy_processes(struct nvml *nvml, unsigned int index, uint64_t since_us,
			       struct nvml_busy_process **ret, size_t *ret_n);

/* Lists the processes that hold memory on the device; for free(). An empty list is NULL. */
int nvml_device_processes(struct nvml *nvml, unsigned int index,
			  struct nvml_process **ret_processes, size_t *ret_count);

/* The driver's version text, as 580.159, and the CUDA version that it serves, as 13000. */
int nvml_driver_version(struct nvml *nvml, char ret_version[80], int *ret_cuda);

#endif
