/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The devices of this machine and which of them a command line means. Indices are those of
 * nvidia-smi (by PCI address); everything that leaves here goes by UUID.
 */
#ifndef ALLOT_CLI_DEVICES_H
#define ALLOT_CLI_DEVICES_H

#include <stdbool.h>
#include <stddef.h>

#include "ledger/policy.h"
#include "nvidia/nvml.h"

struct devices {
	int error; /* why there are none, -errno; 0 */
	unsigned int n;
	struct nvml_device list[POLICY_DEVICES];
};

void devices_read(struct devices *ret);

/* "no NVIDIA driver here: ...", and what to do. */
const char *devices_error_words(int err);

/* Some of the devices, in the caller's order. */
struct selection {
	unsigned int n;
	unsigned int index[POLICY_DEVICES];
};

/*
 * What `--gpu` says: indices or UUIDs, separated by commas. 0, or a message that names the argument
 * and a negative value.
 */
int devices_select(const struct devices *devices, const char *list, struct selection *ret);

/*
 * The devices that CUDA_VISIBLE_DEVICES leaves, in its order; all when it is not set. It reads
 * as CUDA does: indices or beginnings of UUIDs, up to the first that names no device. -ENOTUNIQ
 * where its indices may not be nvidia-smi's (different models, without
 * CUDA_DEVICE_ORDER=PCI_BUS_ID).
 */
int devices_visible(const struct devices *devices, const char *visible, struct selection *ret);

bool selection_has(const struct selection *selection, unsigned int index);

#endif
