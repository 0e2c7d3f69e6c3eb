/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/*
 * Finds GPUs of a machine that can replace those that processes had when they were saved: by their
 * properties, by the memory that they reach, and, with xGMI, by hives. A program has found out its
 * GPUs' properties and does not ask again, so all that it relies on must be the same or more.
 */
#ifndef ALLOT_CRIU_KFD_MATCH_H
#define ALLOT_CRIU_KFD_MATCH_H

#include <stdbool.h>
#include <stdint.h>

#include "amd/topology.h"

#define MATCH_GPUS	64
#define MATCH_WHY_BYTES 320

/* Properties that the administrator allows to be less than before. */
enum match_relax {
	MATCH_SMALLER_MEMORY = 1 << 0,
	MATCH_OLDER_FIRMWARE = 1 << 1,
	MATCH_FEWER_CACHES = 1 << 2,
	MATCH_FEWER_GWS = 1 << 3,
	MATCH_OTHER_CAPABILITY = 1 << 4,
};

/* A GPU. Images have it as it is here: new fields go to the end, and zero must mean "not said". */
struct match_gpu {
	uint64_t vram_bytes;
	uint64_t hive_id; /* 0: in none */
	uint32_t gpu_id;  /* as the topology has it */
	uint32_t render_minor;
	uint32_t vendor_id, device_id, gfx_version;
	uint32_t simds, simds_per_cu, cus_per_array, arrays, arrays_per_engine, xccs;
	uint32_t waves_per_simd, wave_lanes, scratch_slots_per_cu, lds_kib;
	uint32_t sdma_engines, sdma_xgmi_engines, sdma_queues_per_engine, cp_queues;
	uint32_t all_visible; /* the CPU reaches all of its memory, */
	uint32_t cpu_joined;  /* and there is a CPU with links both ways */
	uint32_t capability;
	uint32_t gws, caches, firmware, sdma_firmware;
};

/* One GPU reaches the other's memory; both by their number. */
struct match_link {
	uint32_t from, to;
	uint32_t type; /* enum topology_link_type */
};

struct match_machine {
	uint32_t ngpus, nlinks;
	const struct match_gpu *gpus;
	const struct match_link *links;
};

/* The GPUs of a snapshot, at most MATCH_GPUS, in its order, and their links, malloc'ed. -ENOMEM. */
int match_read(const struct topology *topology, uint32_t *ret_ngpus, struct match_gpu **ret_gpus,
	       uint32_t *ret_nlinks, struct match_link **ret_links);

/*
 * Fills ret_to[i] with the number of the GPU that replaces GPU i of `was`. -ENODEV if there is no
 * way, or none was found in the time that a person waits; `why` says what is missing. `relax`: of
 * enum match_relax.
 */
int match_gpus(const struct match_machine *was, const struct match_machine *is, unsigned int relax,
	       uint32_t ret_to[static MATCH_GPUS], char why[static MATCH_WHY_BYTES]);

#endif
