/* SPDX-License-Identifier: Apache-2.0 */
#include "sched/waits.h"

#include <string.h>

#include "base/now.h"
#include "base/number.h"

#define PERIOD_NS (10 * NS_PER_S)

/* The bits below the highest that tell the bucket. */
#define FINE_BITS 3

static uint32_t waits_us(uint64_t ns)
{
	return (uint32_t)min_u64(ns / NS_PER_US, (UINT64_C(1) << 24) - 1);
}

static unsigned int waits_bucket_of(uint32_t us)
{
	unsigned int shift;

	if (us < 1u << FINE_BITS)
		return us;
	shift = 31u - (unsigned int)__builtin_clz(us) - FINE_BITS;
	return (shift << FINE_BITS) + (us >> shift);
}

/* The most of what is in the bucket. */
static uint32_t waits_most_us(unsigned int bucket)
{
	unsigned int shift = bucket >> FINE_BITS;

	if (!shift)
		return bucket;
	return ((bucket - ((shift - 1) << FINE_BITS) + 1) << (shift - 1)) - 1;
}

static uint64_t waits_number(uint64_t now_ns)
{
	return 1 + now_ns / PERIOD_NS;
}

void waits_add(struct waits *waits, uint64_t now_ns, uint64_t waited_ns, const char *behind,
	       uint64_t behind_ns)
{
	uint64_t number = waits_number(now_ns);
	struct waits_period *p = &waits->period[number % WAITS_PERIODS];

	if (p->number != number)
		*p = (struct waits_period){.number = number};
	p->n[waits_bucket_of(waits_us(waited_ns))]++;
	if (waits_us(waited_ns) < p->longest_us)
		return;
	p->longest_us = waits_us(waited_ns);
	p->behind_us = waits_us(behind_ns);
	memset(p->behind, 0, sizeof(p->behind));
	memcpy(p->behind, behind, strnlen(behind, sizeof(p->behind) - 1));
}

/* The least that this part of them did not exceed. */
static uint32_t waits_percentile_us(const uint32_t n[WAITS_BUCKETS], uint32_t all,
				    uint32_t permille)
{
	uint64_t rank = (uint64_t)all * permille, before = 0;

	for (unsigned int i = 0; i < WAITS_BUCKETS; i++) {
		before += n[i];
		if (before * 1000 >= rank && before)
			return waits_most_us(i);
	}
	return 0;
}

void waits_sum(const struct waits *waits, uint64_t now_ns, struct waits_sum *ret)
{
	uint32_t n[WAITS_BUCKETS] = {0};

	*ret = (struct waits_sum){0};
	for (int k = 0; k < WAITS_PERIODS; k++) {
		const struct waits_period *p = &waits->period[k];

		if (!p->number || p->number + WAITS_PERIODS <= waits_number(now_ns))
			continue;
		for (unsigned int i = 0; i < WAITS_BUCKETS; i++) {
			n[i] += p->n[i];
			ret->n += p->n[i];
		}
		if (p->longest_us < ret->longest_us)
			continue;
		ret->longest_us = p->longest_us;
		ret->behind_us = p->behind_us;
		memcpy(ret->behind, p->behind, sizeof(ret->behind));
	}
	ret->p50_us = (uint32_t)min_u64(waits_percentile_us(n, ret->n, 500), ret->longest_us);
	ret->p99_us = (uint32_t)min_u64(waits_percentile_us(n, ret->n, 990), ret->longest_us);
}
