/* SPDX-License-Identifier: Apache-2.0 */
#include "sched/cost.h"

#include <stdatomic.h>

#include "sched/tuning.h"

/*
 * A key has its place among WAYS, so that two that a program uses in turns do not drive each other
 * out: each launch would be measured by itself, which costs ten times as much as to let it go.
 */
#define WAYS 4

/* Launches among others after which one is measured by itself again. */
#define STALE_USES 512

/* Reads while others learn: these words order nothing. */
static uint64_t cost_read(const _Atomic uint64_t *word)
{
	return atomic_load_explicit(word, memory_order_relaxed);
}

static void cost_write(_Atomic uint64_t *word, uint64_t value)
{
	atomic_store_explicit(word, value, memory_order_relaxed);
}

static unsigned int cost_hash(uint64_t key)
{
	return (unsigned int)((key * UINT64_C(0x9e3779b97f4a7c15)) >> 53) & (COST_ENTRIES - 1);
}

/* -1: nothing was learned of it. */
static int cost_find(const struct costs *costs, uint64_t key)
{
	unsigned int first = cost_hash(key) & ~(WAYS - 1u);

	for (unsigned int i = first; i < first + WAYS; i++)
		if (cost_read(&costs->entry[i].key) == key)
			return (int)i;
	return -1;
}

/* Its own, an empty one, or where all are taken any. */
static struct cost *cost_place(struct costs *costs, uint64_t key)
{
	unsigned int first = cost_hash(key) & ~(WAYS - 1u);
	int i = cost_find(costs, key);

	if (i >= 0)
		return &costs->entry[i];
	for (unsigned int k = first; k < first + WAYS; k++)
		if (!cost_read(&costs->entry[k].key))
			return &costs->entry[k];
	return &costs->entry[cost_hash(key)];
}

/* One way at once, the other by an eighth. */
static uint64_t cost_follow(uint64_t old, uint64_t ns, bool waits)
{
	if ((ns >= old) != waits)
		return ns;
	return ns >= old ? old + (ns - old < old ? ns - old : old) / 8 + 1 : old - (old - ns) / 8;
}

uint64_t cost_expect(const struct costs *costs, uint64_t key)
{
	int i = cost_find(costs, key);

	return i < 0 ? 0 : cost_read(&costs->entry[i].ns);
}

uint64_t cost_mean(const struct costs *costs)
{
	return cost_read(&costs->mean_ns);
}

/* Until the measurement is known others may be launched: they are not measured, too. */
uint64_t cost_use(struct costs *costs, uint64_t key, uint64_t now_ns, bool *ret_alone)
{
	int i = cost_find(costs, key);
	struct cost *cost;

	*ret_alone = true;
	if (i < 0)
		return 0;
	cost = &costs->entry[i];
	if (now_ns > cost_read(&cost->used_ns) + TUNING_FORGET_NS)
		return 0;
	cost_write(&cost->used_ns, now_ns);
	*ret_alone = cost_read(&cost->uses) >= STALE_USES;
	cost_write(&cost->uses, *ret_alone ? 0 : cost_read(&cost->uses) + 1);
	return cost_read(&cost->ns);
}

void cost_learn(struct costs *costs, uint64_t key, uint32_t n, uint64_t took_ns, uint64_t now_ns,
		bool waits)
{
	uint64_t each = n ? took_ns / n : 0, mean_ns;
	struct cost *cost;

	if (!n)
		return;
	each = each ? each : 1; /* by two clocks the briefest may take no time at all */
	mean_ns = cost_read(&costs->mean_ns);
	cost_write(&costs->mean_ns, mean_ns - mean_ns / 8 + each / 8 + 1);
	if (!key)
		return;
	cost = cost_place(costs, key);
	cost_write(&cost->ns, cost_read(&cost->key) == key
				      ? cost_follow(cost_read(&cost->ns), each, waits)
				      : each);
	cost_write(&cost->uses, 0);
	cost_write(&cost->used_ns, now_ns);
	cost_write(&cost->key, key);
}

void cost_doubt(struct costs *costs, uint64_t key)
{
	int i = key ? cost_find(costs, key) : -1;

	if (i >= 0)
		cost_write(&costs->entry[i].uses, STALE_USES);
}

void cost_bound(struct costs *costs, uint64_t key, uint64_t most_ns)
{
	int i = cost_find(costs, key);

	if (i >= 0 && cost_read(&costs->entry[i].ns) > most_ns)
		cost_write(&costs->entry[i].ns, most_ns ? most_ns : 1);
}
