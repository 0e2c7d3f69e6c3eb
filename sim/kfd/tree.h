/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The sysfs tree in which the kernel's KFD driver shows a machine, written into a directory: for
 * the emulator, and for tests of what reads it, which may then spoil files. First nodes and links
 * are described, in memory; then all is written.
 *
 * Functions that write answer 0 or -errno.
 */
#ifndef ALLOT_SIM_KFD_TREE_H
#define ALLOT_SIM_KFD_TREE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define TREE_NODES 33
#define TREE_GPUS  (TREE_NODES - 1)
#define TREE_VRAM  (UINT64_C(64) << 30)

/* The id of a hive, by the number of its first GPU's node: each has one of its own. */
#define TREE_HIVE(node) (UINT64_C(0x5a11070000000000) + (node))

/* The id by which ioctls name the GPU at that node. */
#define TREE_GPU_ID(node) (10000 + (node)*111)

/* The minor of a GPU's primary node, by that of its render node. */
#define TREE_CARD(render_minor) ((int)(render_minor)-129)

/* The properties of a kind of GPU that programs here ask the kernel for. */
struct tree_model {
	const char *gfx; /* "gfx90a" */
	const char *name;
	uint32_t gfx_version, device_id;
	uint32_t simds, simds_per_cu, cus_per_array, arrays, arrays_per_engine;
	uint32_t waves_per_simd, wave_lanes, xccs, engine_mhz;
	uint32_t family; /* the DRM driver's number for its generation */
	uint32_t l1_kib, l2_kib;
	bool xgmi; /* joins those of one board */
};

/* The one of that name; NULL: none. tree_model_names is "gfx90a, ..." for people. */
const struct tree_model *tree_model_find(const char *gfx);
extern const char tree_model_names[];

struct tree_link {
	uint32_t to, type, weight, mb_per_s;
};

struct tree_node {
	uint32_t gpu_id; /* 0: a CPU */
	uint64_t hive;
	uint32_t heap; /* of a GPU's memory */
	struct tree_link io[TREE_NODES], p2p[TREE_NODES];
	uint32_t nio, np2p;
};

struct tree {
	char root[128];
	bool no_p2p_lists; /* as kernels before 6.0 */
	bool no_svm;	   /* as kernels that were built without */
	const struct tree_model *model;
	uint32_t kernel;     /* as kernel.h has it */
	uint32_t partitions; /* of each board, which its GPUs are; 0 or 1: each is one whole */
	uint64_t vram_bytes;
	uint64_t bar_bytes; /* what the CPU reaches of it; 0: all */
	uint32_t cpu_cores;
	uint64_t system_bytes;
	struct tree_node node[TREE_NODES];
	uint32_t n;
};

/* A machine without nodes, with GPUs of TREE_VRAM and of the first model; no root yet. */
void tree_init(struct tree *t);

/* Each adds a node and answers its number. */
uint32_t tree_cpu(struct tree *t);

/* A GPU with render node 128 + its number, whose memory the CPU sees. */
uint32_t tree_gpu(struct tree *t, uint64_t hive);

/*
 * The board that the GPU of a node is on, from 1 on, and its partition, from 0 on. The kernel tells the
 * board's place with the partition in the bits of the function, and the board's unique id.
 */
uint32_t tree_board_of(const struct tree *t, uint32_t id);
uint32_t tree_partition_of(const struct tree *t, uint32_t id);

/* One direction. */
void tree_link(struct tree *t, uint32_t from, uint32_t to, uint32_t type, uint32_t weight,
	       uint32_t mb_per_s);
void tree_link_both(struct tree *t, uint32_t a, uint32_t b, uint32_t type, uint32_t weight,
		    uint32_t mb_per_s);

/* One direction, by way of CPUs. */
void tree_p2p(struct tree *t, uint32_t from, uint32_t to, uint32_t weight, uint32_t mb_per_s);

/* A CPU and `gpus` GPUs, each on PCIe; those of a hive joined by xGMI. */
void tree_board(struct tree *t, uint32_t gpus, uint64_t hive);

/* Write a file below the root, making the directories above it. */
int tree_put_bytes(const struct tree *t, const char *name, const void *bytes, size_t len);
int tree_put(const struct tree *t, const char *name, const char *text);

/* Removes a path with all that is below it, as far as that can be: 0 or -1. */
int tree_remove_all(const char *path);

/* A node's files; all of them, and render nodes (plain files). */
int tree_write_node(const struct tree *t, uint32_t id);
int tree_write(const struct tree *t);

#endif
