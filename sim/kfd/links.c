/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/kfd/links.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "amd/topology.h"
#include "base/parse.h"
#include "sim/kfd/tree.h"

#define LINE_BYTES 128
#define WORDS	   7 /* one more than there are */

static int links_complain(char *ret_what, unsigned int line, const char *what)
{
	snprintf(ret_what, LINKS_WHAT_BYTES, "line %u: %s", line, what);
	return -EINVAL;
}

static bool links_has(const struct tree *t, uint32_t from, uint32_t to)
{
	const struct tree_node *node = &t->node[from];

	for (uint32_t i = 0; i < node->nio; i++)
		if (node->io[i].to == to)
			return true;
	for (uint32_t i = 0; i < node->np2p; i++)
		if (node->p2p[i].to == to)
			return true;
	return false;
}

/* GPUs that xGMI joins, over others or not, are one hive. */
static void links_join(struct tree *t, uint32_t a, uint32_t b)
{
	uint64_t of_a = t->node[a].hive ? t->node[a].hive : TREE_HIVE(a);
	uint64_t of_b = t->node[b].hive ? t->node[b].hive : TREE_HIVE(b);
	uint64_t one = of_a < of_b ? of_a : of_b;

	t->node[a].hive = of_a;
	t->node[b].hive = of_b;
	for (uint32_t i = 0; i < t->n; i++)
		if (t->node[i].hive == of_a || t->node[i].hive == of_b)
			t->node[i].hive = one;
}

static int links_add(struct tree *t, uint32_t from, uint32_t to, bool xgmi, uint32_t weight,
		     uint32_t mb_per_s)
{
	if (links_has(t, from, to))
		return -EEXIST;
	if (xgmi) {
		tree_link(t, from, to, TOPOLOGY_LINK_XGMI, weight, mb_per_s);
		links_join(t, from, to);
	} else {
		tree_p2p(t, from, to, weight, mb_per_s);
	}
	return 0;
}

static uint32_t links_split(char *line, char *ret_words[WORDS])
{
	uint32_t n = 0;
	char *rest = line, *word;

	while ((word = strsep(&rest, " \t\r")))
		if (*word && n++ < WORDS)
			ret_words[n - 1] = word;
	return n;
}

static int links_parse_line(char *line, unsigned int number, struct tree *t, char *ret_what)
{
	char *words[WORDS];
	uint32_t n = links_split(line, words);
	uint64_t from, to, weight, mb_per_s = 0;
	bool both, xgmi;

	if (!n)
		return 0;
	if (n < 4 || n > 6)
		return links_complain(ret_what, number, "not a link; write it like 1 <-> 2 xgmi");
	if (parse_u64(words[0], 1, t->n - 1, &from) < 0 ||
	    parse_u64(words[2], 1, t->n - 1, &to) < 0 || from == to)
		return links_complain(ret_what, number,
				      "not two GPUs; they are numbered from 1 on");
	both = !strcmp(words[1], "<->");
	if (!both && strcmp(words[1], "->"))
		return links_complain(ret_what, number, "neither -> nor <-> between the GPUs");
	xgmi = !strcmp(words[3], "xgmi");
	if (!xgmi && strcmp(words[3], "pcie"))
		return links_complain(ret_what, number, "a link is xgmi or pcie");
	weight = xgmi ? 15 : 40;
	mb_per_s = xgmi ? 50000 : 32000;
	if ((n > 4 && parse_u64(words[4], 1, UINT32_MAX, &weight) < 0) ||
	    (n > 5 && parse_u64(words[5], 0, UINT32_MAX, &mb_per_s) < 0))
		return links_complain(ret_what, number, "weight or MB/s is not a number");
	if (links_add(t, (uint32_t)from, (uint32_t)to, xgmi, (uint32_t)weight, (uint32_t)mb_per_s) <
		    0 ||
	    (both && links_add(t, (uint32_t)to, (uint32_t)from, xgmi, (uint32_t)weight,
			       (uint32_t)mb_per_s) < 0))
		return links_complain(ret_what, number, "these GPUs have a link in that direction");
	return 0;
}

int links_parse(const char *text, size_t len, struct tree *t, char ret_what[LINKS_WHAT_BYTES])
{
	unsigned int number = 0;
	int r = 0;

	while (r == 0 && len) {
		const char *end = memchr(text, '\n', len);
		size_t line = end ? (size_t)(end - text) : len;
		char copy[LINE_BYTES];

		number++;
		if (line >= sizeof(copy) || memchr(text, '\0', line))
			return links_complain(ret_what, number, "too long, or no text");
		memcpy(copy, text, line);
		copy[line] = '\0';
		copy[strcspn(copy, "#")] = '\0';
		r = links_parse_line(copy, number, t, ret_what);
		line += end != NULL;
		text += line;
		len -= line;
	}
	return r;
}
