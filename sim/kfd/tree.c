/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/kfd/tree.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <inttypes.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "amd/topology_parse.h"
#include "amd/topology_read.h"
#include "base/err.h"
#include "base/fd.h"

#define DOORBELLS_OF_64_BITS (2u << 12)
#define CAPABILITY_SVM	     (1u << 27)

/* clang-format off */
static const struct tree_model models[] = {
	{.gfx = "gfx90a", .name = "aldebaran", .gfx_version = 90010, .device_id = 0x7408,
	 .simds = 440, .simds_per_cu = 4, .cus_per_array = 14, .arrays = 8, .arrays_per_engine = 1,
	 .waves_per_simd = 8, .wave_lanes = 64, .xccs = 1, .engine_mhz = 1700, .family = 141,
	 .l1_kib = 16, .l2_kib = 8192, .xgmi = true},
	{.gfx = "gfx942", .name = "ip discovery", .gfx_version = 90402, .device_id = 0x74a1,
	 .simds = 1216, .simds_per_cu = 4, .cus_per_array = 10, .arrays = 32, .arrays_per_engine = 1,
	 .waves_per_simd = 8, .wave_lanes = 64, .xccs = 8, .engine_mhz = 2100, .family = 141,
	 .l1_kib = 32, .l2_kib = 4096, .xgmi = true},
	{.gfx = "gfx1030", .name = "sienna_cichlid", .gfx_version = 100300, .device_id = 0x73bf,
	 .simds = 160, .simds_per_cu = 2, .cus_per_array = 10, .arrays = 8, .arrays_per_engine = 2,
	 .waves_per_simd = 16, .wave_lanes = 32, .xccs = 1, .engine_mhz = 2250, .family = 143,
	 .l1_kib = 16, .l2_kib = 4096},
};
/* clang-format on */
const char tree_model_names[] = "gfx90a, gfx942 or gfx1030";

const struct tree_model *tree_model_find(const char *gfx)
{
	for (size_t i = 0; i < sizeof(models) / sizeof(models[0]); i++)
		if (!strcmp(models[i].gfx, gfx))
			return &models[i];
	return NULL;
}

void tree_init(struct tree *t)
{
	*t = (struct tree){.model = &models[0],
			   .vram_bytes = TREE_VRAM,
			   .cpu_cores = 64,
			   .system_bytes = TREE_VRAM};
}

uint32_t tree_cpu(struct tree *t)
{
	t->node[t->n] = (struct tree_node){.gpu_id = 0};
	return t->n++;
}

uint32_t tree_gpu(struct tree *t, uint64_t hive)
{
	t->node[t->n] = (struct tree_node){
		.gpu_id = TREE_GPU_ID(t->n), .hive = hive, .heap = TOPOLOGY_HEAP_VRAM_VISIBLE};
	return t->n++;
}

uint32_t tree_board_of(const struct tree *t, uint32_t id)
{
	return t->partitions ? (id - 1) / t->partitions + 1 : id;
}

uint32_t tree_partition_of(const struct tree *t, uint32_t id)
{
	return t->partitions ? (id - 1) % t->partitions : 0;
}

void tree_link(struct tree *t, uint32_t from, uint32_t to, uint32_t type, uint32_t weight,
	       uint32_t mb_per_s)
{
	t->node[from].io[t->node[from].nio++] = (struct tree_link){to, type, weight, mb_per_s};
}

void tree_link_both(struct tree *t, uint32_t a, uint32_t b, uint32_t type, uint32_t weight,
		    uint32_t mb_per_s)
{
	tree_link(t, a, b, type, weight, mb_per_s);
	tree_link(t, b, a, type, weight, mb_per_s);
}

void tree_p2p(struct tree *t, uint32_t from, uint32_t to, uint32_t weight, uint32_t mb_per_s)
{
	t->node[from].p2p[t->node[from].np2p++] =
		(struct tree_link){to, TOPOLOGY_LINK_PCIE, weight, mb_per_s};
}

void tree_board(struct tree *t, uint32_t gpus, uint64_t hive)
{
	uint32_t cpu = tree_cpu(t);

	for (uint32_t i = 0; i < gpus; i++) {
		uint32_t gpu = tree_gpu(t, hive);

		tree_link_both(t, cpu, gpu, TOPOLOGY_LINK_PCIE, 20, 63000);
		for (uint32_t other = 1; hive && other < gpu; other++)
			tree_link_both(t, gpu, other, TOPOLOGY_LINK_XGMI, 15, 50000);
	}
}

int tree_put_bytes(const struct tree *t, const char *name, const void *bytes, size_t len)
{
	char path[PATH_MAX], *slash;
	int fd, r;

	if (snprintf(path, sizeof(path), "%s%s", t->root, name) >= (int)sizeof(path))
		return -ENAMETOOLONG;
	for (slash = strchr(path + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
		*slash = '\0';
		if (mkdir(path, 0755) < 0 && errno != EEXIST)
			return err_errno();
		*slash = '/';
	}
	fd = fd_openat(AT_FDCWD, path, O_WRONLY | O_CREAT | O_TRUNC, 0666);
	if (fd < 0)
		return fd;
	r = fd_pwrite_all(fd, bytes, len, 0);
	if (close(fd) < 0 && r == 0)
		r = err_errno();
	return r;
}

int tree_put(const struct tree *t, const char *name, const char *text)
{
	return tree_put_bytes(t, name, text, strlen(text));
}

static int tree_remove_one(const char *path, const struct stat *st, int type, struct FTW *at)
{
	return remove(path);
}

int tree_remove_all(const char *path)
{
	return nftw(path, tree_remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

/* A file of a node. */
__attribute__((format(printf, 4, 5))) static int
tree_put_node(const struct tree *t, uint32_t id, const char *part, const char *fmt, ...)
{
	char name[192], text[TOPOLOGY_FILE_BYTES];
	va_list ap;
	int n;

	snprintf(name, sizeof(name), TOPOLOGY_DIR "/nodes/%u/%s", id, part);
	va_start(ap, fmt);
	n = vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	return n < 0 || (size_t)n >= sizeof(text) ? -EFBIG
						  : tree_put_bytes(t, name, text, (size_t)n);
}

static int tree_write_links(const struct tree *t, uint32_t id, const char *parts,
			    const struct tree_link *links, uint32_t n)
{
	int r = 0;

	for (uint32_t i = 0; r == 0 && i < n; i++) {
		char part[64];

		snprintf(part, sizeof(part), "%s/%u/properties", parts, i);
		r = tree_put_node(
			t, id, part,
			"type %u\nversion_major 0\nversion_minor 0\nnode_from %u\nnode_to %u\n"
			"weight %u\nmin_latency 0\nmax_latency 0\nmin_bandwidth %u\n"
			"max_bandwidth %u\nrecommended_transfer_size 0\nnovelty 0\nflags 1\n",
			links[i].type, id, links[i].to, links[i].weight, links[i].mb_per_s / 2,
			links[i].mb_per_s);
	}
	return r;
}

static int tree_write_cache(const struct tree *t, uint32_t id, uint32_t index, uint32_t level,
			    uint32_t kib)
{
	char part[64];

	snprintf(part, sizeof(part), "caches/%u/properties", index);
	return tree_put_node(t, id, part,
			     "processor_id_low 2147487744\nlevel %u\nsize %u\ncache_line_size 64\n"
			     "cache_lines_per_tag 1\nassociation 0\nlatency 0\ntype 9\n"
			     "sibling_map 1,0,0,1\n",
			     level, kib);
}

static int tree_write_memory(const struct tree *t, uint32_t id)
{
	const struct tree_node *node = &t->node[id];
	bool gpu = node->gpu_id;
	int r = tree_put_node(t, id, "mem_banks/0/properties",
			      "heap_type %u\nsize_in_bytes %" PRIu64 "\nflags 0\nwidth 4096\n"
			      "mem_clk_max 1600\n",
			      gpu ? node->heap : TOPOLOGY_HEAP_SYSTEM,
			      gpu ? t->vram_bytes : t->system_bytes);

	if (r == 0 && gpu)
		r = tree_write_cache(t, id, 0, 1, t->model->l1_kib);
	if (r == 0 && gpu)
		r = tree_write_cache(t, id, 1, 2, t->model->l2_kib);
	return r;
}

static int tree_write_properties(const struct tree *t, uint32_t id)
{
	static const struct tree_model none;
	const struct tree_node *node = &t->node[id];
	bool gpu = node->gpu_id;
	const struct tree_model *m = gpu ? t->model : &none;
	uint32_t capability = DOORBELLS_OF_64_BITS | (t->no_svm ? 0 : CAPABILITY_SVM);
	char p2p[40] = "";

	if (!t->no_p2p_lists)
		snprintf(p2p, sizeof(p2p), "p2p_links_count %u\n", node->np2p);
	return tree_put_node(
		t, id, "properties",
		"cpu_cores_count %u\nsimd_count %u\nmem_banks_count 1\ncaches_count %u\n"
		"io_links_count %u\n%scpu_core_id_base 0\nsimd_id_base 0\nmax_waves_per_simd %u\n"
		"lds_size_in_kb %u\ngds_size_in_kb 0\nnum_gws 0\nwave_front_size %u\n"
		"array_count %u\nsimd_arrays_per_engine %u\ncu_per_simd_array %u\nsimd_per_cu %u\n"
		"max_slots_scratch_cu %u\ngfx_target_version %u\nvendor_id %u\ndevice_id %u\n"
		"location_id %u\ndomain 0\ndrm_render_minor %u\nhive_id %" PRIu64
		"\nnum_sdma_engines %u\nnum_sdma_xgmi_engines 0\nnum_sdma_queues_per_engine %u\n"
		"num_cp_queues %u\nmax_engine_clk_fcompute %u\nlocal_mem_size 0\nfw_version %u\n"
		"capability %u\nsdma_fw_version %u\nunique_id %" PRIu64 "\nnum_xcc %u\n"
		"max_engine_clk_ccompute 3000\n",
		gpu ? 0 : t->cpu_cores, m->simds, gpu ? 2 : 0, node->nio, p2p, m->waves_per_simd,
		gpu ? 64 : 0, m->wave_lanes, m->arrays, m->arrays_per_engine, m->cus_per_array,
		m->simds_per_cu, gpu ? 32 : 0, m->gfx_version, gpu ? 0x1002 : 0, m->device_id,
		gpu ? tree_board_of(t, id) << 8 | tree_partition_of(t, id) : 0, gpu ? 128 + id : 0, node->hive, gpu ? 2 : 0, gpu ? 8 : 0,
		gpu ? 24 : 0, m->engine_mhz, gpu ? 68 : 0, gpu ? capability : 0, gpu ? 9 : 0,
		gpu ? UINT64_C(0x1234567890abcd00) + tree_board_of(t, id) : 0, gpu ? m->xccs : 1);
}

int tree_write_node(const struct tree *t, uint32_t id)
{
	const struct tree_node *node = &t->node[id];
	char name[64];
	int r;

	if ((r = tree_put_node(t, id, "gpu_id", "%u\n", node->gpu_id)) < 0 ||
	    (r = tree_put_node(t, id, "name", "%s\n", node->gpu_id ? t->model->name : "")) < 0 ||
	    (r = tree_write_properties(t, id)) < 0 || (r = tree_write_memory(t, id)) < 0 ||
	    (r = tree_write_links(t, id, "io_links", node->io, node->nio)) < 0 ||
	    (r = tree_write_links(t, id, "p2p_links", node->p2p, node->np2p)) < 0 || !node->gpu_id)
		return r;
	snprintf(name, sizeof(name), TOPOLOGY_DRI "/renderD%u", 128 + id);
	return tree_put(t, name, "");
}

int tree_write(const struct tree *t)
{
	int r;

	if ((r = tree_put(t, TOPOLOGY_DIR "/generation_id", "2\n")) < 0 ||
	    (r = tree_put(t, TOPOLOGY_DIR "/system_properties",
			  "platform_oem 0\nplatform_id 0\nplatform_rev 0\n")) < 0)
		return r;
	for (uint32_t i = 0; r == 0 && i < t->n; i++)
		r = tree_write_node(t, i);
	return r;
}
