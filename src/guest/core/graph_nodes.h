/* SPDX-License-Identifier: Apache-2.0 */
/* The nodes of a graph, in memory from mmap: hooks may run inside the program's own malloc. */
#ifndef ALLOT_GUEST_CORE_GRAPH_NODES_H
#define ALLOT_GUEST_CORE_GRAPH_NODES_H

#include <errno.h>
#include <sys/mman.h>

#include "base/pages.h"
#include "guest/core/guest.h"

struct graph_nodes {
	CUgraphNode *node;
	size_t n, bytes; /* nodes; bytes of the mapping, 0: there is none */
};

/* No nodes where the driver answers with an error, which is its own to name. -ENOMEM. */
static inline int graph_nodes_read(CUgraph graph, struct graph_nodes *ret)
{
	*ret = (struct graph_nodes){NULL};
	if (DRIVER(cuGraphGetNodes, (graph, NULL, &ret->n)) || !ret->n) {
		ret->n = 0;
		return 0;
	}
	ret->node = pages_map(ret->n * sizeof(*ret->node));
	if (!ret->node)
		return -ENOMEM;
	ret->bytes = ret->n * sizeof(*ret->node);
	if (DRIVER(cuGraphGetNodes, (graph, ret->node, &ret->n)))
		ret->n = 0;
	return 0;
}

static inline void graph_nodes_free(struct graph_nodes *nodes)
{
	if (nodes->bytes)
		munmap(nodes->node, nodes->bytes);
}

#endif
