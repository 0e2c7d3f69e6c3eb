/* SPDX-License-Identifier: Apache-2.0 */
/* Which addresses objects may have. */
#include <errno.h>
#include <stdbool.h>

#include "peer/address.h"
#include "tests/check.h"

#define PAGE ADDRESS_PAGE_BYTES
#define MIB  (UINT64_C(1) << 20)

static void test_common(void)
{
	static const struct aperture of[] = {{0x4000, 0x7fffffffffff},
					     {0x200000, 0xffffffffffff},
					     {0x1000, 0x3fffffffff}},
				     apart[] = {{0x1000, 0x1fff}, {0x2000, 0x2fff}};
	struct aperture a = {7, 7};

	CHECK_EQ(address_common(of, 0, &a), -ERANGE);
	CHECK_EQ(address_common(apart, 2, &a), -ERANGE);
	CHECK(a.first == 7 && a.last == 7);
	CHECK_EQ(address_common(of, 3, &a), 0);
	CHECK(a.first == 0x200000 && a.last == 0x3fffffffff);
	CHECK_EQ(address_common(apart, 1, &a), 0);
	CHECK(a.first == 0x1000 && a.last == 0x1fff);
}

static void test_alignment(void)
{
	CHECK_EQ(address_alignment(1, PAGE), PAGE);
	CHECK_EQ(address_alignment(PAGE, PAGE), PAGE);
	CHECK_EQ(address_alignment(2 * PAGE - 1, PAGE), PAGE);
	CHECK_EQ(address_alignment(2 * PAGE, PAGE), 2 * PAGE);
	CHECK_EQ(address_alignment(MIB, PAGE), MIB);
	CHECK_EQ(address_alignment(2 * MIB, PAGE), 2 * MIB);
	CHECK_EQ(address_alignment(3 * MIB, PAGE), 2 * MIB);
	CHECK_EQ(address_alignment(UINT64_MAX, PAGE), 2 * MIB);
	CHECK_EQ(address_alignment(MIB, 2 * MIB), 2 * MIB);
}

static void test_check(void)
{
	static const struct aperture a = {0x10000, 0x1ffff};

	CHECK_EQ(address_check(&a, 0x10000, 0x10000, PAGE, PAGE), 0);
	CHECK_EQ(address_check(&a, 0x10000, 0, PAGE, PAGE), -EINVAL);
	CHECK_EQ(address_check(&a, 0x10000, 1, PAGE, PAGE), -EINVAL);
	CHECK_EQ(address_check(&a, 0x10800, PAGE, PAGE, PAGE), -EINVAL);
	CHECK_EQ(address_check(&a, 0x11000, PAGE, PAGE, 0x2000), -EINVAL);
	CHECK_EQ(address_check(&a, 0x10000, PAGE, PAGE, 0), -EINVAL);
	CHECK_EQ(address_check(&a, 0x10000, PAGE, PAGE, 0x3000), -EINVAL);
	CHECK_EQ(address_check(&a, 0x10000, PAGE, PAGE, 0x800), -EINVAL);
	CHECK_EQ(address_check(&a, 0xf000, PAGE, PAGE, PAGE), -ERANGE);
	CHECK_EQ(address_check(&a, 0x20000, PAGE, PAGE, PAGE), -ERANGE);
	CHECK_EQ(address_check(&a, 0x11000, 0x10000, PAGE, PAGE), -ERANGE);
	/* What wraps around is not in it, whatever the sum says. */
	CHECK_EQ(address_check(&a, 0x11000, UINT64_MAX - PAGE + 1, PAGE, PAGE), -ERANGE);
	CHECK_EQ(address_check(&a, UINT64_MAX - PAGE + 1, 2 * PAGE, PAGE, PAGE), -ERANGE);
}

/* Names are where neither half of the CPU's addresses is. */
static void test_names(void)
{
	CHECK_EQ(address_names.first, UINT64_C(1) << 47);
	CHECK_EQ(address_names.last, ~(UINT64_C(1) << 47));
	CHECK_EQ(address_check(&address_names, UINT64_C(0x7ffffffff000), PAGE, PAGE, PAGE),
		 -ERANGE);
	CHECK_EQ(address_check(&address_names, UINT64_C(0xffff800000000000), PAGE, PAGE, PAGE),
		 -ERANGE);
}

static void test_pick(void)
{
	static const struct aperture a = {PAGE, 64 * PAGE - 1};
	struct ranges tree = {0};
	struct range one = {.first = 8 * PAGE, .last = 12 * PAGE - 1},
		     two = {.first = 20 * PAGE, .last = 21 * PAGE - 1};
	uint64_t at = 0;

	CHECK_EQ(address_pick(&tree, &a, 0, PAGE, PAGE, &at), 0);
	CHECK_EQ(at, PAGE);
	CHECK_EQ(ranges_insert(&tree, &one), 0);
	CHECK_EQ(ranges_insert(&tree, &two), 0);
	/* Six pages and the guard fit before the first, seven do not. */
	CHECK_EQ(address_pick(&tree, &a, 0, 6 * PAGE, PAGE, &at), 0);
	CHECK_EQ(at, PAGE);
	CHECK_EQ(address_pick(&tree, &a, 0, 7 * PAGE, PAGE, &at), 0);
	CHECK_EQ(at, 22 * PAGE);
	CHECK_EQ(address_pick(&tree, &a, 2 * PAGE, 6 * PAGE, PAGE, &at), 0);
	CHECK_EQ(at, 13 * PAGE);
	CHECK_EQ(address_pick(&tree, &a, 13 * PAGE, PAGE, 16 * PAGE, &at), 0);
	CHECK_EQ(at, 16 * PAGE);
	CHECK_EQ(address_pick(&tree, &a, 0, 42 * PAGE, PAGE, &at), 0);
	CHECK_EQ(at, 22 * PAGE);
	at = 5;
	CHECK_EQ(address_pick(&tree, &a, 0, 43 * PAGE, PAGE, &at), -ENOMEM);
	CHECK_EQ(address_pick(&tree, &a, 64 * PAGE, PAGE, PAGE, &at), -ENOMEM);
	CHECK_EQ(address_pick(&tree, &a, UINT64_MAX, PAGE, PAGE, &at), -ENOMEM);
	CHECK_EQ(address_pick(&tree, &a, 0, PAGE, UINT64_C(1) << 63, &at), -ENOMEM);
	CHECK_EQ(at, 5);
}

/* Nothing picked overlaps, or touches, what is there; and there is room until there is none. */
static void test_fill(void)
{
	static const struct aperture a = {0, 4 * MIB - 1};
	static struct range ranges[1024];
	struct ranges tree = {0};
	uint32_t n = 0;
	uint64_t at;

	while (address_pick(&tree, &a, 0, PAGE, PAGE, &at) == 0) {
		CHECK_EQ(at, (uint64_t)n * 2 * PAGE);
		ranges[n].first = at;
		ranges[n].last = at + PAGE - 1;
		CHECK_EQ(ranges_insert(&tree, &ranges[n++]), 0);
	}
	CHECK_EQ(n, 512);
	ranges_remove(&tree, &ranges[100]);
	CHECK_EQ(address_pick(&tree, &a, 0, PAGE, PAGE, &at), 0);
	CHECK_EQ(at, 200 * PAGE);
}

int main(void)
{
	test_common();
	test_alignment();
	test_check();
	test_names();
	test_pick();
	test_fill();
	return 0;
}
