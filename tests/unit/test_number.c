/* SPDX-License-Identifier: Apache-2.0 */
/* Bounds of numbers, where a sum or a difference would wrap, and the values of the hash. */
#include "base/hash.h"
#include "base/number.h"
#include "tests/check.h"

static void bounds(void)
{
	CHECK_EQ(clamp_i64(-5, -3, 7), -3);
	CHECK_EQ(clamp_i64(5, -3, 7), 5);
	CHECK_EQ(clamp_i64(INT64_MAX, -3, 7), 7);
	CHECK_EQ(min_u64(1, UINT64_MAX), 1);
	CHECK_EQ(max_u64(1, UINT64_MAX), UINT64_MAX);
	CHECK_EQ(sat_add_u64(2, 3), 5);
	CHECK_EQ(sat_add_u64(UINT64_MAX - 1, 1), UINT64_MAX);
	CHECK_EQ(sat_add_u64(UINT64_MAX - 1, 2), UINT64_MAX);
	CHECK_EQ(sat_sub_u64(3, 2), 1);
	CHECK_EQ(sat_sub_u64(2, 3), 0);
	CHECK_EQ(sat_sub_u64(0, UINT64_MAX), 0);
}

/* The published values of FNV-1a: files carry some of them. */
static void hashes(void)
{
	CHECK_EQ(hash_string(HASH_SEED, ""), UINT64_C(0xcbf29ce484222325));
	CHECK_EQ(hash_string(HASH_SEED, "a"), UINT64_C(0xaf63dc4c8601ec8c));
	CHECK_EQ(hash_string(HASH_SEED, "foobar"), UINT64_C(0x85944171f73967e8));
	CHECK_EQ(hash_bytes(HASH_SEED, "foobar", 6), UINT64_C(0x85944171f73967e8));
	CHECK_EQ(hash_word(HASH_SEED, 'a'), UINT64_C(0xaf63dc4c8601ec8c));
}

int main(void)
{
	bounds();
	hashes();
	return 0;
}
