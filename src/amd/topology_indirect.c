/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
#include "amd/topology_indirect.h"

/* A PCIe link of more than this goes by way of a CPU itself; one over QPI, to another socket. */
#define DIRECT_WEIGHT 20

/* As the older kernels list them: the first in that direction, not the closest. */
static const struct topology_link *topology_indirect_first_link(const struct topology *t,
								uint32_t from, uint32_t to)
{
	const struct topology_node *node = &t->nodes[from];

	for (uint32_t i = 0; i < node->link_count; i++)
		if (node->links[i].to == to)
			return &node->links[i];
	return NULL;
}

/* The CPU that a GPU is attached to; a CPU is its own. False where there is none. */
static bool topology_indirect_own_cpu(const struct topology *t, uint32_t node, uint32_t *ret_cpu)
{
	const struct topology_node *n = &t->nodes[node];

	if (!n->gpu_id) {
		*ret_cpu = node;
		return true;
	}
	for (uint32_t i = 0; i < n->link_count; i++)
		if (n->links[i].type == TOPOLOGY_LINK_PCIE && n->links[i].weight <= DIRECT_WEIGHT) {
			*ret_cpu = n->links[i].to;
			return true;
		}
	return false;
}

static bool topology_indirect_cpu_sees(const struct topology_node *gpu)
{
	for (uint32_t i = 0; i < gpu->bank_count; i++)
		if (gpu->banks[i].heap == TOPOLOGY_HEAP_VRAM_VISIBLE)
			return true;
	return false;
}

static bool topology_indirect_same_hive(const struct topology_node *a,
					const struct topology_node *b)
{
	return a->hive_id && a->hive_id == b->hive_id;
}

/* One hop more. Weights are the kernel's 32 bits: a sum of three may not fit. */
static const struct topology_link *topology_indirect_take_hop(const struct topology *t,
							      uint32_t from, uint32_t to,
							      struct topology_link *way)
{
	const struct topology_link *hop = topology_indirect_first_link(t, from, to);

	if (hop && __builtin_add_overflow(way->weight, hop->weight, &way->weight))
		way->weight = UINT32_MAX;
	return hop;
}

/*
 * The way from -> its CPU -> the other's CPU -> to, of which a CPU at either end is its own part.
 * False where there is none, or a better one.
 */
static bool topology_indirect_find_way(const struct topology *t, uint32_t from, uint32_t to,
				       struct topology_link *ret)
{
	const struct topology_node *a = &t->nodes[from], *b = &t->nodes[to];
	struct topology_link way = {.from = from, .to = to, .indirect = 1};
	const struct topology_link *hop = NULL, *sockets = NULL;
	uint32_t cpu_a, cpu_b;

	if ((!a->gpu_id && !b->gpu_id) || topology_indirect_same_hive(a, b) ||
	    topology_indirect_first_link(t, from, to))
		return false;
	if (!topology_indirect_own_cpu(t, from, &cpu_a) ||
	    !topology_indirect_own_cpu(t, to, &cpu_b) ||
	    (b->gpu_id && !topology_indirect_cpu_sees(b)))
		return false;
	if (from != cpu_a && !(hop = topology_indirect_take_hop(t, from, cpu_a, &way)))
		return false;
	if (cpu_a != cpu_b && !(sockets = topology_indirect_take_hop(t, cpu_a, cpu_b, &way)))
		return false;
	if (a->gpu_id && b->gpu_id && sockets && sockets->type == TOPOLOGY_LINK_QPI &&
	    sockets->weight > DIRECT_WEIGHT)
		return false;
	if (to != cpu_b && !(hop = topology_indirect_take_hop(t, cpu_b, to, &way)))
		return false;
	way.type = sockets ? sockets->type : hop->type;
	*ret = way;
	return true;
}

int topology_add_indirect(struct topology *t)
{
	for (uint32_t i = 0; i < t->node_count; i++) {
		struct topology_node *node = &t->nodes[i];
		size_t room = (size_t)node->link_count + t->node_count;
		struct topology_link *links = realloc(node->links, room * sizeof(*links));

		if (!links)
			return -ENOMEM;
		node->links = links;
		/* A link that is added leads away from no CPU's own GPU: it is no hop of another way. */
		for (uint32_t j = 0; j < t->node_count; j++)
			if (i != j && topology_indirect_find_way(t, i, j, &links[node->link_count]))
				node->link_count++;
	}
	return 0;
}
