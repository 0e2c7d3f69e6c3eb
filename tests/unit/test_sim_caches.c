/* SPDX-License-Identifier: Apache-2.0 */
/* The caches of an emulated machine: there where the machine tells of none, and only there. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "sim/kfd/caches.h"
#include "sim/kfd/tree.h"
#include "tests/check.h"

static struct tree tree, host;

/* What the file says of that CPU's cache, by way of a folder that has the CPUs. */
static const char *read_file(const char *cpus, unsigned int cpu, unsigned int index,
			     const char *name)
{
	static char text[600];
	char path[400];
	FILE *file;
	size_t n;

	snprintf(path, sizeof(path), "%s%s/cpu%u/cache/index%u/%s", tree.root, cpus, cpu, index,
		 name);
	file = fopen(path, "re");
	if (!file)
		return "";
	n = fread(text, 1, sizeof(text) - 1, file);
	text[n] = '\0';
	fclose(file);
	return text;
}

static void start(struct tree *t)
{
	tree_init(t);
	snprintf(t->root, sizeof(t->root), "/tmp/test-sim-caches-XXXXXX");
	CHECK(mkdtemp(t->root));
	CHECK_EQ(tree_put(t, CACHES_CPUS "/cpu1/online", "1\n"), 0);
}

static void write_beside(void)
{
	char cpus[sizeof(host.root) + sizeof(CACHES_CPUS)];

	snprintf(cpus, sizeof(cpus), "%s" CACHES_CPUS, host.root);
	CHECK_EQ(caches_write(&tree, cpus), 0);
}

static void test_none(void)
{
	start(&host);
	start(&tree);
	tree.cpu_cores = 34;
	write_beside();
	CHECK(!strcmp(read_file(CACHES_CPUS, 0, 0, "type"), "Data\n"));
	CHECK(!strcmp(read_file(CACHES_CPUS, 1, 1, "type"), "Instruction\n"));
	CHECK(!strcmp(read_file(CACHES_NODE_CPUS, 33, 2, "type"), "Unified\n"));
	CHECK(!strcmp(read_file(CACHES_NODE_CPUS, 33, 2, "size"), "512K\n"));
	CHECK(!strcmp(read_file(CACHES_CPUS, 33, 0, "shared_cpu_list"), "33\n"));
	CHECK(!strcmp(read_file(CACHES_CPUS, 33, 0, "shared_cpu_map"), "00000002,00000000\n"));
	CHECK(!strcmp(read_file(CACHES_CPUS, 31, 0, "shared_cpu_map"), "00000000,80000000\n"));
	CHECK(!*read_file(CACHES_CPUS, 34, 0, "type"));
	CHECK(!*read_file(CACHES_CPUS, 0, 3, "type"));
	CHECK_EQ(tree_remove_all(tree.root), 0);
}

/* Caches of one CPU are enough: others may be offline. */
static void test_some(void)
{
	start(&tree);
	CHECK_EQ(tree_put(&host, CACHES_CPUS "/cpu1/cache/index0/level", "1\n"), 0);
	write_beside();
	CHECK(!*read_file(CACHES_CPUS, 0, 0, "type"));
	CHECK(!*read_file(CACHES_NODE_CPUS, 1, 0, "type"));
	CHECK_EQ(tree_remove_all(tree.root), 0);
	CHECK_EQ(tree_remove_all(host.root), 0);
}

int main(void)
{
	test_none();
	test_some();
	return 0;
}
