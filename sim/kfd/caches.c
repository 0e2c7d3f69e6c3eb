/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/kfd/caches.h"

#include <glob.h>
#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"
#include "sim/kfd/tree.h"

/* The size is sets * ways * lines of 64 bytes. */
static const struct cache {
	const char *level, *type, *size, *ways, *sets;
} caches[] = {
	{"1", "Data", "32K", "8", "64"},
	{"1", "Instruction", "32K", "8", "64"},
	{"2", "Unified", "512K", "8", "1024"},
};

static bool caches_has(const char *cpus)
{
	char pattern[PATH_MAX];
	glob_t found;
	bool has;

	if (snprintf(pattern, sizeof(pattern), "%s/cpu[0-9]*/cache/index0", cpus) >=
	    (int)sizeof(pattern))
		return false;
	has = glob(pattern, GLOB_NOSORT, NULL, &found) == 0;
	globfree(&found);
	return has;
}

/* One CPU as a bit, in words of 32 with the highest first: "00000000,00000001". */
static void caches_print_map(char ret[static 512], uint32_t cpu, uint32_t cpus)
{
	size_t n = 0;

	for (uint32_t word = (cpus + 31) / 32; word-- > 0 && n + 10 < 512;)
		n += (size_t)snprintf(ret + n, 512 - n, "%08x%s",
				      word == cpu / 32 ? UINT32_C(1) << cpu % 32 : 0,
				      word ? "," : "");
}

static int caches_write_one(const struct tree *t, uint32_t cpu, uint32_t index)
{
	const struct cache *cache = &caches[index];
	char list[16], map[512] = "";
	const char *const files[][2] = {
		{"level", cache->level},
		{"type", cache->type},
		{"size", cache->size},
		{"ways_of_associativity", cache->ways},
		{"number_of_sets", cache->sets},
		{"coherency_line_size", "64"},
		{"physical_line_partition", "1"},
		{"shared_cpu_list", list},
		{"shared_cpu_map", map},
	};
	int r = 0;

	snprintf(list, sizeof(list), "%u", cpu);
	caches_print_map(map, cpu, t->cpu_cores);
	for (size_t i = 0; r == 0 && i < sizeof(files) / sizeof(files[0]); i++) {
		char name[128], text[520];

		snprintf(name, sizeof(name), CACHES_CPUS "/cpu%u/cache/index%u/%s", cpu, index,
			 files[i][0]);
		snprintf(text, sizeof(text), "%s\n", files[i][1]);
		r = tree_put(t, name, text);
	}
	return r;
}

/* The node's CPUs are links in sysfs, too; here one link does for all. */
static int caches_link_node(const struct tree *t)
{
	char path[sizeof(t->root) + 64];

	snprintf(path, sizeof(path), "%s" CACHES_NODES, t->root);
	if (mkdir(path, 0755) < 0)
		return err_errno();
	snprintf(path, sizeof(path), "%s" CACHES_NODE_CPUS, t->root);
	return symlink("../cpu", path) < 0 ? err_errno() : 0;
}

int caches_write(const struct tree *t, const char *host)
{
	int r = 0;

	if (caches_has(host))
		return 0;
	for (uint32_t cpu = 0; cpu < t->cpu_cores; cpu++)
		for (uint32_t i = 0; r == 0 && i < sizeof(caches) / sizeof(caches[0]); i++)
			r = caches_write_one(t, cpu, i);
	return r < 0 ? r : caches_link_node(t);
}
