/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <string.h>

#include "amd/topology_parse.h"
#include "tests/check.h"

static char what[TOPOLOGY_WHAT_BYTES];

#define NEEDED                                                                                     \
	"cpu_cores_count 0\nsimd_count 440\nmem_banks_count 1\ncaches_count 2\n"                   \
	"io_links_count 3\nlocation_id 49152\ndrm_render_minor 128\n"

static void test_number(void)
{
	uint32_t n = 7;

	CHECK_EQ(topology_parse_number("0\n", 2, 10, &n, what), 0);
	CHECK_EQ(n, 0);
	CHECK_EQ(topology_parse_number("10\n", 3, 10, &n, what), 0);
	CHECK_EQ(n, 10);
	n = 7;
	CHECK_EQ(topology_parse_number("11\n", 3, 10, &n, what), -ERANGE);
	CHECK_EQ(topology_parse_number("99999999999999999999999999\n", 27, 10, &n, what), -ERANGE);
	CHECK_EQ(topology_parse_number("9999999999999999999999999x\n", 27, 10, &n, what), -EINVAL);
	CHECK_EQ(topology_parse_number("\n", 1, 10, &n, what), -EINVAL);
	CHECK_EQ(topology_parse_number(" 1\n", 3, 10, &n, what), -EINVAL);
	CHECK_EQ(topology_parse_number("0x1\n", 4, 10, &n, what), -EINVAL);
	CHECK_EQ(topology_parse_number("1\n\n", 3, 10, &n, what), -EINVAL);
	CHECK_EQ(topology_parse_number("1\0\n", 3, 10, &n, what), -EINVAL);
	CHECK_EQ(topology_parse_number("1", 1, 10, &n, what), -ENODATA);
	CHECK_EQ(topology_parse_number("", 0, 10, &n, what), -ENODATA);
	CHECK_EQ(n, 7);
}

static int node(const char *text, struct topology_node *ret)
{
	return topology_parse_node(text, strlen(text), ret, what);
}

/* What kernels of all ages write is enough, and what later ones add is passed over. */
static void test_node(void)
{
	struct topology_node n = {.id = 4, .gpu_id = 5, .xccs = 9, .hive_id = 9};

	CHECK_EQ(node(NEEDED, &n), 0);
	CHECK_EQ(n.simds, 440);
	CHECK_EQ(n.location, 49152);
	CHECK_EQ(n.p2p_link_count, TOPOLOGY_ABSENT);
	CHECK_EQ(n.xccs, 1);
	CHECK_EQ(n.hive_id, 0);
	CHECK_EQ(n.id, 4);
	CHECK_EQ(n.gpu_id, 5);
	CHECK_EQ(node(NEEDED "num_xcc 8\nhive_id 18446744073709551615\nnovelty a,b c\n"
			     "p2p_links_count 0\n",
		      &n),
		 0);
	CHECK_EQ(n.xccs, 8);
	CHECK_EQ(n.hive_id, UINT64_MAX);
	CHECK_EQ(n.p2p_link_count, 0);
}

/* Nothing is written, and the line is told. */
static void test_node_errors(void)
{
	static const struct {
		const char *text;
		int err;
		const char *words;
	} cases[] = {
		{NEEDED "num_xcc 4294967296\n", -ERANGE, "line 8: num_xcc is out of range"},
		{NEEDED "hive_id 18446744073709551616\n", -ERANGE, "hive_id"},
		{NEEDED "hive_id 00000000000000000000000000001\n", -ERANGE, "hive_id"},
		{NEEDED "num_xcc -1\n", -EINVAL, "\"-1\""},
		{NEEDED "num_xcc  1\n", -EINVAL, "\" 1\""},
		{NEEDED "num_xcc 1 \n", -EINVAL, "\"1 \""},
		{NEEDED "num_xcc 1\r\n", -EINVAL, "\"1?\""},
		{NEEDED "num_xcc \n", -EINVAL, "\"\""},
		{NEEDED "num_xcc 1\nnum_xcc 1\n", -EINVAL, "line 9: num_xcc a second time"},
		{NEEDED "\n", -EINVAL, "line 8: not a name"},
		{NEEDED " 1\n", -EINVAL, "line 8: not a name"},
		{NEEDED "novelty\n", -EINVAL, "\"novelty\""},
		{NEEDED "num_xcc 1", -ENODATA, "line 8 has no end: \"num_xcc 1\""},
		{"simd_count 440\n", -ENODATA, "cpu_cores_count is missing"},
		{NEEDED "a2345678901234567890123456789012345678901234567890123456789abcde 1\n",
		 -EINVAL, "line 8: a name of more than 63 bytes: \"a23456"},
	};
	struct topology_node n, before;

	memset(&n, 0x55, sizeof(n));
	before = n;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		int r = node(cases[i].text, &n);

		if (r != cases[i].err || !strstr(what, cases[i].words))
			fprintf(stderr, "case %zu: %d: %s\n", i, r, what);
		CHECK_EQ(r, cases[i].err);
		CHECK(strstr(what, cases[i].words));
		CHECK(!memcmp(&n, &before, sizeof(n)));
	}
}

static void test_parts(void)
{
	static const char bank[] = "heap_type 1\nsize_in_bytes 68702699520\nmem_clk_max 1600\n";
	static const char cache[] = "level 2\nsize 8192\nsibling_map 1,1,0,1\n";
	static const char link[] = "type 11\nnode_from 1\nnode_to 2\nweight 15\n"
				   "max_bandwidth 50000\n";
	struct topology_cache c = {.latency_ns = 3};
	struct topology_link l = {.min_mb_per_s = 3};
	struct topology_bank b = {.flags = 3};

	CHECK_EQ(topology_parse_bank(bank, sizeof(bank) - 1, &b, what), 0);
	CHECK_EQ(b.size_bytes, 68702699520);
	CHECK_EQ(b.clock_mhz, 1600);
	CHECK_EQ(b.flags, 0);
	CHECK_EQ(topology_parse_cache(cache, sizeof(cache) - 1, &c, what), 0);
	CHECK_EQ(c.level, 2);
	CHECK_EQ(c.size_kib, 8192);
	CHECK_EQ(c.latency_ns, 0);
	CHECK_EQ(topology_parse_link(link, sizeof(link) - 1, &l, what), 0);
	CHECK_EQ(l.type, TOPOLOGY_LINK_XGMI);
	CHECK_EQ(l.to, 2);
	CHECK_EQ(l.min_mb_per_s, 0);
	CHECK_EQ(l.max_mb_per_s, 50000);
	/* Each line is needed, but for the last. */
	for (size_t cut = sizeof(link) - 2; cut > 0; cut--) {
		struct topology_link none = {.to = 77};
		int whole = cut == strlen(link) - strlen("max_bandwidth 50000\n");

		CHECK_EQ(topology_parse_link(link, cut, &none, what), whole ? 0 : -ENODATA);
		CHECK_EQ(none.to, whole ? 2 : 77);
	}
}

int main(void)
{
	test_number();
	test_node();
	test_node_errors();
	test_parts();
	return 0;
}
