/* SPDX-License-Identifier: Apache-2.0 */
#include "preload/cost.h"

#include "base/atomic.h"
#include "share/between.h"

/* Before anything was measured. */
#define UNKNOWN_NS 1000000u
/*
 * Launches among others after which one is measured by itself again; of a program that launches
 * nothing else each mark measures it, and comes sooner.
 */
#define STALE_USES 512u

/*
 * A key has its place among WAYS, so that two that a program uses in turns do not drive each other
 * out: each launch would be measured by itself, which costs ten times as much as the gate.
 */
#define WAYS 4

/* Further off than this it is something else. */
#define MIXED_LEAST 250
#define MIXED_MOST  1500

static unsigned int hash(uint64_t key)
{
	return (key * UINT64_C(0x9e3779b97f4a7c15)) >> 55 & (COST_ENTRIES - 1);
}

/* -1: nothing was learned of it. */
static int find(const struct costs *costs, uint64_t key)
{
	unsigned int first = hash(key) & ~(WAYS - 1u);

	for (unsigned int i = first; i < first + WAYS; i++)
		if (atomic_peek(&costs->entry[i].key) == key)
			return (int)i;
	return -1;
}

/* Its own, an empty one, or where all are taken any. */
static struct cost *place(struct costs *costs, uint64_t key)
{
	unsigned int first = hash(key) & ~(WAYS - 1u);
	int i = find(costs, key);

	if (i >= 0)
		return &costs->entry[i];
	for (unsigned int k = first; k < first + WAYS; k++)
		if (!costs->entry[k].key)
			return &costs->entry[k];
	return &costs->entry[hash(key)];
}

static uint32_t saturate(uint64_t ns)
{
	return ns > UINT32_MAX ? UINT32_MAX : (uint32_t)ns;
}

/* Follows at an eighth a step, but at once when it is far off: a program's phases differ. */
static uint32_t follow(uint32_t old, uint32_t ns)
{
	if (!old || ns > 2 * (uint64_t)old || ns < old / 2)
		return ns;
	return (uint32_t)(((uint64_t)old * 7 + ns) / 8);
}

/* Down by half of the way, up by an eighth of what stands, however far it is. */
static uint32_t follow_least(uint32_t old, uint32_t ns)
{
	uint64_t most = (uint64_t)old + old / 8 + 1;

	if (!old)
		return ns;
	if (ns < old)
		return old - (old - ns) / 2;
	return ns < most ? ns : saturate(most);
}

static uint64_t expectation(const struct costs *costs, int i)
{
	uint32_t mixed = atomic_peek(&costs->mixed_permille), mean = atomic_peek(&costs->mean_ns);

	if (i >= 0)
		return (uint64_t)atomic_peek(&costs->entry[i].ns) * (mixed ? mixed : 1000) / 1000;
	return mean ? mean : UNKNOWN_NS;
}

uint64_t cost_expect(const struct costs *costs, uint64_t key, bool *ret_known)
{
	int i = find(costs, key);

	*ret_known = i >= 0;
	return expectation(costs, i);
}

/* Until what is measured is known, others may be launched: they are not measured, too. */
static bool is_stale(struct cost *cost)
{
	uint32_t uses = atomic_peek(&cost->uses);
	bool stale = uses >= STALE_USES;

	atomic_poke(&cost->uses, stale ? 0 : uses + 1);
	return stale;
}

uint64_t cost_use(struct costs *costs, uint64_t key, bool *ret_known, bool *ret_alone)
{
	int i = find(costs, key);

	*ret_known = i >= 0;
	*ret_alone = i < 0 || is_stale(&costs->entry[i]);
	return expectation(costs, i);
}

/*
 * A brief launch that is measured by itself takes longer than among others: the device waits for it
 * to arrive, and for the marks.
 */
static void learn_mixed(struct costs *costs, uint64_t ns, uint64_t expected_ns, bool beside)
{
	int64_t mixed = costs->mixed_permille ? costs->mixed_permille : 1000, off;

	if (ns > expected_ns && beside)
		return;
	ns = ns < 2 * expected_ns ? ns : 2 * expected_ns;
	off = (int64_t)(ns * 1000 / expected_ns) - 1000;
	mixed += mixed * off / 1000 / 16;
	atomic_poke(&costs->mixed_permille, (uint32_t)between(mixed, MIXED_LEAST, MIXED_MOST));
}

void cost_learn(struct costs *costs, uint64_t key, uint32_t n, uint64_t ns, uint64_t expected_ns,
		bool beside)
{
	uint32_t (*learn)(uint32_t old, uint32_t ns) = beside ? follow_least : follow;
	struct cost *cost = place(costs, key);
	uint32_t each = saturate(n ? ns / n : 0);

	if (!n)
		return;
	atomic_poke(&costs->mean_ns, learn(costs->mean_ns, each));
	if (!key && expected_ns)
		learn_mixed(costs, ns, expected_ns, beside);
	if (!key)
		return;
	atomic_poke(&cost->ns, cost->key == key ? learn(cost->ns, each) : each);
	atomic_poke(&cost->uses, 0);
	atomic_poke(&cost->key, key);
}
