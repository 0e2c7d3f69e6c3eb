/* SPDX-License-Identifier: Apache-2.0 */
/* Which of this machine's devices a command line or a variable means. */
#ifndef ALLOT_CLI_DEVICE_SELECTION_H
#define ALLOT_CLI_DEVICE_SELECTION_H

#include <stdbool.h>

#include "node/devices.h"

/* Some of the devices, in the caller's order. */
struct selection {
	unsigned int n;
	unsigned int index[POLICY_DEVICES];
};

/* The place on a command line that devices are named in, for messages. */
struct selection_option {
	const char *name, *example; /* "--gpu", "0,1" */
};
extern const struct selection_option selection_gpu;

/*
 * Parses the value of an option like `--gpu`, separated by commas: indices, ranges of them ("0-3"), "all",
 * NVIDIA's UUIDs or AMD's names as amd/identity.h has them, unique beginnings of these, or topo's
 * names. 0, or a message that names the argument and a negative value.
 */
int selection_parse(const struct devices *devices, const struct selection_option *option,
		    const char *list, struct selection *ret);

/*
 * The devices that CUDA_VISIBLE_DEVICES lists of NVIDIA's, in its order, then those that
 * ROCR_VISIBLE_DEVICES lists of AMD's; all of a vendor's if its variable is not set. Both are read
 * as CUDA and ROCm do: indices among the vendor's own or beginnings of names, up to the first that
 * names no device. -ENOTUNIQ if CUDA's indices may not be NVML's (different models, without
 * CUDA_DEVICE_ORDER=PCI_BUS_ID).
 */
int selection_visible(const struct devices *devices, struct selection *ret);

bool selection_has(const struct selection *selection, unsigned int index);

#endif
