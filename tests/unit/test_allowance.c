/* SPDX-License-Identifier: Apache-2.0 */
/* The budget of a second: each user has a part of it, which is smaller with more users. */
#include "node/process/allowance.h"

#include <time.h>

#include "tests/check.h"

#define MIB (UINT64_C(1) << 20)

/* Time is the test's own. */
static time_t seconds = 1000;

int __wrap_clock_gettime(clockid_t id, struct timespec *ret);

int __wrap_clock_gettime(clockid_t id, struct timespec *ret)
{
	(void)id;
	*ret = (struct timespec){.tv_sec = seconds};
	return 0;
}

static uint64_t spend_all(uid_t uid)
{
	uint64_t sum = 0, left;

	while ((left = allowance_left(ALLOWANCE_MAPPINGS, uid, 0))) {
		allowance_spend(ALLOWANCE_MAPPINGS, uid, left);
		sum += left;
	}
	return sum;
}

int main(void)
{
	uint64_t sum = 0;
	uid_t last;

	allowance_serve();
	CHECK_EQ(spend_all(1), 8 * MIB);
	CHECK_EQ(allowance_left(ALLOWANCE_ENVIRONMENTS, 1, 0), 8 * MIB); /* of another kind */
	CHECK_EQ(spend_all(2), 8 * MIB);
	seconds++;
	/* With a hundred users each has something, from the second window on. */
	for (uid_t uid = 1; uid <= 100; uid++)
		spend_all(uid);
	seconds++;
	for (uid_t uid = 1; uid <= 100; uid++) {
		uint64_t spent = spend_all(uid);

		CHECK(spent >= 16 * MIB / 100 - 1);
		sum += spent;
	}
	CHECK(sum <= 16 * MIB);
	seconds++;
	/* Thousands of users, as in a user namespace, do not raise the sum. */
	sum = 0;
	for (uid_t uid = 1; uid <= 70000; uid++)
		sum += spend_all(uid);
	CHECK(sum <= 16 * MIB);
	seconds++;
	/* One long text is allowed in full. */
	CHECK_EQ(allowance_left(ALLOWANCE_ENVIRONMENTS, 3, 10 * MIB), 10 * MIB);
	allowance_spend(ALLOWANCE_ENVIRONMENTS, 3, 10 * MIB);
	CHECK_EQ(allowance_left(ALLOWANCE_ENVIRONMENTS, 3, 10 * MIB), 0);
	CHECK_EQ(allowance_count(ALLOWANCE_FIGURES, &last), 0);
	allowance_put_off(ALLOWANCE_FIGURES, 7);
	CHECK_EQ(allowance_count(ALLOWANCE_FIGURES, &last), 1);
	CHECK_EQ(last, 7);
	return 0;
}
