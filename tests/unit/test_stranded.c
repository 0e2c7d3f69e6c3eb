/* SPDX-License-Identifier: Apache-2.0 */
/* What tenants hold of a device, and cannot take away since the host has no room for it. */
#include "sched/stranded.h"

#include <stddef.h>

#include "tests/check.h"

static struct stranded sum_of(uint64_t host_free, const struct stranded_holder *holder, int n)
{
	struct stranded sum;

	stranded_begin(&sum, host_free);
	for (int i = 0; i < n; i++)
		stranded_add(&sum, &holder[i]);
	return sum;
}

/* What is free on the host is shared by those that have no bound of their own. */
static void check_free(void)
{
	const struct stranded_holder holder[] = {
		{.here = 20, .here_all = 20}, {.here = 30, .here_all = 30}, {.here = 0, .here_all = 50}};
	struct stranded sum = sum_of(50, holder, 3);

	CHECK_EQ(stranded_for(&sum, NULL), 0);
	CHECK_EQ(stranded_for(&sum, &holder[0]), 0);
	/* One of them alone would leave, but not one behind the other: 10 are sure. */
	sum = sum_of(40, holder, 3);
	CHECK_EQ(stranded_for(&sum, NULL), 40);
	CHECK_EQ(stranded_for(&sum, &holder[0]), 0);
	CHECK_EQ(stranded_for(&sum, &holder[1]), 0);
	CHECK_EQ(stranded_for(&sum, &holder[2]), 40);
	/* The larger one stays, or takes what room there is with a part of it. */
	sum = sum_of(25, holder, 3);
	CHECK_EQ(stranded_for(&sum, NULL), 30 + 15);
	CHECK_EQ(stranded_for(&sum, &holder[0]), 30);
	CHECK_EQ(stranded_for(&sum, &holder[1]), 0);
	sum = sum_of(0, holder, 3);
	CHECK_EQ(stranded_for(&sum, &holder[1]), 20);
}

/* Of many that are small beside what is free, nearly all of that is sure. */
static void check_many(void)
{
	struct stranded_holder holder[10];
	struct stranded sum;

	for (int i = 0; i < 10; i++)
		holder[i] = (struct stranded_holder){.here = 10, .here_all = 10};
	sum = sum_of(75, holder, 10);
	CHECK_EQ(stranded_for(&sum, &holder[3]), 90 - 65);
	sum = sum_of(90, holder, 10);
	CHECK_EQ(stranded_for(&sum, &holder[3]), 0);
	CHECK_EQ(stranded_for(&sum, NULL), 100 - 80);
}

/* One that says how much may be there leaves whatever is free, if that is enough for all that it has. */
static void check_bound(void)
{
	struct stranded_holder holder[] = {
		{.here = 30, .here_all = 30, .away = 10, .most_bytes = 40},
		{.here = 20, .here_all = 20}};
	struct stranded sum = sum_of(25, holder, 2);

	CHECK_EQ(stranded_for(&sum, &holder[1]), 30 - 30);
	CHECK_EQ(stranded_for(&sum, &holder[0]), 0);
	/* When it has left, what is free is gone. */
	CHECK_EQ(stranded_for(&sum, NULL), 20);
	holder[0].most_bytes = 39;
	sum = sum_of(25, holder, 2);
	CHECK_EQ(stranded_for(&sum, &holder[1]), 30);
	CHECK_EQ(stranded_for(&sum, &holder[0]), 0);
	/* With a file behind it there is room. */
	holder[0].has_file = true;
	sum = sum_of(25, holder, 2);
	CHECK_EQ(stranded_for(&sum, &holder[1]), 0);
}

/* One that is stopped stays, wherever there is room for it. */
static void check_stopped(void)
{
	struct stranded_holder holder[] = {
		{.here = 30, .here_all = 30, .stopped = true, .has_file = true},
		{.here = 20, .here_all = 20}};
	struct stranded sum = sum_of(100, holder, 2);

	CHECK_EQ(stranded_for(&sum, &holder[1]), 30);
	CHECK_EQ(stranded_for(&sum, &holder[0]), 0);
	CHECK_EQ(stranded_for(&sum, NULL), 30);
}

/* Of a tenant that has memory on two devices the host has to have room for both. */
static void check_devices(void)
{
	const struct stranded_holder holder[] = {{.here = 10, .here_all = 40},
						 {.here = 20, .here_all = 20}};
	struct stranded sum = sum_of(60, holder, 2);

	CHECK_EQ(stranded_for(&sum, NULL), 0);
	sum = sum_of(39, holder, 2);
	CHECK_EQ(stranded_for(&sum, &holder[1]), 10);
	CHECK_EQ(stranded_for(&sum, &holder[0]), 0);
	sum = sum_of(48, holder, 2);
	CHECK_EQ(stranded_for(&sum, NULL), 30 - 2);
}

int main(void)
{
	check_free();
	check_many();
	check_bound();
	check_stopped();
	check_devices();
	return 0;
}
