/* SPDX-License-Identifier: Apache-2.0 */
#include "preload/cost.h"

/* Before anything was measured. */
#define UNKNOWN_NS 1000000u
/* Launches among others after which one is measured by itself again. */
#define STALE_USES 256u

static unsigned int index_of(uint64_t key)
{
	return (key * UINT64_C(0x9e3779b97f4a7c15)) >> 55 & (COST_ENTRIES - 1);
}

static struct cost *entry_of(struct costs *costs, uint64_t key)
{
	return &costs->entry[index_of(key)];
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

uint64_t cost_expect(struct costs *costs, uint64_t key, bool *ret_alone)
{
	struct cost *cost = entry_of(costs, key);

	*ret_alone = cost->key != key || ++cost->uses > STALE_USES;
	if (cost->key == key)
		return cost->ns;
	return costs->mean_ns ? costs->mean_ns : UNKNOWN_NS;
}

bool cost_known(const struct costs *costs, uint64_t key)
{
	return costs->entry[index_of(key)].key == key;
}

void cost_learn(struct costs *costs, uint64_t key, uint32_t n, uint64_t ns, bool beside)
{
	uint32_t (*learn)(uint32_t old, uint32_t ns) = beside ? follow_least : follow;
	struct cost *cost = entry_of(costs, key);
	uint32_t each = saturate(n ? ns / n : 0);

	if (!n)
		return;
	costs->mean_ns = learn(costs->mean_ns, each);
	if (key)
		*cost = (struct cost){
			.key = key,
			.ns = cost->key == key ? learn(cost->ns, each) : each,
		};
}
