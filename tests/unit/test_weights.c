/* SPDX-License-Identifier: Apache-2.0 */
/* What part of a device tenants have that work at the same time. */
#include "sched/weights.h"

#include "tests/check.h"

#define CAP(permille)  {.cap_permille = (permille), .weight = (permille)}
#define WEIGHT(weight) {0, (weight), 0}

static void check(struct part *parts, uint32_t n, const uint32_t *wanted)
{
	weights_divide(parts, n);
	for (uint32_t i = 0; i < n; i++)
		CHECK_EQ(parts[i].permille, wanted[i]);
}

#define N(array) (sizeof(array) / sizeof((array)[0]))
#define CHECK_PARTS(parts, ...) check(parts, N(parts), (const uint32_t[]){__VA_ARGS__})

int main(void)
{
	struct part caps[] = {CAP(250), CAP(400)};
	struct part many_caps[] = {CAP(900), CAP(900)};
	struct part alone[] = {WEIGHT(100)};
	struct part equals[] = {WEIGHT(100), WEIGHT(100), WEIGHT(100)};
	struct part unequal[] = {WEIGHT(300), WEIGHT(100)};
	/* What a cap leaves is for who shares ... */
	struct part beside[] = {CAP(250), WEIGHT(100), WEIGHT(200)};
	/* ... who is not starved by one that leaves little. */
	struct part squeezed[] = {CAP(900), WEIGHT(900)};
	struct part least[] = {WEIGHT(1), WEIGHT(100000)};

	CHECK_PARTS(caps, 250, 400);
	CHECK_PARTS(many_caps, 900, 900);
	CHECK_PARTS(alone, 1000);
	CHECK_PARTS(equals, 333, 333, 333);
	CHECK_PARTS(unequal, 750, 250);
	CHECK_PARTS(beside, 250, 250, 500);
	CHECK_PARTS(squeezed, 900, 500);
	CHECK_PARTS(least, 1, 999);
	weights_divide(NULL, 0);
	return 0;
}
