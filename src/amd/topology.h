/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/*
 * The topology of a machine with AMD GPUs: its nodes (CPU sockets and GPUs) and the links between
 * them, as the kernel's KFD driver describes them in sysfs. A snapshot is plain data that nobody
 * changes any more; topology_read.h makes one, the questions here do no I/O.
 *
 * Nodes are numbered as in ROCm's user-space library: from 0, without those that this process may
 * not see. So a node's number here is that of rocminfo, and may differ from that of its directory
 * in sysfs. Ioctls take neither, but the GPU's id.
 *
 * All of this was tried on trees that tests write, never yet on a real AMD GPU.
 */
#ifndef ALLOT_AMD_TOPOLOGY_H
#define ALLOT_AMD_TOPOLOGY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/cleanup.h"

/* The most that is believed: of nodes, and of banks, caches or links of one kind in one node. */
#define TOPOLOGY_NODES 256
#define TOPOLOGY_PARTS 4096

#define TOPOLOGY_NAME_BYTES 64

/* The kernel's numbers for kinds of memory; others exist and are kept as they are. */
enum topology_heap {
	TOPOLOGY_HEAP_SYSTEM = 0,
	TOPOLOGY_HEAP_VRAM_VISIBLE = 1, /* the CPU reaches all of it */
	TOPOLOGY_HEAP_VRAM = 2,
};

/* The kernel's numbers for kinds of links; others exist and are kept as they are. */
enum topology_link_type {
	TOPOLOGY_LINK_UNDEFINED = 0,
	TOPOLOGY_LINK_HYPERTRANSPORT = 1,
	TOPOLOGY_LINK_PCIE = 2,
	TOPOLOGY_LINK_QPI = 5,
	TOPOLOGY_LINK_XGMI = 11,
};

struct topology_bank {
	uint64_t size_bytes;
	uint32_t heap; /* enum topology_heap */
	uint32_t flags;
	uint32_t width_bits;
	uint32_t clock_mhz;
};

struct topology_cache {
	uint32_t processor_id_low; /* the first processor or compute unit that it serves */
	uint32_t level;
	uint32_t size_kib;
	uint32_t line_bytes;
	uint32_t lines_per_tag;
	uint32_t association;
	uint32_t latency_ns;
	uint32_t type;
};

/*
 * `from` reaches memory of `to` over it; the other direction is a link of its own, or there is
 * none. Zero stands for what the kernel does not say.
 */
struct topology_link {
	uint32_t type;	   /* enum topology_link_type */
	uint32_t from, to; /* nodes, by their number here */
	uint32_t weight;   /* the kernel's distance: the less, the closer; xGMI about 15, PCIe 20 */
	uint32_t min_latency_ns, max_latency_ns;
	uint32_t min_mb_per_s, max_mb_per_s; /* of 10^6 bytes */
	uint32_t transfer_bytes;	     /* the size that is recommended */
	uint32_t flags;
	uint32_t indirect; /* 1: by way of a CPU, found here since the kernel does not list such */
};

/* Of a property that old kernels do not have. */
#define TOPOLOGY_ABSENT UINT32_MAX

struct topology_node {
	uint32_t id;	   /* its number here */
	uint32_t sysfs_id; /* its directory's */
	uint32_t gpu_id;   /* what ioctls call it; 0: no GPU */
	char name[TOPOLOGY_NAME_BYTES];

	uint32_t cpu_cores;
	uint32_t simds;
	uint32_t simds_per_cu;
	uint32_t cus_per_array;
	uint32_t arrays;
	uint32_t arrays_per_engine;
	uint32_t xccs; /* at least 1 */
	uint32_t waves_per_simd;
	uint32_t wave_lanes;
	uint32_t scratch_slots_per_cu;
	uint32_t lds_kib, gds_kib, gws;
	uint32_t engine_mhz;
	uint32_t gfx_version; /* 90010 is gfx90a; 0: an old kernel */
	uint32_t vendor_id, device_id;
	/* PCI: location is bus, device and function in 16 bits, and the partition: topology_partition. */
	uint32_t domain, location;
	uint32_t render_minor;	   /* /dev/dri/renderD<minor> */
	uint32_t sdma_engines, sdma_xgmi_engines, sdma_queues_per_engine;
	uint32_t cp_queues;
	uint32_t firmware, sdma_firmware;
	uint32_t capability;
	uint64_t hive_id; /* the same for GPUs that xGMI joins; 0: none */
	uint64_t unique_id; /* before 2025's kernels of the board, with all of its partitions */
	uint64_t local_bytes; /* 0 from most kernels: ask the banks */

	uint32_t bank_count, cache_count, io_link_count;
	uint32_t p2p_link_count; /* TOPOLOGY_ABSENT from kernels that do not list such links */
	struct topology_bank *banks;
	struct topology_cache *caches;
	struct topology_link *links; /* to nodes of the snapshot only: */
	uint32_t link_count;	     /* at most both of the above, or those that were found */
};

struct topology {
	uint32_t generation; /* the kernel's; a snapshot is of one */
	uint32_t hidden;     /* nodes that the device cgroup keeps from this process */
	uint32_t without_render_node;
	uint32_t node_count, gpu_count;
	struct topology_node *nodes;
};

/* Takes NULL. */
void topology_free(struct topology *topology);
DEFINE_CLEANUP(struct topology, topology_free)
#define CLEANUP_TOPOLOGY CLEANUP(cleanup_topology_free)

/* The GPU of that id, or NULL. */
const struct topology_node *topology_gpu(const struct topology *topology, uint32_t gpu_id);

/* The closest link in that direction, NULL when there is none. Nodes by number. */
const struct topology_link *topology_link(const struct topology *topology, uint32_t from,
					  uint32_t to);

/*
 * True if `from` reaches memory of `to`, which may be the same. The link from the mapping device
 * counts, not the one back.
 */
bool topology_can_reach(const struct topology *topology, uint32_t from, uint32_t to);

/* Device memory of a node. Saturates. */
uint64_t topology_vram_bytes(const struct topology_node *node);

/* "gfx90a", or "" where the kernel does not say. */
#define TOPOLOGY_GFX_BYTES 24
void topology_gfx_name(const struct topology_node *node, char ret_name[TOPOLOGY_GFX_BYTES]);

/*
 * Which partition of its board the GPU is, from 0 on (MI300 in DPX, QPX, CPX); 0 for a whole one. Kernels
 * have it in the lowest or in the highest bits of the location.
 */
uint32_t topology_partition(const struct topology_node *node);

/* Bus, device and function of the board, in 16 bits. */
uint32_t topology_place(const struct topology_node *node);

/* "0000:c1:00.0": of the board, with all of its partitions. */
#define TOPOLOGY_PCI_BYTES 24
void topology_pci_name(const struct topology_node *node, char ret_name[TOPOLOGY_PCI_BYTES]);

/* "PCIe", "xGMI", ...; "other" for what has no name here. */
const char *topology_link_name(uint32_t type);

#endif
