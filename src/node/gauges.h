/* SPDX-License-Identifier: Apache-2.0 */
/* The drivers' current figures of each device of this machine: memory, use, temperature. */
#ifndef ALLOT_NODE_GAUGES_H
#define ALLOT_NODE_GAUGES_H

#include <stdbool.h>

#include "node/devices.h"

/* Of figures that a driver does not tell. */
#define GAUGE_UNKNOWN	    UINT32_MAX
#define GAUGE_BYTES_UNKNOWN UINT64_MAX

struct gauge {
	uint8_t uuid[16];
	unsigned int index;   /* by which people name it here */
	char model[96];	      /* printable */
	uint64_t total_bytes; /* 0: not known */
	uint64_t used_bytes;
	uint32_t busy_percent, celsius, milliwatt;
	/* The rest is NVIDIA's alone. */
	uint32_t limit_milliwatt, sm_mhz, memory_mhz, encoder_percent, decoder_percent;
	uint32_t pcie_generation, pcie_lanes;
	uint32_t sent_kbps, received_kbps; /* over PCIe, where asked for; 1000 bytes a second */
};

struct gauges {
	unsigned int n;
	struct gauge list[POLICY_DEVICES];
};

struct gauges_reader;

/* Opens the drivers that there are, once: NVML's start takes milliseconds. -ENOMEM. */
int gauges_open(struct gauges_reader **ret);
void gauges_close(struct gauges_reader *reader); /* takes NULL */

/*
 * Asks the drivers, which may block for any time. A device that does not answer any more stays in
 * the list, with its identity alone.
 */
void gauges_read(struct gauges_reader *reader, struct gauges *ret);

/*
 * The part of the last second in which a process had SMs of a device busy, by NVIDIA's driver: for
 * free(). Processes that had none are left out. -ENOMEM.
 */
struct gauge_busy {
	uint8_t uuid[16];
	pid_t pid; /* as the driver says it: in the first PID namespace on most systems */
	uint32_t percent;
};
int gauges_read_busy(struct gauges_reader *reader, struct gauge_busy **ret, size_t *ret_n);

/* Reads the traffic on PCIe, too: NVML takes 40 ms for each device. */
void gauges_ask_traffic(struct gauges_reader *reader, bool ask);

#endif
