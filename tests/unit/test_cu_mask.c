/* SPDX-License-Identifier: Apache-2.0 */
/*
 * CU masks: exact, symmetric as the hardware has it, disjoint, stable; over many geometries and
 * tenants that come, go and change. What a mask means is said by a model of the kernel's own
 * spreading of bits, which shares no code with what is tested.
 */
#include <errno.h>
#include <string.h>

#include "amd/cu_mask.h"
#include "tests/check.h"

#define TENANTS 12

static const struct topology_node mi210 = {.simds = 440, .simds_per_cu = 4, .arrays = 8,
					   .arrays_per_engine = 1, .xccs = 1, .gfx_version = 90010};
static const struct topology_node mi300x = {.simds = 1216, .simds_per_cu = 4, .arrays = 32,
					    .arrays_per_engine = 1, .xccs = 8,
					    .gfx_version = 90402};
static const struct topology_node navi21 = {.simds = 160, .simds_per_cu = 2, .arrays = 8,
					    .arrays_per_engine = 2, .xccs = 1,
					    .gfx_version = 100300};

static struct cu_geometry geometry_of(const struct topology_node *node)
{
	struct cu_geometry g;

	CHECK_EQ(cu_geometry_of_node(node, &g), 0);
	return g;
}

static struct cu_map map_of(const struct topology_node *node)
{
	struct cu_geometry g = geometry_of(node);
	struct cu_map map;

	CHECK_EQ(cu_map_init(&g, &map), 0);
	return map;
}

static uint32_t cus_of(const struct cu_mask *mask)
{
	uint32_t n = 0;

	for (int i = 0; i < CU_MASK_WORDS; i++)
		n += (uint32_t)__builtin_popcount(mask->word[i]);
	return n;
}

static uint32_t moved(const struct cu_mask *a, const struct cu_mask *b)
{
	uint32_t n = 0;

	for (int i = 0; i < CU_MASK_WORDS; i++)
		n += (uint32_t)__builtin_popcount(a->word[i] & ~b->word[i]);
	return n;
}

/* The kernel: units that a mask switches on, by XCC, engine and array. */
struct on {
	uint32_t cus[CU_XCCS][CU_ENGINES][CU_ARRAYS];
};

static struct on kernel(const struct cu_geometry *g, const struct cu_mask *mask)
{
	uint32_t step = g->pairs ? 2 : 1, total = 0;
	struct on on = {{{{0}}}};

	for (uint32_t x = 0; x < g->xccs; x++)
		for (uint32_t i = 0; i < g->engines * g->arrays; i++)
			total += g->cus[x][i % g->engines][i / g->engines];
	for (uint32_t x = 0; x < g->xccs; x++) {
		uint32_t bit = x;

		for (uint32_t cu = 0; cu < CU_PER_ARRAY; cu += step)
			for (uint32_t i = 0; i < g->engines * g->arrays && bit < total; i++) {
				uint32_t e = i % g->engines, a = i / g->engines;

				if (g->cus[x][e][a] <= cu)
					continue;
				for (uint32_t s = 0; s < step; s++)
					on.cus[x][e][a] +=
						mask->word[(bit + s) / 32] >> (bit + s) % 32 & 1;
				bit += step * g->xccs;
			}
	}
	return on;
}

static struct cu_share alone(const struct cu_map *map, uint32_t permille)
{
	struct cu_share share = {.permille = permille};

	CHECK_EQ(cu_mask_allot(map, &share, 1), 0);
	CHECK(share.alone);
	CHECK_EQ(share.cus, cus_of(&share.mask));
	return share;
}

static void test_exact(void)
{
	struct cu_map map = map_of(&mi210);
	struct cu_share s = alone(&map, 250);

	CHECK_EQ(map.units, 110);
	CHECK_EQ(cu_mask_bits(&map), 128);
	CHECK_EQ(s.cus, 27);
	CHECK_EQ(s.mask.word[0], 0x07ffffff);
	CHECK_EQ(s.duty_permille, 1000);
	CHECK_EQ(alone(&map, 500).cus, 55);
	CHECK_EQ(alone(&map, 1000).cus, 110);
	CHECK_EQ(alone(&map, 10).cus, 1);
	s = alone(&map, 9); /* 0.99 of a unit */
	CHECK(s.cus == 1 && s.duty_permille == 990);
	s = alone(&map, 1);
	CHECK(s.cus == 1 && s.duty_permille == 110);
}

static void test_pairs(void)
{
	struct cu_map map = map_of(&navi21);
	struct cu_share s = alone(&map, 250);

	CHECK(map.units == 40 && map.unit_bits == 2);
	CHECK_EQ(s.cus, 20);
	CHECK_EQ(s.mask.word[0], 0xfffff);
	CHECK_EQ(alone(&map, 270).cus, 20); /* 10.8 pairs */
	s = alone(&map, 10);
	CHECK(s.cus == 2 && s.mask.word[0] == 3 && s.duty_permille == 400);
}

/* None of the XCCs may be without units. */
static void test_xccs(void)
{
	struct cu_map map = map_of(&mi300x);
	struct cu_share s = alone(&map, 250);

	CHECK(map.units == 304 && map.xccs == 8);
	CHECK_EQ(s.cus, 76);
	s = alone(&map, 20); /* 6.08 units */
	CHECK(s.cus == 8 && s.mask.word[0] == 0xff && s.duty_permille == 760);
	CHECK_EQ(alone(&map, 27).duty_permille, 1000);
}

/* Where shares do not fit, what two have is no more than what is too much. */
static void test_too_much(void)
{
	struct cu_map map = map_of(&mi210);
	struct cu_share shares[2] = {{.permille = 600}, {.permille = 600}};

	for (int i = 0; i < 4; i++) {
		CHECK_EQ(cu_mask_allot(&map, shares, 2), 0);
		CHECK(shares[0].cus == 66 && shares[1].cus == 66);
		CHECK(!shares[0].alone && !shares[1].alone);
		CHECK_EQ(moved(&shares[0].mask, &shares[1].mask), 110 - 66);
		if (i % 2) /* both have the same, or what they were given */
			shares[1].mask = shares[0].mask;
	}
	shares[1].permille = 400;
	CHECK_EQ(cu_mask_allot(&map, shares, 2), 0);
	CHECK(shares[0].alone && shares[1].alone);
}

/* What nobody has is as symmetric as what they have, so that the next one finds what it needs. */
static void test_rest(void)
{
	struct topology_node node = mi210;
	struct cu_share shares[8] = {{0}};
	struct cu_mask all = {{0}};
	struct cu_geometry g;
	struct cu_map map;
	struct on on;

	node.simds = 448; /* 14 in each of 8 engines */
	g = geometry_of(&node);
	map = map_of(&node);
	for (int i = 0; i < 8; i++)
		shares[i].permille = 85; /* 9.52 units: one engine gives two */
	CHECK_EQ(cu_mask_allot(&map, shares, 8), 0);
	for (int i = 0; i < 8 * CU_MASK_WORDS; i++)
		all.word[i / 8] |= shares[i % 8].mask.word[i / 8];
	on = kernel(&g, &all);
	for (int e = 0; e < 8; e++)
		CHECK_EQ(on.cus[0][e][0], 9);
}

/* An XCC that has hardly any is still one that a queue needs. */
static void test_small_xcc(void)
{
	struct cu_geometry g = {.xccs = 3, .engines = 1, .arrays = 1,
				.cus = {{{10}}, {{10}}, {{1}}}};
	struct cu_share shares[2] = {{.permille = 150}, {.permille = 150}};
	struct cu_map map;
	struct on on;

	CHECK_EQ(cu_map_init(&g, &map), 0);
	CHECK(map.units == 15 && map.slots == 21); /* the rest of the larger ones has no bits */
	shares[0].permille = shares[1].permille = 200;
	CHECK_EQ(cu_mask_allot(&map, shares, 2), 0);
	for (int i = 0; i < 2; i++) {
		on = kernel(&g, &shares[i].mask);
		CHECK(on.cus[0][0][0] == 1 && on.cus[1][0][0] == 1 && on.cus[2][0][0] == 1);
		CHECK(!shares[i].alone);
	}
}

static void test_impossible(void)
{
	struct topology_node node = navi21;
	struct cu_geometry g = geometry_of(&mi210), bad = g;
	struct cu_map map = map_of(&mi210);
	struct cu_share s = {.permille = 0};

	CHECK_EQ(cu_mask_allot(&map, &s, 1), -EINVAL);
	s.permille = 1001;
	CHECK_EQ(cu_mask_allot(&map, &s, 1), -EINVAL);
	CHECK_EQ(cu_mask_allot(&map, NULL, 0), 0);
	node.xccs = 2;
	g = geometry_of(&node);
	CHECK_EQ(cu_map_init(&g, &map), -ENOTSUP); /* pairs, and more than one XCC */
	node.xccs = 3;
	CHECK_EQ(cu_geometry_of_node(&node, &g), -EINVAL);
	node.xccs = 0;
	CHECK_EQ(cu_geometry_of_node(&node, &g), -EINVAL);
	node = mi210;
	node.simds = 0;
	CHECK_EQ(cu_geometry_of_node(&node, &g), -EINVAL);
	node.simds = UINT32_MAX;
	CHECK_EQ(cu_geometry_of_node(&node, &g), -EINVAL);
	node.simds_per_cu = 0;
	CHECK_EQ(cu_geometry_of_node(&node, &g), -EINVAL);
	bad.engines = CU_ENGINES + 1;
	CHECK_EQ(cu_map_init(&bad, &map), -EINVAL);
	bad = (struct cu_geometry){.xccs = 1, .engines = 1, .arrays = 1};
	CHECK_EQ(cu_map_init(&bad, &map), -ENOTSUP);
	bad.pairs = true;
	bad.cus[0][0][0] = 1; /* half a pair */
	CHECK_EQ(cu_map_init(&bad, &map), -ENOTSUP);
}

/* Which arrays lack units is known from INFO. */
static void test_refine(void)
{
	/* Engines 4 to 7 beside 0 to 3; the second and the last one lack one of 14. */
	const uint32_t bitmap[4][4] = {
		{0x3fff, 0x3fff}, {0x3ffe, 0x3fff}, {0x3fff, 0x3fff}, {0x3fff, 0x1fff}};
	const uint32_t wrong[4][4] = {{0x3fff}};
	struct cu_geometry g = geometry_of(&mi210), before = g;

	CHECK_EQ(cu_geometry_refine(&g, &mi210, wrong), -EINVAL);
	CHECK(!memcmp(&g, &before, sizeof(g)));
	CHECK_EQ(cu_geometry_refine(&g, &mi210, bitmap), 0);
	CHECK(g.cus[0][0][0] == 14 && g.cus[0][1][0] == 13 && g.cus[0][6][0] == 14 &&
	      g.cus[0][7][0] == 13);
	g = geometry_of(&mi300x);
	CHECK_EQ(cu_geometry_refine(&g, &mi300x, bitmap), -EINVAL);
}

static void test_narrow(void)
{
	struct cu_map map = map_of(&mi210), pairs = map_of(&navi21), xccs = map_of(&mi300x);
	struct cu_mask own = alone(&map, 250).mask, got;
	const uint32_t low[4] = {0xff}, other[4] = {0xf0000000, 0xff}, half[2] = {0x1};

	CHECK_EQ(cu_mask_narrow(&map, &own, low, 128, &got), 0);
	CHECK(got.word[0] == 0xff && cus_of(&got) == 8);
	CHECK_EQ(cu_mask_narrow(&map, &own, other, 128, &got), 0);
	CHECK(!memcmp(&got, &own, sizeof(own)));
	CHECK_EQ(cu_mask_narrow(&map, &own, low, 0, &got), -EINVAL);
	CHECK_EQ(cu_mask_narrow(&map, &own, low, 31, &got), -EINVAL);
	own = alone(&pairs, 500).mask;
	CHECK_EQ(cu_mask_narrow(&pairs, &own, half, 64, &got), -EINVAL);
	CHECK_EQ(cu_mask_narrow(&pairs, &own, low, 64, &got), 0);
	CHECK_EQ(cus_of(&got), 8);
	own = alone(&xccs, 500).mask;
	CHECK_EQ(cu_mask_narrow(&xccs, &own, half, 32, &got), 0); /* one XCC of eight */
	CHECK(!memcmp(&got, &own, sizeof(own)));
}

static uint64_t seed = 1;

static uint32_t below(uint32_t n)
{
	seed = seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
	return (uint32_t)(seed >> 33) % n;
}

/* Of a part with `units` of `total`, a tenant of `wanted` has its share, to less than one. */
static void check_part(uint32_t has, uint32_t units, uint32_t wanted, uint32_t total)
{
	CHECK(has * total < wanted * units + total);
	CHECK(has * total + total > wanted * units);
}

static void check_symmetric(const struct cu_geometry *g, const struct cu_map *map,
			    const struct cu_share *share)
{
	struct on on = kernel(g, &share->mask);
	uint32_t total = map->units * map->unit_bits, sum = 0;

	for (uint32_t x = 0; x < g->xccs; x++) {
		uint32_t in_xcc = 0, xcc = 0;

		for (uint32_t e = 0; e < g->engines; e++) {
			uint32_t in_engine = 0, engine = 0;

			for (uint32_t a = 0; a < g->arrays; a++) {
				in_engine += on.cus[x][e][a];
				engine += g->cus[x][e][a];
			}
			check_part(in_engine / map->unit_bits, engine / map->unit_bits,
				   share->cus / map->unit_bits, total / map->unit_bits);
			in_xcc += in_engine;
			xcc += engine;
		}
		check_part(in_xcc / map->unit_bits, xcc / map->unit_bits,
			   share->cus / map->unit_bits, total / map->unit_bits);
		CHECK(in_xcc > 0);
		sum += in_xcc;
	}
	CHECK_EQ(sum, share->cus);
}

static void check_all(const struct cu_geometry *g, const struct cu_map *map,
		      const struct cu_share *shares, uint32_t n)
{
	uint32_t sum = 0;

	for (uint32_t i = 0; i < n; i++) {
		uint32_t fits = map->units * shares[i].permille / 1000;
		uint32_t units = fits < map->xccs ? map->xccs : fits;

		CHECK_EQ(shares[i].cus, units * map->unit_bits);
		CHECK_EQ(cus_of(&shares[i].mask), shares[i].cus);
		CHECK_EQ(shares[i].duty_permille < 1000, fits < map->xccs);
		check_symmetric(g, map, &shares[i]);
		sum += units;
	}
	for (uint32_t i = 0; i < n; i++) {
		uint32_t common = 0;

		for (uint32_t j = 0; j < n; j++)
			if (j != i)
				common += shares[i].cus - moved(&shares[i].mask, &shares[j].mask);
		CHECK_EQ(shares[i].alone, !common);
		CHECK(sum > map->units || !common);
	}
}

/* Engines that are alike in one XCC, and of which some lack a unit or two. */
static struct cu_geometry any_geometry(void)
{
	struct cu_geometry g = {.pairs = below(3) == 0};
	uint32_t most = 4 + below(13), lack = below(3), step;

	g.xccs = g.pairs || below(2) ? 1 : 2 + below(7);
	g.engines = 1 + below(g.xccs > 4 ? 4 : 8);
	g.arrays = 1 + below(2);
	step = g.pairs ? 2 : 1;
	if (g.xccs > 1) /* so many that each has a bit */
		lack = 0;
	for (uint32_t x = 0; x < g.xccs; x++)
		for (uint32_t e = 0; e < g.engines; e++)
			for (uint32_t a = 0; a < g.arrays; a++)
				g.cus[x][e][a] = (most - below(lack + 1)) / step * step;
	return g;
}

/* That a mask can express. */
static uint32_t least_permille(const struct cu_map *map)
{
	return 1000 * map->xccs / map->units + 1;
}

static bool is_even(const struct cu_geometry *g)
{
	for (uint32_t x = 0; x < g->xccs; x++)
		for (uint32_t i = 0; i < g->engines * g->arrays; i++)
			if (g->cus[x][i % g->engines][i / g->engines] != g->cus[0][0][0])
				return false;
	return true;
}

/*
 * One tenant changes its share, as long as all fit. Where parts are alike, who is to have less
 * gives some of what it had, and nobody else moves. Otherwise, and when one is to have more, not
 * much more changes hands than has to.
 */
static void change_one(const struct cu_geometry *g, const struct cu_map *map,
			   struct cu_share *shares, uint32_t n)
{
	struct cu_share before[TENANTS];
	uint32_t i = below(n), lost = 0, left = 1000;

	memcpy(before, shares, n * sizeof(shares[0]));
	for (uint32_t j = 0; j < n; j++)
		left -= j == i ? 0 : shares[j].permille;
	shares[i].permille = least_permille(map) + below(left - least_permille(map) + 1);
	CHECK_EQ(cu_mask_allot(map, shares, n), 0);
	check_all(g, map, shares, n);
	for (uint32_t j = 0; j < n; j++)
		lost += moved(&before[j].mask, &shares[j].mask);
	if (shares[i].cus > before[i].cus || !is_even(g)) {
		uint32_t parts = g->xccs * g->engines * g->arrays * map->unit_bits;

		CHECK(lost <= 2 * parts + moved(&before[i].mask, &shares[i].mask));
		return;
	}
	CHECK_EQ(lost, before[i].cus - shares[i].cus);
	CHECK_EQ(moved(&shares[i].mask, &before[i].mask), 0);
}

/* Tenants of one unit at least, so that all fit. */
static void test_changes(void)
{
	uint32_t changes = 0;

	for (int round = 0; round < 75; round++) {
		struct cu_geometry g = any_geometry();
		struct cu_share shares[TENANTS] = {{0}};
		uint32_t n = 2 + below(5);
		struct cu_map map;

		if (cu_map_init(&g, &map) < 0 || map.units < n * map.xccs * 8)
			continue;
		for (uint32_t i = 0; i < n; i++)
			shares[i].permille = least_permille(&map) + below(500 / n);
		CHECK_EQ(cu_mask_allot(&map, shares, n), 0);
		for (int step = 0; step < 20; step++, changes++)
			change_one(&g, &map, shares, n);
	}
	CHECK(changes > 300);
}

/* Small enough to try all ways: engines of one array each, and what tenants have in them. */
#define SMALL_ENGINES 4
#define SMALL_TENANTS 4

struct small {
	uint32_t engines, n, total, per_engine;
	uint32_t had[SMALL_TENANTS][SMALL_ENGINES], wanted[SMALL_TENANTS];
	uint32_t left[SMALL_ENGINES];
	uint32_t least; /* units that have to be taken from somebody */
};

static void try_all(struct small *s, uint32_t tenant, uint32_t engine, uint32_t sum, uint32_t moves)
{
	uint32_t had, least, most;

	if (engine == s->engines) {
		if (sum != s->wanted[tenant])
			return;
		engine = sum = 0;
		tenant++;
	}
	if (tenant == s->n) {
		s->least = moves < s->least ? moves : s->least;
		return;
	}
	had = s->had[tenant][engine];
	least = s->wanted[tenant] * s->per_engine / s->total;
	most = (s->wanted[tenant] * s->per_engine + s->total - 1) / s->total;
	for (uint32_t k = least; k <= most && k <= s->left[engine]; k++) {
		s->left[engine] -= k;
		try_all(s, tenant, engine + 1, sum + k,
			moves + (had > k ? had - k : 0));
		s->left[engine] += k;
	}
}

static uint32_t least_moves(const struct cu_geometry *g, const struct cu_share *before,
			    const struct cu_share *after, uint32_t n)
{
	struct small s = {.engines = g->engines, .n = n, .per_engine = g->cus[0][0][0],
			  .total = g->engines * g->cus[0][0][0], .least = UINT32_MAX};

	for (uint32_t i = 0; i < n; i++) {
		struct on on = kernel(g, &before[i].mask);

		s.wanted[i] = after[i].cus;
		for (uint32_t e = 0; e < g->engines; e++)
			s.had[i][e] = on.cus[0][e][0];
	}
	for (uint32_t e = 0; e < g->engines; e++)
		s.left[e] = s.per_engine;
	try_all(&s, 0, 0, 0, 0);
	CHECK(s.least < UINT32_MAX);
	return s.least;
}

/* What gives just so many units of so many. */
static uint32_t permille_of(uint32_t units, uint32_t total)
{
	return (units * 1000 + total - 1) / total;
}

/*
 * A mask of so many units, symmetric, of engines chosen by chance for what is left over, and of
 * units that are left in them; false where an engine has too few.
 */
static bool any_symmetric(const struct cu_geometry *g, uint32_t units, uint32_t used[SMALL_ENGINES],
			  struct cu_mask *ret)
{
	uint32_t more = units % g->engines, from = below(g->engines);

	for (uint32_t k = 0; k < g->engines; k++) {
		uint32_t e = (from + k) % g->engines;

		for (uint32_t i = 0; i < units / g->engines + (k < more); i++, used[e]++) {
			uint32_t bit = used[e] * g->engines + e;

			if (used[e] == g->cus[0][e][0])
				return false;
			ret->word[bit / 32] |= 1u << bit % 32;
		}
	}
	return true;
}

/* Tenants that fill a GPU but for some units, in one of many ways. */
static bool any_tenants(const struct cu_geometry *g, struct cu_share *shares, uint32_t n)
{
	uint32_t total = g->engines * g->cus[0][0][0], left = total - n;
	uint32_t used[SMALL_ENGINES] = {0};

	memset(shares, 0, n * sizeof(shares[0]));
	for (uint32_t i = 0; i < n; i++) {
		uint32_t units = 1 + below(left + 1) * 2 / 3;

		left -= units - 1;
		shares[i].permille = permille_of(units, total);
		if (!any_symmetric(g, units, used, &shares[i].mask))
			return false;
	}
	return left > 0;
}

/* No other way to give a tenant more, with all symmetric, takes fewer units from anybody. */
static void test_fewest_moves(void)
{
	uint32_t needed = 0, changes = 0;

	for (int round = 0; round < 2000; round++) {
		struct cu_geometry g = {
			.xccs = 1, .engines = 2 + below(SMALL_ENGINES - 1), .arrays = 1};
		struct cu_share shares[SMALL_TENANTS], before[SMALL_TENANTS];
		uint32_t n = 2 + below(SMALL_TENANTS - 1), who = below(n), left, lost = 0;
		uint8_t per_engine = (uint8_t)(3 + below(4));
		struct cu_map map;

		for (uint32_t e = 0; e < g.engines; e++)
			g.cus[0][e][0] = per_engine;
		CHECK_EQ(cu_map_init(&g, &map), 0);
		if (!any_tenants(&g, shares, n))
			continue;
		memcpy(before, shares, sizeof(before));
		CHECK_EQ(cu_mask_allot(&map, shares, n), 0);
		left = map.units;
		for (uint32_t i = 0; i < n; i++) {
			CHECK(!memcmp(&before[i].mask, &shares[i].mask, sizeof(struct cu_mask)));
			left -= shares[i].cus;
		}
		shares[who].permille = permille_of(shares[who].cus + 1 + below(left), map.units);
		CHECK_EQ(cu_mask_allot(&map, shares, n), 0);
		check_all(&g, &map, shares, n);
		for (uint32_t i = 0; i < n; i++)
			lost += moved(&before[i].mask, &shares[i].mask);
		CHECK_EQ(lost, least_moves(&g, before, shares, n));
		needed += lost;
		changes++;
	}
	printf("%u changes had to take %u units from somebody\n", changes, needed);
	CHECK(needed > 100);
}

/* What it makes of its own answer is the same again; and of anything at all it makes an answer. */
static void test_any_masks(void)
{
	for (int round = 0; round < 45; round++) {
		struct cu_geometry g = any_geometry();
		struct cu_share shares[TENANTS] = {{0}}, again[TENANTS];
		uint32_t n = 1 + below(TENANTS);
		struct cu_map map;

		if (cu_map_init(&g, &map) < 0)
			continue;
		for (uint32_t i = 0; i < n; i++) {
			shares[i].permille = 1 + below(below(2) ? 1000 : 1000 / n);
			for (int w = 0; w < CU_MASK_WORDS && round % 3; w++)
				shares[i].mask.word[w] = below(UINT32_MAX) ^ below(UINT32_MAX) << 8;
		}
		CHECK_EQ(cu_mask_allot(&map, shares, n), 0);
		memcpy(again, shares, sizeof(again));
		CHECK_EQ(cu_mask_allot(&map, again, n), 0);
		for (uint32_t i = 0; i < n; i++) {
			CHECK_EQ(cus_of(&shares[i].mask), shares[i].cus);
			CHECK(!memcmp(&shares[i].mask, &again[i].mask, sizeof(again[i].mask)));
		}
		check_all(&g, &map, shares, n);
	}
}

/* A mask that somebody else wrote is believed as far as it is one of that share. */
static void test_within(void)
{
	struct cu_map map = map_of(&mi210), xccs = map_of(&mi300x), pairs = map_of(&navi21);
	struct cu_share share = {.permille = 250}, least = {.permille = 1};
	struct cu_mask mask;

	CHECK_EQ(cu_mask_allot(&map, &share, 1), 0);
	CHECK(cu_mask_within(&map, &share.mask, 250));
	CHECK(cu_mask_within(&map, &share.mask, 900));
	CHECK(!cu_mask_within(&map, &share.mask, 245)); /* one less would fit */
	mask = share.mask;
	mask.word[110 / 32] |= 1u << 110 % 32; /* there is no such unit */
	CHECK(!cu_mask_within(&map, &mask, 1000));
	memset(&mask, 0, sizeof(mask));
	CHECK(!cu_mask_within(&map, &mask, 250));
	mask = cu_mask_all(&pairs);
	CHECK(cus_of(&mask) == 80 && cu_mask_within(&pairs, &mask, 1000));
	CHECK_EQ(cu_mask_allot(&xccs, &least, 1), 0);
	CHECK(cu_mask_within(&xccs, &least.mask, 1));
	mask = least.mask;
	mask.word[0] &= mask.word[0] - 1; /* none in one of the XCCs */
	CHECK(!cu_mask_within(&xccs, &mask, 1000));
	memset(&mask, 0, sizeof(mask));
	mask.word[0] = 0x3;
	CHECK(cu_mask_within(&pairs, &mask, 100));
	mask.word[0] = 0x7; /* half a pair */
	CHECK(!cu_mask_within(&pairs, &mask, 1000));
}

int main(void)
{
	test_exact();
	test_pairs();
	test_xccs();
	test_too_much();
	test_rest();
	test_small_xcc();
	test_impossible();
	test_refine();
	test_narrow();
	test_within();
	test_changes();
	test_fewest_moves();
	test_any_masks();
	return 0;
}
