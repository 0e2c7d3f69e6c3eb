/* SPDX-License-Identifier: Apache-2.0 */
/* How long a process keeps its host memory after a way back, by a clock and a host that the test plays. */
#include "guest/swap/ahead.h"

#include <time.h>

#include "base/now.h"
#include "ledger/swap.h"
#include "tests/check.h"

#define TOTAL UINT64_C(1000)

static uint64_t now_is = NS_PER_S, room = TOTAL, kept;

int __wrap_clock_gettime(clockid_t clock, struct timespec *ret);
int __wrap_clock_gettime(clockid_t clock, struct timespec *ret)
{
	ret->tv_sec = (time_t)(now_is / NS_PER_S);
	ret->tv_nsec = (long)(now_is % NS_PER_S);
	return 0;
}

uint64_t __wrap_host_memory_total(void);
uint64_t __wrap_host_memory_total(void)
{
	return TOTAL;
}

uint64_t __wrap_host_memory_own_room(void);
uint64_t __wrap_host_memory_own_room(void)
{
	return room;
}

/* --- A mover ---------------------------------------------------------------------------------- */

static uint64_t mover_kept(const void *self)
{
	return kept;
}

static void mover_forget(void *self)
{
	kept = 0;
}

static bool knows = true;

static bool mover_knows(const void *self)
{
	return knows;
}

static const struct mover_kind kind = {.kept = mover_kept, .forget = mover_forget, .knows = mover_knows};
static const struct movers movers = {{{&kind, NULL}, {&kind, NULL}}};

/* --- After a way back -------------------------------------------------------------------------- */

static struct guest guest;
static struct ahead ahead;
static const struct swap_answer answer = {.state = SWAP_RUNNING};

static void comes_back(uint32_t flags, bool again)
{
	guest.policy.flags = flags;
	ahead = (struct ahead){.guest = &guest, .movers = &movers};
	room = TOTAL;
	kept = 100;
	ahead_back(&ahead, 0, again, false);
}

/* Returns true if it still keeps it so many seconds later, where nothing but the room changes. */
static bool keeps_after(uint64_t seconds, uint64_t beside)
{
	now_is += seconds * NS_PER_S;
	room = beside;
	ahead_step(&ahead, &answer);
	return kept;
}

int main(void)
{
	/* The first half a minute. */
	comes_back(POLICY_SWAPPABLE, false);
	CHECK(keeps_after(1, TOTAL / 2));
	CHECK(!keeps_after(1, TOTAL / 2 - 1));
	/* And from then on, as long as most of the host is free. */
	comes_back(POLICY_SWAPPABLE, false);
	CHECK(keeps_after(31, TOTAL - TOTAL / 4));
	CHECK(keeps_after(86400, TOTAL));
	CHECK(ahead_step(&ahead, &answer) != UINT64_MAX); /* it looks again */
	CHECK(!keeps_after(1, TOTAL - TOTAL / 4 - 1));
	CHECK_EQ(ahead_step(&ahead, &answer), UINT64_MAX);
	/* A copy that is of no use but for its pages is not kept for so long. */
	comes_back(POLICY_SWAPPABLE | POLICY_LOOK_OFF, false);
	CHECK(keeps_after(29, TOTAL));
	CHECK(!keeps_after(2, TOTAL));
	comes_back(POLICY_SWAPPABLE | POLICY_LOOK_BYTES, false);
	CHECK(!keeps_after(31, TOTAL));
	knows = false; /* the device could not look, or it is another vendor's */
	comes_back(POLICY_SWAPPABLE, false);
	CHECK(!keeps_after(31, TOTAL));
	knows = true;
	/* Asked to run once more, it returns it. */
	comes_back(POLICY_SWAPPABLE, true);
	CHECK(!keeps_after(0, TOTAL));
	comes_back(POLICY_SWAPPABLE, false);
	CHECK(keeps_after(31, TOTAL));
	ahead_back(&ahead, 0, true, false);
	CHECK(!keeps_after(0, TOTAL));
	return 0;
}
