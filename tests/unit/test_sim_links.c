/* SPDX-License-Identifier: Apache-2.0 */
/* Links of an emulated AMD machine, as a person writes them. */
#include <errno.h>
#include <string.h>

#include "amd/topology.h"
#include "sim/kfd/links.h"
#include "sim/kfd/tree.h"
#include "tests/check.h"

static struct tree tree;

static int parse(const char *text, char what[LINKS_WHAT_BYTES])
{
	tree_init(&tree);
	tree_board(&tree, 4, 0);
	return links_parse(text, strlen(text), &tree, what);
}

static void refuses(const char *text, const char *words)
{
	char what[LINKS_WHAT_BYTES] = "";

	CHECK_EQ(parse(text, what), -EINVAL);
	if (!strstr(what, words)) {
		fprintf(stderr, "\"%s\" does not say \"%s\"\n", what, words);
		exit(1);
	}
}

static void test_refused(void)
{
	refuses("1\n", "line 1: not a link");
	refuses("\n1 <-> 2\n", "line 2: not a link");
	refuses("1 <-> 2 xgmi 15 50000 x", "not a link");
	refuses("1 <-> 2 xgmi 15 50000 x y z", "not a link");
	refuses("1 <-> 1 xgmi", "not two GPUs");
	refuses("0 <-> 1 xgmi", "not two GPUs");
	refuses("1 <-> 5 xgmi", "not two GPUs");
	refuses("a <-> 2 xgmi", "not two GPUs");
	refuses("1 <- 2 xgmi", "neither -> nor <->");
	refuses("1 -> 2 nvlink", "xgmi or pcie");
	refuses("1 -> 2 xgmi 0", "not a number");
	refuses("1 -> 2 xgmi 15 4294967296", "not a number");
	refuses("1 -> 2 xgmi\n1 -> 2 pcie", "line 2: these GPUs have a link in that direction");
	refuses("1 -> 2 xgmi\n2 <-> 1 pcie", "have a link in that direction");
	refuses("1 -> 2 xgmi #...................................................................."
		"...............................................................",
		"too long");
}

static void test_accepted(void)
{
	char what[LINKS_WHAT_BYTES];
	const struct tree_node *node;

	CHECK_EQ(parse("", what), 0);
	CHECK_EQ(tree.node[1].nio + tree.node[1].np2p, 1);
	CHECK_EQ(parse("# none\n \t\r\n", what), 0);
	CHECK_EQ(parse("1 -> 2 xgmi # one way\n 4\t<->  3 pcie 20 1000\r\n2 -> 1 xgmi 7", what), 0);
	node = &tree.node[1];
	CHECK(node->nio == 2 && node->np2p == 0 && node->hive);
	CHECK(node->io[1].to == 2 && node->io[1].type == TOPOLOGY_LINK_XGMI);
	CHECK(node->io[1].weight == 15 && node->io[1].mb_per_s == 50000);
	node = &tree.node[2];
	CHECK(node->nio == 2 && node->io[1].to == 1 && node->io[1].weight == 7);
	CHECK(node->hive == tree.node[1].hive);
	for (uint32_t i = 3; i <= 4; i++) {
		node = &tree.node[i];
		CHECK(node->nio == 1 && node->np2p == 1 && !node->hive);
		CHECK(node->p2p[0].to == 7 - i && node->p2p[0].type == TOPOLOGY_LINK_PCIE);
		CHECK(node->p2p[0].weight == 20 && node->p2p[0].mb_per_s == 1000);
	}
}

/* Islands are hives of their own, until a link joins them. */
static void test_hives(void)
{
	char what[LINKS_WHAT_BYTES];

	CHECK_EQ(parse("1 <-> 2 xgmi\n3 -> 4 xgmi\n2 -> 3 pcie", what), 0);
	CHECK(tree.node[1].hive && tree.node[1].hive == tree.node[2].hive);
	CHECK(tree.node[3].hive && tree.node[3].hive == tree.node[4].hive);
	CHECK(tree.node[1].hive != tree.node[3].hive);
	CHECK_EQ(parse("1 -> 2 xgmi\n3 -> 4 xgmi\n4 -> 1 xgmi", what), 0);
	for (uint32_t i = 2; i <= 4; i++)
		CHECK_EQ(tree.node[i].hive, tree.node[1].hive);
	CHECK(!tree.node[0].hive);
}

static void test_no_text(void)
{
	static const char bytes[] = "1 -> 2 xgmi\0\n";
	char what[LINKS_WHAT_BYTES];

	tree_init(&tree);
	tree_board(&tree, 2, 0);
	CHECK_EQ(links_parse(bytes, sizeof(bytes) - 1, &tree, what), -EINVAL);
}

int main(void)
{
	test_refused();
	test_accepted();
	test_hives();
	test_no_text();
	return 0;
}
