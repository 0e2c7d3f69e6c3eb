/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Mapping against a model of a driver that goes device by device and fails where it is told to: for
 * each device and each error, and then at random, what is believed is what the driver has.
 */
#include <errno.h>
#include <stddef.h>
#include <string.h>

#include "peer/mapping.h"
#include "tests/check.h"

#define N     8
#define STEPS 100000

enum { MAP, UNMAP, OPS };

struct driver {
	uint64_t mapped;
	struct {
		int err;	/* 0: none */
		uint32_t at;	/* before it does this one of a list; N: after all of them */
		uint32_t times; /* it does so */
	} fail[OPS];
	uint32_t calls, waits;
	bool silent; /* does not say how far it came */
	uint64_t *believed;
};

static int drive(void *context, const struct mapping_call *call, uint32_t *ret_done)
{
	struct driver *d = context;
	int op = call->unmap ? UNMAP : MAP;

	CHECK_EQ(*d->believed, d->mapped);
	CHECK(call->done <= call->n && call->n);
	CHECK(call->wait_us <= MAPPING_WAIT_MOST_US);
	d->calls++;
	d->waits += call->wait_us != 0;
	for (uint32_t i = call->done; i <= call->n; i++) {
		uint64_t bit;

		if (d->fail[op].times &&
		    (d->fail[op].at == i || (i == call->n && d->fail[op].at > i))) {
			d->fail[op].times--;
			return d->fail[op].err;
		}
		if (i == call->n)
			break;
		bit = UINT64_C(1) << call->devices[i];
		d->mapped = call->unmap ? d->mapped & ~bit : d->mapped | bit;
		if (!d->silent)
			*ret_done = i + 1;
	}
	return 0;
}

static const uint32_t all[N] = {3, 0, 1, 2, 4, 5, 6, 7};

static int run(struct driver *d, uint64_t *believed, bool unmap, const uint32_t *list, uint32_t n)
{
	d->believed = believed;
	return mapping_run(believed, unmap, list, n, drive, d);
}

static void test_list(void)
{
	uint32_t list[MAPPING_DEVICES];

	CHECK_EQ(mapping_list(0, 0, list), 0);
	CHECK_EQ(mapping_list(0xff, 3, list), 8);
	CHECK(!memcmp(list, all, sizeof(all)));
	CHECK_EQ(mapping_list(0x5, 1, list), 2);
	CHECK(list[0] == 0 && list[1] == 2);
	CHECK_EQ(mapping_list(UINT64_MAX, 63, list), 64);
	CHECK(list[0] == 63 && list[63] == 62);
	CHECK_EQ(mapping_list(UINT64_C(1) << 63, MAPPING_DEVICES, list), 1);
	CHECK_EQ(list[0], 63);
}

/* An error that stays: as before. One that passes: all of it. */
static void test_fail_each(void)
{
	static const int errors[] = {-EINVAL, -EIO,   -ENOMEM, -EFAULT, -EBUSY,
				     -EPERM,  -EINTR, -EAGAIN, -ENODEV};

	for (uint32_t k = 0; k <= N; k++)
		for (size_t e = 0; e < sizeof(errors) / sizeof(errors[0]); e++) {
			bool again = errors[e] == -EINTR || errors[e] == -EAGAIN;
			struct driver d = {.fail[MAP] = {errors[e], k, UINT32_MAX}};
			uint64_t believed = 0;

			CHECK_EQ(run(&d, &believed, false, all, N), errors[e]);
			CHECK(believed == 0 && d.mapped == 0);
			CHECK(errors[e] != -EAGAIN || d.calls <= MAPPING_AGAIN_MOST + 2);
			CHECK_EQ(d.waits != 0, errors[e] == -EAGAIN);

			d = (struct driver){.fail[MAP] = {errors[e], k, 1}};
			CHECK_EQ(run(&d, &believed, false, all, N), again ? 0 : errors[e]);
			CHECK_EQ(believed, again ? 0xff : 0);
			CHECK_EQ(d.mapped, believed);

			/* What was mapped before stays. */
			d = (struct driver){.mapped = 0xf0,
					    .fail[MAP] = {errors[e], k % 4, UINT32_MAX}};
			believed = 0xf0;
			CHECK_EQ(run(&d, &believed, false, (uint32_t[]){0, 1, 2, 3}, 4), errors[e]);
			CHECK(believed == 0xf0 && d.mapped == 0xf0);

			/* Unmapping ends where it ends. */
			d = (struct driver){.mapped = 0xff,
					    .fail[UNMAP] = {errors[e], k, UINT32_MAX}};
			believed = 0xff;
			CHECK_EQ(run(&d, &believed, true, all, N), errors[e]);
			CHECK_EQ(believed, d.mapped);
			CHECK_EQ(__builtin_popcountll(believed), N - k);
		}
}

/* Undoing fails, too: no more and no less is believed than is so. */
static void test_undo_fails(void)
{
	for (uint32_t k = 1; k <= N; k++)
		for (uint32_t u = 0; u <= k; u++) {
			struct driver d = {.fail = {[MAP] = {-EIO, k, UINT32_MAX},
						    [UNMAP] = {-ENOMEM, u, UINT32_MAX}}};
			uint32_t list[MAPPING_DEVICES], n;
			uint64_t believed = 0;

			CHECK_EQ(run(&d, &believed, false, all, N), -EIO);
			CHECK_EQ(believed, d.mapped);
			CHECK_EQ(__builtin_popcountll(believed), k - u);
			d.fail[UNMAP].times = 0; /* later it can be done */
			n = mapping_list(believed, 0, list);
			CHECK_EQ(run(&d, &believed, true, list, n), 0);
			CHECK_EQ(believed, 0);
		}
}

/* Signals that come all the time do not stop it while it gets on; nor does a driver that is wrong
 * about how far it came spoil what is known. */
static void test_progress(void)
{
	struct driver d = {0};
	uint64_t believed = 0;

	d.fail[MAP].err = -EINTR;
	d.fail[MAP].times = MAPPING_INTERRUPTED_MOST;
	d.fail[MAP].at = 5;
	CHECK_EQ(run(&d, &believed, false, all, N), 0);
	CHECK_EQ(believed, 0xff);
	CHECK_EQ(d.calls, MAPPING_INTERRUPTED_MOST + 1);
	CHECK_EQ(run(&d, &believed, true, all, 0), 0); /* nothing to ask */
	CHECK_EQ(d.calls, MAPPING_INTERRUPTED_MOST + 1);
}

/* As often as it may before each device, which is more often than it may before one. */
static int interrupt(void *context, const struct mapping_call *call, uint32_t *ret_done)
{
	uint32_t *calls = context;

	if ((*calls)++ % MAPPING_INTERRUPTED_MOST)
		return -EINTR;
	*ret_done = call->done + 1;
	return call->done + 1 == call->n ? 0 : -EINTR;
}

static void test_storm(void)
{
	uint64_t believed = 0;
	uint32_t calls = 1;

	CHECK_EQ(mapping_run(&believed, false, all, N, interrupt, &calls), 0);
	CHECK_EQ(believed, 0xff);
	CHECK_EQ(calls, N * MAPPING_INTERRUPTED_MOST + 1);
}

static int lie(void *context, const struct mapping_call *call, uint32_t *ret_done)
{
	const uint32_t *says = context;

	*ret_done = *says;
	return call->unmap ? 0 : -EIO;
}

static void test_lies(void)
{
	uint32_t says = UINT32_MAX;
	uint64_t believed = 0;

	CHECK_EQ(mapping_run(&believed, false, all, N, lie, &says), -EIO);
	CHECK_EQ(believed, 0);
}

static uint32_t state = 1;

static uint32_t random_below(uint32_t n)
{
	state = state * 1664525u + 1013904223u;
	return (state >> 8) % n;
}

static void test_random(void)
{
	static const int errors[] = {0, 0, 0, -EIO, -EINTR, -EAGAIN, -ENOMEM};
	struct driver d = {0};
	uint64_t believed = 0;

	for (uint32_t i = 0; i < STEPS; i++) {
		uint64_t set = random_below(256), before = believed;
		bool unmap = random_below(2);
		uint32_t list[MAPPING_DEVICES];
		uint32_t n;
		int r;

		set &= unmap ? believed : ~believed;
		n = mapping_list(set, random_below(8), list);
		for (int op = 0; op < OPS; op++) {
			d.fail[op].err = errors[random_below(7)];
			d.fail[op].at = random_below(N + 1);
			d.fail[op].times = d.fail[op].err ? random_below(60) : 0;
		}
		r = run(&d, &believed, unmap, list, n);
		CHECK_EQ(believed, d.mapped);
		if (r == 0)
			CHECK_EQ(believed, unmap ? before & ~set : before | set);
		else
			CHECK(unmap ? (believed & ~before) == 0 : (before & ~believed) == 0);
	}
}

int main(void)
{
	test_list();
	test_fail_each();
	test_undo_fails();
	test_progress();
	test_storm();
	test_lies();
	test_random();
	return 0;
}
