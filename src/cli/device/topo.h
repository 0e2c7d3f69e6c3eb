/* SPDX-License-Identifier: Apache-2.0 */
/* The devices of this machine, of either vendor, and how they reach each other's memory. */
#ifndef ALLOT_CLI_DEVICE_TOPO_H
#define ALLOT_CLI_DEVICE_TOPO_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "amd/topology_read.h"
#include "node/devices.h"

#define TOPO_JSON_VERSION 1

struct topo_device {
	struct device device;
	uint32_t index;	  /* NVIDIA: as nvidia-smi counts; AMD: the node, as rocminfo counts */
	char name[24];	  /* "nvidia0", "amd1" */
	uint32_t gpu_id;  /* AMD: its id for ioctls */
	uint64_t hive_id; /* AMD: 0 where it is in none */
};

/* The link from one device to another. Zero and NULL: not known. */
struct topo_link {
	bool reach;	  /* if not, the rest has no meaning */
	const char *type; /* "NVLink", "xGMI", "PCIe", ... */
	uint32_t count;	  /* how many of them, side by side */
	const char *path; /* the parts of PCIe between the two */
	uint32_t weight;
	uint32_t min_mb_per_s, max_mb_per_s;
	uint32_t measured_mb_per_s; /* see topo_measure */
};

struct topo {
	size_t n;
	struct topo_device *device;
	struct topo_link *link; /* [from * n + to] */

	/* Of each vendor: 0, or why it has no devices here, or not all of what there is. */
	int nvidia_error;
	int amd_error;
	struct topology_complaint amd_complaint; /* with an amd_error */
	const char *amd_root; /* NULL: this machine; else where a copy of its tree is */
	uint32_t amd_hidden;
	uint32_t amd_without_render_node;
};

/* 0 or -ENOMEM; the errors of the vendors' drivers are in *ret. */
int topo_read(struct topo *ret);
void topo_free(struct topo *topo);

/*
 * Measures how fast each NVIDIA device reads memory of those that it reaches; about a tenth of a
 * second and 256 MiB of each. Errors are said: then a negative value.
 */
int topo_measure(struct topo *topo);

/* NULL for a device and itself. */
const struct topo_link *topo_link(const struct topo *topo, size_t from, size_t to);

/* Why a vendor's devices cannot be shown, where they may be there; NULL: there is nothing wrong. */
const char *topo_nvidia_trouble(const struct topo *topo);
const char *topo_amd_trouble(const struct topo *topo);

/* As docs/json.md describes it. */
void topo_json(const struct topo *topo, FILE *out);

#endif
