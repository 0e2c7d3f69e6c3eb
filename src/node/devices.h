/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The devices of this machine: NVIDIA's as NVML counts them (by PCI address), then AMD's by their
 * node. A place in this list is what people write as an index; everything that leaves the command
 * goes by the name of 16 bytes that policies and ledgers have for a device.
 */
#ifndef ALLOT_NODE_DEVICES_H
#define ALLOT_NODE_DEVICES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "amd/topology_read.h"
#include "ledger/policy.h"
#include "nvidia/nvml.h"

enum device_vendor { DEVICE_NVIDIA, DEVICE_AMD };

struct device {
	enum device_vendor vendor;
	uint8_t uuid[16]; /* NVIDIA's UUID, or amd_identity(); units_uuid() has it in words */
	unsigned int number; /* among its vendor's: NVIDIA's index, AMD's node, as topo has it */
	uint32_t render_minor; /* AMD's: /dev/dri/renderD<minor> */
	char model[96];
	char architecture[24]; /* "Hopper", "gfx942"; "": not known */
	char pci[32]; /* "0000:17:00.0" */
	uint64_t total_bytes;
};

/* By NVML's index. Errors of nvidia/nvml.h. */
int device_of_nvml(struct nvml *nvml, unsigned int index, struct device *ret);
void device_of_node(const struct topology_node *node, struct device *ret);

#define DEVICES_WORDS 640

struct devices {
	/* Of each vendor: 0, or why none of its devices is in the list, -errno. */
	int nvidia_error, amd_error;
	/* why the list is of no use, and what to do; "": no trouble */
	char trouble[DEVICES_WORDS];
	char amd_trouble[DEVICES_WORDS]; /* why AMD's devices are not in it, if they may be there */
	unsigned int n;
	struct device list[POLICY_DEVICES];
	/* NVLinks between two of them, by their places; 0: none, or devices_read_links was not called. */
	uint8_t nvlinks[POLICY_DEVICES][POLICY_DEVICES];
};

/* One vendor without a driver or a device is no trouble where the other has some. */
void devices_read(struct devices *ret);

/* Fills in the links of devices that were read. It asks NVML of each pair: some 10 ms for 8 devices. */
void devices_read_links(struct devices *devices);

/* Reads AMD's devices alone. NVML, whose start takes its time, is not asked. */
void devices_read_amd(struct devices *ret);

/* The device of that name, or NULL. */
const struct device *devices_find(const struct devices *devices, const uint8_t uuid[16]);

/*
 * A number that is another one once the kernel shows more or fewer devices: where NVIDIA's driver
 * lists them, and how often KFD's list has changed. NVML lists them as it was opened. Wakes none.
 */
uint64_t devices_stamp(void);

/* True if the driver is missing, or has no device, so that nothing is wrong. */
bool devices_absent(int err);

/* For a machine where neither vendor has a device: what is missing, and what to do. */
void devices_explain_none(int nvidia_error, int amd_error, char ret[static DEVICES_WORDS]);

/* Words for NVML's other errors, and what to do. */
const char *devices_nvidia_words(int err);

#endif
