/* SPDX-License-Identifier: Apache-2.0 */
/* Links of an emulated AMD machine: no GPU has two to another, or one to itself. */
#include <errno.h>
#include <string.h>

#include "sim/kfd/links.h"
#include "sim/kfd/tree.h"
#include "tests/fuzz/fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct tree t;
	char what[LINKS_WHAT_BYTES] = "";
	int r;

	tree_init(&t);
	tree_board(&t, 4, 0);
	r = links_parse((const char *)data, size, &t, what);
	MUST(r == 0 ? !what[0] : r == -EINVAL && !strncmp(what, "line ", 5));
	for (uint32_t i = 1; i < t.n; i++) {
		const struct tree_node *node = &t.node[i];
		uint32_t seen = 1u << i;

		MUST(node->nio + node->np2p <= t.n - 1);
		for (uint32_t j = 0; j < node->nio + node->np2p; j++) {
			uint32_t to = j < node->nio ? node->io[j].to : node->p2p[j - node->nio].to;

			MUST(to < t.n && !(seen & 1u << to));
			seen |= 1u << to;
		}
	}
	return 0;
}
