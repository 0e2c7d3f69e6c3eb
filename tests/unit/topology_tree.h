/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A topology as the kernel's KFD driver shows it in sysfs, written into a directory, in memory
 * where there is such a place. A test describes nodes, writes them, and may then spoil files.
 */
#ifndef ALLOT_TESTS_UNIT_TOPOLOGY_TREE_H
#define ALLOT_TESTS_UNIT_TOPOLOGY_TREE_H

#include <errno.h>
#include <ftw.h>
#include <inttypes.h>
#include <limits.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "amd/topology_read.h"
#include "tests/check.h"

#define TREE_NODES 12
#define TREE_VRAM  (UINT64_C(64) << 30)

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
	char root[64];
	bool no_p2p_lists; /* as kernels before 6.0 */
	struct tree_node node[TREE_NODES];
	uint32_t n;
};

static int tree_remove_one(const char *path, const struct stat *st, int type, struct FTW *at)
{
	(void)st;
	(void)type;
	(void)at;
	return remove(path);
}

/* Everything below a path of the tree, and itself. */
__attribute__((format(printf, 2, 3))) static void tree_remove(struct tree *t, const char *fmt, ...)
{
	char path[PATH_MAX];
	int n = snprintf(path, sizeof(path), "%s", t->root);
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(path + n, sizeof(path) - (size_t)n, fmt, ap);
	va_end(ap);
	CHECK_EQ(nftw(path, tree_remove_one, 16, FTW_DEPTH | FTW_PHYS), 0);
}

/* Writes a file, making the directories above it. */
static void tree_put_bytes(struct tree *t, const char *name, const void *bytes, size_t len)
{
	char path[PATH_MAX], *slash;
	FILE *file;

	snprintf(path, sizeof(path), "%s%s", t->root, name);
	for (slash = strchr(path + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
		*slash = '\0';
		CHECK(!mkdir(path, 0755) || errno == EEXIST);
		*slash = '/';
	}
	file = fopen(path, "we");
	CHECK(file);
	CHECK_EQ(fwrite(bytes, 1, len, file), len);
	CHECK_EQ(fclose(file), 0);
}

static void tree_put(struct tree *t, const char *name, const char *text)
{
	tree_put_bytes(t, name, text, strlen(text));
}

static void tree_begin(struct tree *t)
{
	memset(t, 0, sizeof(*t));
	snprintf(t->root, sizeof(t->root), "%s/allot-topology-XXXXXX",
		 access("/dev/shm", W_OK) ? "/tmp" : "/dev/shm");
	CHECK(mkdtemp(t->root));
	CHECK_EQ(chmod(t->root, 0755), 0);
}

static void tree_end(struct tree *t)
{
	tree_remove(t, "%s", "");
}

static uint32_t tree_cpu(struct tree *t)
{
	t->node[t->n] = (struct tree_node){.gpu_id = 0};
	return t->n++;
}

/* A GPU with render node 128 + its number, whose memory the CPU sees. */
static uint32_t tree_gpu(struct tree *t, uint64_t hive)
{
	t->node[t->n] = (struct tree_node){
		.gpu_id = 10000 + t->n * 111, .hive = hive, .heap = TOPOLOGY_HEAP_VRAM_VISIBLE};
	return t->n++;
}

/* One direction. */
static void tree_link(struct tree *t, uint32_t from, uint32_t to, uint32_t type, uint32_t weight,
		      uint32_t mb_per_s)
{
	t->node[from].io[t->node[from].nio++] = (struct tree_link){to, type, weight, mb_per_s};
}

static void tree_link_both(struct tree *t, uint32_t a, uint32_t b, uint32_t type, uint32_t weight,
			   uint32_t mb_per_s)
{
	tree_link(t, a, b, type, weight, mb_per_s);
	tree_link(t, b, a, type, weight, mb_per_s);
}

/* Takes away the only link in that direction. */
static void tree_unlink(struct tree *t, uint32_t from, uint32_t to)
{
	struct tree_node *node = &t->node[from];
	uint32_t i = 0;

	while (i < node->nio && node->io[i].to != to)
		i++;
	CHECK(i < node->nio);
	node->io[i] = node->io[--node->nio];
}

/* A CPU and `gpus` GPUs, each on PCIe; those of a hive joined by xGMI. */
static void tree_board(struct tree *t, uint32_t gpus, uint64_t hive)
{
	uint32_t cpu = tree_cpu(t);

	for (uint32_t i = 0; i < gpus; i++) {
		uint32_t gpu = tree_gpu(t, hive);

		tree_link_both(t, cpu, gpu, TOPOLOGY_LINK_PCIE, 20, 63000);
		for (uint32_t other = 1; hive && other < gpu; other++)
			tree_link_both(t, gpu, other, TOPOLOGY_LINK_XGMI, 15, 50000);
	}
}

static void tree_write_links(struct tree *t, uint32_t id, const char *parts,
			     const struct tree_link *links, uint32_t n)
{
	char name[192], text[512];

	for (uint32_t i = 0; i < n; i++) {
		snprintf(name, sizeof(name), TOPOLOGY_DIR "/nodes/%u/%s/%u/properties", id, parts,
			 i);
		snprintf(text, sizeof(text),
			 "type %u\nversion_major 0\nversion_minor 0\nnode_from %u\nnode_to %u\n"
			 "weight %u\nmin_latency 0\nmax_latency 0\nmin_bandwidth %u\n"
			 "max_bandwidth %u\nrecommended_transfer_size 0\nnovelty 0\nflags 1\n",
			 links[i].type, id, links[i].to, links[i].weight, links[i].mb_per_s / 2,
			 links[i].mb_per_s);
		tree_put(t, name, text);
	}
}

static void tree_write_memory(struct tree *t, uint32_t id)
{
	const struct tree_node *node = &t->node[id];
	char name[192], text[512];

	snprintf(name, sizeof(name), TOPOLOGY_DIR "/nodes/%u/mem_banks/0/properties", id);
	snprintf(text, sizeof(text),
		 "heap_type %u\nsize_in_bytes %" PRIu64 "\nflags 0\nwidth 4096\nmem_clk_max 1600\n",
		 node->gpu_id ? node->heap : 0, TREE_VRAM);
	tree_put(t, name, text);
	if (!node->gpu_id)
		return;
	snprintf(name, sizeof(name), TOPOLOGY_DIR "/nodes/%u/caches/0/properties", id);
	tree_put(t, name,
		 "processor_id_low 2147487744\nlevel 1\nsize 16\ncache_line_size 64\n"
		 "cache_lines_per_tag 1\nassociation 0\nlatency 0\ntype 9\nsibling_map 1,0,0,1\n");
}

static void tree_write_node(struct tree *t, uint32_t id)
{
	const struct tree_node *node = &t->node[id];
	char name[192], text[2048];
	bool gpu = node->gpu_id;
	int n;

	snprintf(name, sizeof(name), TOPOLOGY_DIR "/nodes/%u/gpu_id", id);
	snprintf(text, sizeof(text), "%u\n", node->gpu_id);
	tree_put(t, name, text);
	snprintf(name, sizeof(name), TOPOLOGY_DIR "/nodes/%u/name", id);
	tree_put(t, name, gpu ? "aldebaran\n" : "\n");
	n = snprintf(text, sizeof(text),
		     "cpu_cores_count %u\nsimd_count %u\nmem_banks_count 1\ncaches_count %u\n"
		     "io_links_count %u\n",
		     gpu ? 0 : 64, gpu ? 440 : 0, gpu, node->nio);
	if (!t->no_p2p_lists)
		n += snprintf(text + n, sizeof(text) - (size_t)n, "p2p_links_count %u\n",
			      node->np2p);
	n += snprintf(text + n, sizeof(text) - (size_t)n,
		      "cpu_core_id_base 0\nsimd_id_base 0\nmax_waves_per_simd 8\n"
		      "lds_size_in_kb 64\nwave_front_size 64\narray_count 8\n"
		      "simd_arrays_per_engine 1\ncu_per_simd_array 14\nsimd_per_cu 4\n"
		      "max_slots_scratch_cu 32\ngfx_target_version %u\nvendor_id 4098\n"
		      "device_id %u\nlocation_id %u\ndomain 0\ndrm_render_minor %u\n"
		      "hive_id %" PRIu64 "\nunique_id %" PRIu64 "\nnum_xcc 1\n"
		      "max_engine_clk_fcompute 1700\nlocal_mem_size 0\n",
		      gpu ? 90010 : 0, gpu ? 29704 : 0, gpu ? id << 8 : 0, gpu ? 128 + id : 0,
		      node->hive, gpu ? UINT64_C(0x1234567890abcd00) + id : 0);
	snprintf(name, sizeof(name), TOPOLOGY_DIR "/nodes/%u/properties", id);
	tree_put(t, name, text);
	tree_write_memory(t, id);
	tree_write_links(t, id, "io_links", node->io, node->nio);
	tree_write_links(t, id, "p2p_links", node->p2p, node->np2p);
	if (gpu) {
		snprintf(name, sizeof(name), TOPOLOGY_DRI "/renderD%u", 128 + id);
		tree_put(t, name, "");
	}
}

static void tree_write(struct tree *t)
{
	tree_put(t, TOPOLOGY_DIR "/generation_id", "2\n");
	tree_put(t, TOPOLOGY_DIR "/system_properties",
		 "platform_oem 0\nplatform_id 0\nplatform_rev 0\n");
	for (uint32_t i = 0; i < t->n; i++)
		tree_write_node(t, i);
}

#endif
