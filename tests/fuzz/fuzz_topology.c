/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The files of KFD's topology: the first byte of the input says which of them the rest is. Nodes
 * and links that are read are then asked about, as nodes of a topology with that one link.
 */
#include <errno.h>
#include <string.h>

#include "amd/topology_indirect.h"
#include "amd/topology_parse.h"
#include "tests/fuzz/fuzz.h"

#define NODES 4

static char what[TOPOLOGY_WHAT_BYTES];

/* A GPU, a CPU, and so on: the link goes where its numbers say, by as much as there is. */
static void ask(const struct topology_node *node, const struct topology_link *link)
{
	struct topology_node nodes[NODES];
	struct topology t = {.node_count = NODES, .nodes = nodes};

	for (uint32_t i = 0; i < NODES; i++) {
		nodes[i] = *node;
		nodes[i].gpu_id = i % 2 ? 0 : i + 1;
		nodes[i].bank_count = 0;
		nodes[i].link_count = 1;
		nodes[i].links = malloc(sizeof(*link));
		MUST(nodes[i].links);
		*nodes[i].links = *link;
		nodes[i].links->to = (link->to + i) % NODES;
		t.gpu_count += nodes[i].gpu_id != 0;
	}
	MUST(topology_add_indirect(&t) == 0);
	for (uint32_t i = 0; i < NODES; i++) {
		MUST(topology_can_reach(&t, i, i));
		for (uint32_t j = 0; j < NODES; j++)
			MUST(i == j || topology_can_reach(&t, j, i) == !!topology_link(&t, j, i));
	}
	for (uint32_t i = 0; i < NODES; i++)
		free(nodes[i].links);
}

static int a_number(const char *text, size_t len)
{
	uint32_t n = 7;
	int r = topology_parse_number(text, len, 1000, &n, what);

	MUST(r < 0 ? n == 7 : n <= 1000);
	return r;
}

static int a_node(const char *text, size_t len)
{
	const struct topology_link link = {.type = TOPOLOGY_LINK_PCIE, .to = 1, .weight = 20};
	char gfx[TOPOLOGY_GFX_BYTES], pci[TOPOLOGY_PCI_BYTES];
	struct topology_node node = {.id = 7};
	int r = topology_parse_node(text, len, &node, what);

	MUST(node.id == 7);
	if (r < 0)
		return r;
	MUST(node.bank_count <= TOPOLOGY_PARTS && node.cache_count <= TOPOLOGY_PARTS);
	MUST(node.io_link_count <= TOPOLOGY_PARTS);
	MUST(node.p2p_link_count <= TOPOLOGY_PARTS || node.p2p_link_count == TOPOLOGY_ABSENT);
	topology_gfx_name(&node, gfx);
	topology_pci_name(&node, pci);
	MUST(memchr(gfx, 0, sizeof(gfx)) && memchr(pci, 0, sizeof(pci)));
	ask(&node, &link);
	return 0;
}

static int a_bank(const char *text, size_t len)
{
	struct topology_bank bank[2] = {{.flags = 7}, {.flags = 7}};
	struct topology_node node = {.bank_count = 2, .banks = bank};
	int r = topology_parse_bank(text, len, &bank[0], what);

	MUST(r == 0 || bank[0].flags == 7);
	bank[1] = bank[0];
	MUST(topology_vram_bytes(&node) >=
	     topology_vram_bytes(&(struct topology_node){.bank_count = 1, .banks = bank}));
	return r;
}

static int a_cache(const char *text, size_t len)
{
	struct topology_cache cache = {.type = 7, .level = 7};
	int r = topology_parse_cache(text, len, &cache, what);

	MUST(r == 0 || (cache.type == 7 && cache.level == 7));
	return r;
}

static int a_link(const char *text, size_t len)
{
	const struct topology_node node = {.simds = 1};
	struct topology_link link = {.to = 777};
	int r = topology_parse_link(text, len, &link, what);

	if (r < 0) {
		MUST(link.to == 777);
		return r;
	}
	MUST(link.from < TOPOLOGY_NODES && link.to < TOPOLOGY_NODES);
	MUST(topology_link_name(link.type));
	ask(&node, &link);
	return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static int (*const parse[])(const char *text, size_t len) = {a_number, a_node, a_bank,
								     a_cache, a_link};
	int r;

	if (!size)
		return 0;
	memset(what, 0, sizeof(what));
	r = parse[data[0] % (sizeof(parse) / sizeof(parse[0]))]((const char *)data + 1, size - 1);
	MUST(r == 0 || r == -EINVAL || r == -ERANGE || r == -ENODATA);
	MUST(!r == !what[0] && memchr(what, 0, sizeof(what)));
	for (const char *c = what; *c; c++)
		MUST(*c >= 0x20 && *c <= 0x7e);
	return 0;
}
