/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
#include "amd/topology.h"

#include <inttypes.h>
#include <stdio.h>

void topology_free(struct topology *topology)
{
	if (!topology)
		return;
	for (uint32_t i = 0; i < topology->node_count; i++) {
		free(topology->nodes[i].banks);
		free(topology->nodes[i].caches);
		free(topology->nodes[i].links);
	}
	free(topology->nodes);
	free(topology);
}

const struct topology_node *topology_gpu(const struct topology *topology, uint32_t gpu_id)
{
	for (uint32_t i = 0; gpu_id && i < topology->node_count; i++)
		if (topology->nodes[i].gpu_id == gpu_id)
			return &topology->nodes[i];
	return NULL;
}

const struct topology_link *topology_link(const struct topology *topology, uint32_t from,
					  uint32_t to)
{
	const struct topology_link *best = NULL;
	const struct topology_node *node;

	if (from >= topology->node_count)
		return NULL;
	node = &topology->nodes[from];
	for (uint32_t i = 0; i < node->link_count; i++)
		if (node->links[i].to == to && (!best || node->links[i].weight < best->weight))
			best = &node->links[i];
	return best;
}

bool topology_can_reach(const struct topology *topology, uint32_t from, uint32_t to)
{
	if (from >= topology->node_count || to >= topology->node_count)
		return false;
	return from == to || topology_link(topology, from, to);
}

uint64_t topology_vram_bytes(const struct topology_node *node)
{
	uint64_t sum = 0;

	for (uint32_t i = 0; i < node->bank_count; i++) {
		const struct topology_bank *bank = &node->banks[i];

		if (bank->heap != TOPOLOGY_HEAP_VRAM_VISIBLE && bank->heap != TOPOLOGY_HEAP_VRAM)
			continue;
		if (__builtin_add_overflow(sum, bank->size_bytes, &sum))
			return UINT64_MAX;
	}
	return sum;
}

void topology_gfx_name(const struct topology_node *node, char ret_name[TOPOLOGY_GFX_BYTES])
{
	uint32_t v = node->gfx_version;

	if (v)
		snprintf(ret_name, TOPOLOGY_GFX_BYTES, "gfx%" PRIu32 "%" PRIx32 "%" PRIx32,
			 v / 10000, v / 100 % 100, v % 100);
	else
		ret_name[0] = '\0';
}

/* Boards that have partitions are function 0 of their place: GFX 9.4 and 9.5. */
static uint32_t topology_partition_in_function(const struct topology_node *node)
{
	return node->gfx_version >= 90400 && node->gfx_version < 90600 ? node->location & 7 : 0;
}

uint32_t topology_partition(const struct topology_node *node)
{
	uint32_t high = node->location >> 28;

	return high ? high : topology_partition_in_function(node);
}

uint32_t topology_place(const struct topology_node *node)
{
	return (node->location & 0xffff) - topology_partition_in_function(node);
}

void topology_pci_name(const struct topology_node *node, char ret_name[TOPOLOGY_PCI_BYTES])
{
	uint32_t place = topology_place(node);

	snprintf(ret_name, TOPOLOGY_PCI_BYTES, "%04" PRIx32 ":%02x:%02x.%x", node->domain,
		 place >> 8 & 0xff, place >> 3 & 0x1f, place & 7);
}

const char *topology_link_name(uint32_t type)
{
	switch (type) {
	case TOPOLOGY_LINK_UNDEFINED:
		return "undefined";
	case TOPOLOGY_LINK_HYPERTRANSPORT:
		return "HyperTransport";
	case TOPOLOGY_LINK_PCIE:
		return "PCIe";
	case TOPOLOGY_LINK_QPI:
		return "QPI";
	case TOPOLOGY_LINK_XGMI:
		return "xGMI";
	}
	return "other";
}
