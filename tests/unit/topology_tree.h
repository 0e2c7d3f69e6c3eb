/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A written topology for a test, in memory where there is such a place: see sim/kfd/tree.h for how
 * a machine is described. A test writes it, and may then spoil files.
 */
#ifndef ALLOT_TESTS_UNIT_TOPOLOGY_TREE_H
#define ALLOT_TESTS_UNIT_TOPOLOGY_TREE_H

#include <limits.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "amd/topology_read.h"
#include "sim/kfd/tree.h"
#include "tests/check.h"

/* Everything below a path of the tree, and itself. */
__attribute__((format(printf, 2, 3))) static void tree_remove(struct tree *t, const char *fmt, ...)
{
	char path[PATH_MAX];
	int n = snprintf(path, sizeof(path), "%s", t->root);
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(path + n, sizeof(path) - (size_t)n, fmt, ap);
	va_end(ap);
	CHECK_EQ(tree_remove_all(path), 0);
}

static void tree_begin(struct tree *t)
{
	tree_init(t);
	snprintf(t->root, sizeof(t->root), "%s/allot-topology-XXXXXX",
		 access("/dev/shm", W_OK) ? "/tmp" : "/dev/shm");
	CHECK(mkdtemp(t->root));
	CHECK_EQ(chmod(t->root, 0755), 0);
}

static void tree_end(struct tree *t)
{
	tree_remove(t, "%s", "");
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

#endif
