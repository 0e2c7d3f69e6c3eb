/* SPDX-License-Identifier: Apache-2.0 */
/* How the guard reckons what a process has, from what it admitted and what the kernel shows. */
#include <stdint.h>
#include <string.h>

#include "guard/account.h"
#include "tests/check.h"

#define STEPS 200000
#define CALLS 8

/* Counted from the moment that it is admitted, and once, whenever the figure shows it. */
static void test_one_call(void)
{
	struct account a = {0};

	account_begin(&a, 64);
	CHECK_EQ(account_bytes(&a), 64);
	CHECK(!account_read(&a, 0));
	CHECK_EQ(account_bytes(&a), 64);
	CHECK(account_open(&a));
	CHECK(account_read(&a, 64)); /* the kernel has it: it is over, seen or not */
	CHECK_EQ(account_bytes(&a), 64);
	CHECK(!account_open(&a));
	CHECK(account_read(&a, 0)); /* given back */
	CHECK_EQ(account_bytes(&a), 0);
}

static void test_kernel_refuses(void)
{
	struct account a = {0};

	account_begin(&a, 64);
	account_end(&a, 64);
	CHECK_EQ(account_bytes(&a), 64); /* nobody looked yet */
	CHECK(account_open(&a));
	CHECK(account_read(&a, 0));
	CHECK_EQ(account_bytes(&a), 0);
}

static void test_never_made(void)
{
	struct account a = {0};

	account_begin(&a, 10);
	account_begin(&a, 64);
	account_cancel(&a, 64);
	CHECK_EQ(account_bytes(&a), 10);
}

/* Two under way, of which the figure has one: it does not say which. */
static void test_two_calls(void)
{
	struct account a = {0};

	account_begin(&a, 32);
	account_begin(&a, 32);
	CHECK(!account_read(&a, 32));
	CHECK_EQ(account_bytes(&a), 64);
	account_end(&a, 32);
	CHECK(!account_read(&a, 32));
	CHECK_EQ(account_bytes(&a), 64);
	account_end(&a, 32);
	CHECK(account_read(&a, 32)); /* the other one was refused */
	CHECK_EQ(account_bytes(&a), 32);
}

/* The block was changed after it was judged. */
static void test_more_than_admitted(void)
{
	struct account a = {0};

	account_begin(&a, 1);
	CHECK(account_read(&a, 1000));
	CHECK_EQ(account_bytes(&a), 1000);
}

/* What is under way for long does not keep what is given back meanwhile. */
static void test_giving_back_beside_a_long_call(void)
{
	struct account a = {0};

	CHECK(account_read(&a, 50));
	account_begin(&a, 8);
	account_begin(&a, 4);
	account_end(&a, 4);
	CHECK(!account_read(&a, 10));
	CHECK_EQ(account_bytes(&a), 10 + 8);
}

static uint32_t state = 1;

static uint32_t rnd(uint32_t n)
{
	state = state * 1664525 + 1013904223;
	return (state >> 8) % n;
}

/*
 * Against a model of the kernel: never less than what the process has and is about to get, and
 * exact when nothing is under way.
 */
static void test_model(void)
{
	struct {
		uint64_t bytes;
		enum { NONE, ASKED, DONE, FAILED } is;
	} calls[CALLS] = {{0}};
	struct account a = {0};
	uint64_t has = 0;

	for (int step = 0; step < STEPS; step++) {
		uint32_t i = rnd(CALLS);
		uint64_t coming = 0;

		switch (rnd(5)) {
		case 0:
			if (calls[i].is == NONE) {
				calls[i].bytes = rnd(100);
				calls[i].is = ASKED;
				account_begin(&a, calls[i].bytes);
			}
			break;
		case 1: /* the kernel decides */
			if (calls[i].is == ASKED && (calls[i].is = rnd(4) ? DONE : FAILED) == DONE)
				has += calls[i].bytes;
			break;
		case 2: /* and the thread is seen elsewhere */
			if (calls[i].is == DONE || calls[i].is == FAILED) {
				calls[i].is = NONE;
				account_end(&a, calls[i].bytes);
			}
			break;
		case 3:
			has -= rnd((uint32_t)has + 1);
			break;
		case 4:
			if (account_read(&a, has) && a.calls == 0)
				for (int j = 0; j < CALLS; j++) /* all that were are forgotten */
					if (calls[j].is == DONE || calls[j].is == FAILED)
						calls[j].is = NONE;
			break;
		}
		for (int j = 0; j < CALLS; j++)
			if (calls[j].is == ASKED)
				coming += calls[j].bytes;
		if (!a.calls && coming) { /* one that the figure covered for another's sake */
			memset(calls, 0, sizeof(calls));
			coming = 0;
		}
		CHECK(account_bytes(&a) >= has + coming);
		if (!account_open(&a) && account_read(&a, has))
			CHECK_EQ(account_bytes(&a), has);
	}
}

int main(void)
{
	test_one_call();
	test_kernel_refuses();
	test_never_made();
	test_two_calls();
	test_more_than_admitted();
	test_giving_back_beside_a_long_call();
	test_model();
	return 0;
}
